/** `payments query`: answers a ready-made question about a destination, or runs an SQL query on it. */
import { nearest, Questions, suggestion, tables, unknownName } from "@payments/copy"
import type { Lists } from "@payments/core"
import {
  checkAll,
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
import { checkFiles } from "../charts/ChartOutput.ts"
import { defaultTop, printAnswer, printStatement, queryFormats, type QueryTarget } from "../charts/QueryOutput.ts"
import { outputs } from "../contract/Outputs.ts"
import { omittedInAnswer } from "../listing/OmittedFields.ts"
import { optionalPointIn, pointMetavar, pointProblems, pointWords } from "../listing/PointFlag.ts"
import { conditionsOf } from "../listing/Selection.ts"
import { conditionSyntax } from "../listing/Where.ts"
import { isJournal } from "../output/Journal.ts"
import { type Column, printRows } from "../output/Rows.ts"
import { printedIn, targetFlags, targetIn } from "../output/RowsTarget.ts"
import { printTables } from "../output/TablesOutput.ts"
import { valueText } from "../output/ValueText.ts"
import { printingTo } from "../output/WrittenFile.ts"

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
    at: textFlag("at", pointMetavar, `read the rows of an earlier point: ${pointWords}`),
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
    ...targetFlags(queryFormats)
  },
  Effect.fnUntraced(
    function*(given) {
      const target = yield* targetIn(given, queryFormats)
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
      if (top !== undefined && isJournal(target.format)) {
        return yield* usage("A journal has every day of the answer. Leave --top out.")
      }
      const where = yield* conditionsOf(question.list, given.where, columnNamesOf(question.list))
      yield* Questions.requireFields(destination, question, { month, where })
      const { finalStates } = yield* openSettingsOf(yield* sourceOfDestination(given.from))
      const configured = finalStates?.[question.list.label]
      const basis = point === undefined
        ? yield* Questions.basisOf(destination, question, configured)
        : yield* Questions.basisAt(destination, question, point, configured)
      const omitted = yield* omittedInAnswer(destination, question)
      yield* printAnswer({ ...given, ...target }, { destination, question, month, top, where, point, basis, omitted })
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

const conflictOf = ({ chart, envelope, format, html, output, svg }: Omit<QueryTarget, "csv">) => {
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

const columnNamesOf = (list: Lists.AnyList): ReadonlyArray<string> =>
  tables.find(({ name }) => name === String.camelToSnake(list.name))?.columns.map(({ name }) => name) ?? []

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
