/** `payments query`: answers a ready-made question about a destination, or runs an SQL query on it. */
import {
  Destination,
  type FieldCondition,
  freshnessOf,
  heldBackText,
  type NamedPoint,
  nearest,
  query,
  queryAt,
  type QueryResult,
  Questions,
  type ResultAt,
  suggestion,
  tables,
  unknownName
} from "@payments/copy"
import { Lists } from "@payments/core"
import {
  checkAll,
  chosenJournal,
  CommandExit,
  ExitCode,
  fromDestination,
  fromDestinationIfAny,
  fromFlag,
  openSettingsOf,
  setting,
  sourceOfDestination,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect, Option, Stream, String } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { type ChartOutputs, checkFiles, writeChart } from "../charts/ChartOutput.ts"
import { outputs } from "../contract/Outputs.ts"
import { listsIn } from "../listing/ListsInStatement.ts"
import { omittedInAnswer, omittedInStatement } from "../listing/OmittedFields.ts"
import { logPoint, optionalPointIn, pointMetavar, pointNotes, pointProblems, pointWords } from "../listing/PointFlag.ts"
import { conditionsOf } from "../listing/Selection.ts"
import { conditionSyntax } from "../listing/Where.ts"
import type { ControlOptions } from "../output/ControlSheet.ts"
import { isJournal, journalFormats, writeJournal } from "../output/Journal.ts"
import { type Column, columnsOfCells, type Heading, lookOf, memberNames, printRows } from "../output/Rows.ts"
import {
  amountsNote,
  conditionText,
  hasHiddenValue,
  printedIn,
  type RowsTarget,
  sheetFormats,
  stateBefore,
  targetFlags,
  targetIn,
  writeRows
} from "../output/RowsTarget.ts"
import { printTables } from "../output/TablesOutput.ts"
import { valueText } from "../output/ValueText.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { printingTo } from "../output/WrittenFile.ts"

/** How many groups a terminal shows unless `--top` says more. */
const defaultTop = 20

const formats = [...sheetFormats, ...journalFormats] as const

export const queryCommand = Command.make(
  "query",
  {
    sql: Argument.String("sql").pipe(
      Argument.withMetavar("QUESTION|SQL"),
      Argument.withDescription(
        "the name of a question, or one statement in quotes: SELECT, WITH or VALUES; @FILE or @- (stdin) reads the statement"
      ),
      Argument.optional,
      Argument.map(Option.getOrUndefined)
    ),
    from: fromFlag,
    at: textFlag("at", pointMetavar, `read the rows as they were then: ${pointWords}`),
    month: textFlag("month", "YYYY-MM", "only records of this month; each question says by which date"),
    where: Flag.String("where").pipe(
      Flag.withMetavar("CONDITION"),
      Flag.withDescription(
        `of a question: only records that meet this condition; can be given several times: ${conditionSyntax}. VALUE may be @FILE or @- (stdin)`
      ),
      Flag.atLeast(0)
    ),
    top: textFlag(
      "top",
      "NUMBER",
      `of a question: only this many groups, the largest amounts first; without it a terminal shows ${defaultTop} groups, or all if time orders them`
    ),
    chart: switchFlag("chart", "draw the first column of numbers: bars, or a line over many days"),
    html: textFlag("html", "FILE", "write a page with a chart and a table, to send and to print"),
    svg: textFlag("svg", "FILE", "write the chart as an SVG file, to paste into a report"),
    tables: switchFlag("tables", "print the tables and columns, what they mean, and which values the copy has"),
    questions: switchFlag("questions", "print the questions"),
    envelope: switchFlag(
      "envelope",
      "with --format json: an object with schemaVersion, the columns and the rows as items, instead of an array of rows"
    ),
    ...targetFlags(formats)
  },
  Effect.fnUntraced(
    function*(given) {
      const target = yield* targetIn(given, formats)
      if (given.tables || given.questions) {
        const printed = yield* printedIn(target)
        return yield* printingTo(
          target.output,
          given.tables
            ? printTables(yield* copyIfAny(given.from), printed)
            : printRows(questionColumns, Stream.make(Questions.questions), printed.format, {
              empty: "",
              csv: target.csv,
              output: outputs.queryQuestions
            })
        )
      }
      const { destination, month, point, question, sql, top } = yield* checkAll({
        point: optionalPointIn(given.at),
        question: questionOf(given.sql),
        sql: statementTextOf(given.sql),
        month: setting({ name: "month", text: given.month }, undefined, {
          expected: "a month such as 2024-05",
          parse: (text) => Questions.isMonth(text) ? text : undefined
        }),
        top: setting({ name: "top", text: given.top }, undefined, wholeNumber(1)),
        flags: conflictOf(given),
        destination: fromDestination(given.from)
      })
      yield* checkFiles(given, destination)
      const forQuestions = [
        ...month === undefined ? [] : ["--month"],
        ...top === undefined ? [] : ["--top"],
        ...given.where.length === 0 ? [] : ["--where"]
      ]
      if (question === undefined) {
        if (forQuestions.length > 0) {
          return yield* usage(
            `${forQuestions.join(", ")} ${
              forQuestions.length === 1 ? "is" : "are"
            } for questions. In a statement, write a condition such as WHERE, or LIMIT.`
          )
        }
        return yield* printStatement({ ...given, ...target }, { destination, sql, point })
      }
      const where = yield* conditionsOf(question.list, given.where, columnNamesOf(question.list))
      yield* Questions.requireComparable(destination, question.list, where)
      const { finalStates } = yield* openSettingsOf(yield* sourceOfDestination(given.from))
      const configured = finalStates?.[question.list.label]
      const basis = point === undefined
        ? yield* Questions.basisOf(destination, question, configured)
        : yield* Questions.basisAt(destination, question, point, configured)
      const ages = point === undefined ? yield* agesOf(destination, question) : []
      const omitted = yield* omittedInAnswer(destination, question, where)
      const asked: Asked = { destination, question, month, top, where, ages, point, basis, omitted }
      const { leftOut, reached } = yield* printAnswer({ ...given, ...target }, asked)
      if (omitted !== undefined) yield* logWrapped(omitted)
      if (reached !== undefined) yield* logPoint(reached)
      for (const note of Questions.basisNotes(question, basis)) yield* logWrapped(note)
      // The totals of a list that was never read to its end, or of which the last scan returned a part, must not look complete.
      for (const age of ages) {
        if (age.endedAt === undefined || age.heldBack !== undefined) yield* logWrapped(ageText(age))
      }
      yield* requireAll(leftOut)
    },
    (effect, given) =>
      Effect.catchTags(effect, {
        QueryError: ({ problem }) => usage(withSuggestion(problem, given.sql ?? "")),
        ...pointProblems
      })
  )
).pipe(
  Command.withDescription(
    [
      "Answer a question about a database or a folder, or query it with SQL; writes nothing there and rounds no number.",
      "",
      "Questions:",
      ...Questions.questions.map(({ description, name }) => `  ${name.padEnd(30)} ${description}`),
      "",
      "Tables (--tables prints their columns):",
      ...tables.map(({ description, name }) => `  ${name.padEnd(22)} ${description}`),
      "",
      "Sums are exact: use sum in PostgreSQL, and exact_sum in SQLite if a sum may need more than 64 bits."
    ].map((line) => line === "" || line.startsWith("Answer") ? line : `  ${line}`).join("\n")
  ),
  Command.withShortDescription("Answer ready-made questions about a copy, or query it with SQL; rounds no number"),
  Command.withExamples([
    {
      command: "payments query settled-by-day --month 2024-01 --chart --from sqlite:./payments.db",
      description: "the amounts of each settlement date as bars"
    },
    {
      command:
        `payments query --from sqlite:./payments.db "SELECT status, count(*), sum(amount) FROM invoices GROUP BY status"`,
      description: "exact sums of amounts"
    },
    {
      command: "payments query invoices-by-status --at 2024-05-31 --from sqlite:./payments.db",
      description: "the invoices by the status that they had at the end of this day"
    },
    {
      command: "payments query settled-by-day --month 2024-01 --from sqlite:./payments.db --output january.xlsx",
      description: "a workbook, with a control sheet for the sums and the copy"
    },
    {
      command: `payments query --from file:./payments --format csv "SELECT id, amount FROM payout_requests"`,
      description: "rows as CSV"
    }
  ])
)

/** Prints the result of a statement, and what is to be said about its rows. */
const printStatement = Effect.fnUntraced(function*(
  given: Outputs,
  { destination, point, sql }: Pick<Asked, "destination" | "point"> & { readonly sql: string }
) {
  const lists = listsIn(sql)
  const before = yield* stateBefore(given, destination, lists)
  const omitted = yield* omittedInStatement(destination, sql)
  const { leftOut, reached } = yield* Effect.scoped(Effect.gen(function*() {
    const result: Result = point === undefined
      ? yield* query(destination, sql)
      : yield* queryAt(destination, { sql }, point)
    if (!isDrawn(given)) {
      const asked = [["statement", sql] as const]
      const notes = () => notesOf(omitted, result)
      const control = { asked, destination, lists, before, isNow: point === undefined, notes }
      const left = yield* writeResult(result, given, { empty: "No rows.", control })
      return { reached: result.point, leftOut: left }
    }
    yield* writeChart(given, result, {
      title: "Query result",
      description: undefined,
      sql,
      chart: undefined,
      notes: [
        ...omitted === undefined ? [] : [omitted],
        ...result.point === undefined
          ? (yield* agesOf(destination, undefined)).map((age) => ageText(age))
          : pointNotes(result.point)
      ],
      emptyMessage: "No rows.",
      totals: undefined
    })
    return { reached: result.point, leftOut: undefined }
  }))
  if (omitted !== undefined) yield* logWrapped(omitted)
  if (reached !== undefined) {
    yield* logPoint(reached)
    return yield* requireAll(leftOut)
  }
  // The rows are printed already, and a user who may read only some tables need not read the others.
  const ages = yield* Effect.orElseSucceed(agesOf(destination, undefined, lists), () => [])
  for (const age of ages) if (age.heldBack !== undefined) yield* logWrapped(ageText(age))
  yield* requireAll(leftOut)
})

interface Outputs extends ChartOutputs, RowsTarget<typeof formats[number]> {
  readonly envelope: boolean
}

/** Writes rows as a journal, a workbook or text. Returns which rows are left out. */
const writeResult = Effect.fnUntraced(function*(
  { columns, rows }: QueryResult,
  given: Outputs,
  { control, empty, question }: {
    readonly empty: string
    readonly question?: Questions.Question
    readonly control: ControlOptions & { readonly destination: Destination.StoredDestination }
  }
) {
  const { format } = given
  if (isJournal(format)) {
    const settings = yield* chosenJournal
    const [list, other] = control.lists
    if (list === undefined || other !== undefined) return yield* usage("A journal is of one list. Query one list.")
    const ages = control.isNow
      ? yield* Effect.orElseSucceed(agesOf(control.destination, question, [list]), () => [])
      : []
    const notes = () => [
      `Read from ${Destination.shown(control.destination)}.`,
      ...ages.map((age) => ageText(age, age.endedAt)),
      ...control.notes()
    ]
    return yield* writeJournal(rows, given.output, { columns, format, list, question, settings, notes })
  }
  const headings = columnsOfCells(columns.map((name) => headingOf(name, question)))
  const envelope = envelopeOf(given, columns)
  const notes = () => [...question === undefined ? [] : [amountsNote], ...control.notes()]
  yield* writeRows(headings, rows, { ...given, format }, { empty, control: { ...control, notes }, ...envelope })
  return undefined
})

/** Fails if rows are left out. */
const requireAll = (leftOut: string | undefined) =>
  leftOut === undefined
    ? Effect.void
    : Effect.fail(new CommandExit({ exitCode: ExitCode.incomplete, problem: leftOut }))

/** The sentences of a control sheet. */
const notesOf = (omitted: string | undefined, { point }: Result): ReadonlyArray<string> => [
  ...omitted === undefined ? [] : [omitted],
  ...point === undefined ? [] : pointNotes(point)
]

/**
 * Makes a JSON document an object with a version. Without `--envelope` it is an array, whose rows have exactly the columns of
 * the statement, because a member of ours would be one more column.
 */
const envelopeOf = ({ envelope, format }: Outputs, columns: QueryResult["columns"]) =>
  envelope && format === "json"
    ? { members: `"columns":${JSON.stringify(memberNames(columns))}`, output: outputs.query }
    : {}

const isDrawn = ({ chart, html, svg }: Outputs): boolean => chart || html !== undefined || svg !== undefined

/** A result over the rows as they are, or as they were at a point. */
type Result = QueryResult & Partial<ResultAt>

interface Asked {
  readonly destination: Destination.StoredDestination
  readonly question: Questions.Question
  readonly month: string | undefined
  readonly top: number | undefined
  readonly where: ReadonlyArray<FieldCondition>
  readonly ages: ReadonlyArray<ListAge>
  /** The point of the rows; undefined for those of now. */
  readonly point: NamedPoint | undefined
  readonly basis: Questions.Basis | undefined
  /** A sentence about the fields that the copy leaves out. Undefined if it leaves out none of those that are asked for. */
  readonly omitted: string | undefined
}

/** Prints the answer to a question. People also see the sums over all groups, so they get the first groups only. */
const printAnswer = Effect.fnUntraced(function*(given: Outputs, asked: Asked) {
  const { basis, destination, month, point, question, top, where } = asked
  const parameters = {
    basis,
    month,
    where,
    // A chart over time stays in the order of time unless the largest are wanted.
    isLargestFirst: top === undefined ? undefined : true
  }
  const before = yield* stateBefore(given, destination, [question.list])
  const result: Result = point === undefined
    ? yield* Questions.answer(destination, question, parameters)
    : yield* Questions.answerAt(destination, question, parameters, point)
  const statement = yield* Questions.statementOf(Destination.operations(destination).dialect, question, parameters)
  const sql = where.some(hasHiddenValue) ? statement.sql : Questions.withValues(statement)
  if (isDrawn(given)) {
    yield* drawAnswer(given, asked, { result, sql })
    return { reached: result.point, leftOut: undefined }
  }
  if (given.format === "table" || (given.format === undefined && (yield* lookOf(undefined)).format === "table")) {
    yield* printingTo(given.output, printTable(asked, result))
    return { reached: result.point, leftOut: undefined }
  }
  const rows = Stream.flattenIterable(result.rows).pipe(Stream.take(top ?? Infinity), Stream.chunks)
  const notes = () => [...notesOf(asked.omitted, result), ...Questions.basisNotes(question, basis)]
  const control = {
    asked: askedIn(asked, sql),
    destination,
    lists: [question.list],
    before,
    isNow: point === undefined,
    notes
  }
  const leftOut = yield* writeResult({ ...result, rows }, given, { empty: noRowsMessage(asked), question, control })
  return { reached: result.point, leftOut }
}, Effect.scoped)

/** Returns what a control sheet says about a question. */
const askedIn = ({ month, question, top, where }: Asked, sql: string): ControlOptions["asked"] => [
  ["question", `${question.name}: ${question.description}`],
  ...month === undefined ? [] : [["month", month] as const],
  ...where.map((condition) => ["condition", conditionText(condition)] as const),
  ...top === undefined ? [] : [["groups", `the ${top} largest`] as const],
  ["statement", sql]
]

const drawAnswer = Effect.fnUntraced(function*(
  given: Outputs,
  asked: Asked,
  { result, sql }: { readonly result: Result; readonly sql: string }
) {
  const { ages, basis, omitted, question, top } = asked
  const { emptyTotal } = yield* Effect.promise(() => import("../output/QuestionRows.ts"))
  yield* writeChart(given, result, {
    title: titleOf(asked),
    description: amountsNote,
    sql,
    chart: top === undefined ? question.chart : { ...question.chart, isOverTime: false },
    notes: [
      ...omitted === undefined ? [] : [omitted],
      ...result.point === undefined ? ages.map((age) => ageText(age)) : pointNotes(result.point),
      ...Questions.basisNotes(question, basis)
    ],
    emptyMessage: noRowsMessage(asked),
    totals: { shown: top ?? Infinity, empty: emptyTotal(question, result.columns) }
  })
})

const printTable = Effect.fnUntraced(function*(asked: Asked, result: Result) {
  const { question, top } = asked
  const { emptyTotal, withTotals } = yield* Effect.promise(() => import("../output/QuestionRows.ts"))
  const noGroup = emptyTotal(question, result.columns)
  const columns = columnsOfCells(result.columns.map((name) => headingOf(name, question)))
  const isShortened = top === undefined && (yield* lookOf("table")).style.onTerminal && !question.chart.isOverTime
  const shown = top ?? (isShortened ? defaultTop : Infinity)
  let others = noGroup
  const rows = withTotals(result.rows, noGroup, shown, (found) => void (others = found))
  yield* printRows(columns, rows, "table", { empty: noRowsMessage(asked) })
  if (isShortened && others.groups > 0) {
    yield* logWrapped(`These are the ${shown} largest groups. --top shows more, and --format csv all of them.`)
  }
})

const noRowsMessage = ({ month, question: { status }, where }: Asked): string =>
  [
    month === undefined ? "No rows." : `No rows in ${month}. Without --month, the rows of all months are shown.`,
    where.length === 0 ? "" : "Without --where, all records count.",
    status === undefined
      ? ""
      : `Only records with the status ${status} count. payments query payouts-by-status prints which statuses there are.`
  ].filter((sentence) => sentence !== "").join(" ")

/** Returns the statement, which a file or stdin may have. */
const statementTextOf = (given = "") =>
  given.startsWith("@") ? valueText("The statement", given, "any") : Effect.succeed(given.trim())

/** Adds what the statement probably means, and where its names stand. */
const withSuggestion = (problem: string, sql: string): string => {
  const known = tables.map(({ columns, name }) => ({ name, columns: columns.map((column) => column.name) }))
  const meant = suggestion(problem, sql, known)
  const unknown = unknownName(problem)
  return [
    problem,
    ...meant === undefined ? [] : [meant],
    ...unknown === undefined || unknown.kind === "function"
      ? []
      : ["payments query --tables prints the tables and columns."]
  ].join(" ")
}

const looksLikeName = (text: string): boolean => /^[a-z]+(-[a-z]+)*$/.test(text) && text.length <= 40

/** Returns the question with this name, or undefined for a statement. */
const questionOf = (sql: string | undefined) => {
  const names = Questions.questions.map(({ name }) => name)
  if (sql === undefined) {
    return Effect.fail(usage(`Name a question, or give a statement in quotes. The questions are ${names.join(", ")}.`))
  }
  const question = Questions.questions.find(({ name }) => name === sql)
  if (question !== undefined || !looksLikeName(sql)) return Effect.succeed(question)
  const near = nearest(sql, names)
  const hint = near.length === 0 ? `The questions are ${names.join(", ")}.` : `Did you mean ${near.join(" or ")}?`
  return Effect.fail(usage(`There is no question ${sql}. ${hint}`))
}

const conflictOf = ({ chart, envelope, format, html, output, svg }: Omit<Outputs, "csv">) => {
  if (envelope && format !== "json") return usage("--envelope is for --format json. Add it, or leave --envelope out.")
  const files = [["--html", html, "page"], ["--svg", svg, "chart"]] as const
  for (const [flag, file, what] of files) {
    if (file === "-") {
      return usage(`${flag}: name a file, such as ./${what}.${flag.slice(2)}. Nothing is written to stdout.`)
    }
  }
  const drawn = [...chart ? ["--chart"] : [], ...files.flatMap(([flag, file]) => file === undefined ? [] : [flag])]
  return (format !== undefined || output !== undefined) && drawn.length > 0
    ? usage(`${drawn[0]} and ${format === undefined ? "--output" : "--format"} exclude each other.`)
    : Effect.void
}

const titleOf = ({ month, question, where }: Asked): string =>
  [
    String.capitalize(question.description),
    ...month === undefined ? [] : [month],
    ...where.map(conditionText)
  ].join(", ")

const columnNamesOf = (list: Lists.AnyList): ReadonlyArray<string> =>
  tables.find(({ name }) => name === String.camelToSnake(list.name))?.columns.map(({ name }) => name) ?? []

/** How whole a list is. */
interface ListAge {
  readonly list: string
  /** The end of the last complete export of the list; undefined if there was none. */
  readonly endedAt: string | undefined
  /** What that export did not return, if it held rows back. */
  readonly heldBack: string | undefined
}

/** Returns the ages of the lists that a question reads. A statement may read all lists that have rows. */
const agesOf = (
  destination: Destination.StoredDestination,
  question: Questions.Question | undefined,
  of: ReadonlyArray<Lists.AnyList> = question === undefined ? Lists.all : [question.list]
) =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    const lists = yield* freshnessOf(reader, of)
    return lists.filter(({ rows }) => question !== undefined || rows > 0).map(({ completeScan, list }): ListAge => ({
      list,
      endedAt: completeScan?.endedAt,
      heldBack: heldBackText(completeScan?.certificate)
    }))
  }))

/** Says how whole a list is. `time` is how the end of its last complete export is written; by default to the minute. */
const ageText = (
  { endedAt, heldBack, list }: ListAge,
  time = `${endedAt?.slice(0, 16).replace("T", " ")} UTC`
): string =>
  endedAt === undefined
    ? `${list}: no export has read the whole list yet, so these figures may be incomplete.`
    : heldBack !== undefined
    ? `${list}: ${heldBack}. These figures include them.`
    : `${list}: the last complete export ended at ${time}.`

/** Ids are never shortened, so that people can copy them. */
const headingOf = (name: string, question?: Questions.Question): Heading => {
  if (name === "id" || name.endsWith("_id")) return { name, wholeUpTo: 40 }
  if (name === "status") return { name, kind: "state" }
  return question !== undefined && !question.labels.includes(name)
    ? { name, kind: "integer" }
    : { name }
}

/** Returns the copy. The tables are the same without one, so only a wrong `--from` is an error. */
const copyIfAny = (from: string | undefined) =>
  from === undefined
    ? Effect.orElseSucceed(fromDestinationIfAny(from), () => undefined)
    : fromDestinationIfAny(from)

const questionColumns: ReadonlyArray<Column<Questions.Question>> = [
  { name: "question", wholeUpTo: 40, of: ({ name }) => name },
  { name: "description", minWidth: 30, of: ({ description }) => description },
  { name: "month", of: ({ monthOf }) => monthOf }
]
