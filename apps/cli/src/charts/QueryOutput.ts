/** What `payments query` prints: the result of a statement, or the answer to a question, and what is to be said about it. */
import {
  Destination,
  type FieldCondition,
  freshnessOf,
  heldBackText,
  type NamedPoint,
  query,
  queryAt,
  type QueryResult,
  Questions,
  type ResultAt
} from "@payments/copy"
import { Lists } from "@payments/core"
import { chosenJournal, CommandExit, ExitCode, usage } from "@payments/program"
import { Effect, Stream, String } from "effect"
import { outputs } from "../contract/Outputs.ts"
import { listsIn } from "../listing/ListsInStatement.ts"
import { omittedInStatement } from "../listing/OmittedFields.ts"
import { logPoint, pointNotes } from "../listing/PointFlag.ts"
import type { ControlOptions } from "../output/ControlSheet.ts"
import { isJournal, journalFormats, writeJournal } from "../output/Journal.ts"
import { columnsOfCells, type Heading, lookOf, memberNames, printRows } from "../output/Rows.ts"
import {
  amountsNote,
  conditionText,
  hasHiddenValue,
  type RowsTarget,
  sheetFormats,
  stateBefore,
  writeRows
} from "../output/RowsTarget.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { printingTo } from "../output/WrittenFile.ts"
import { type ChartOutputs, writeChart } from "./ChartOutput.ts"

/** How many groups a terminal shows unless `--top` says more. */
export const defaultTop = 20

export const queryFormats = [...sheetFormats, ...journalFormats] as const

export type QueryFormat = typeof queryFormats[number]

/** Prints the result of a statement, and what is to be said about its rows. */
export const printStatement = Effect.fnUntraced(function*(
  given: QueryTarget,
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

/** Where a result goes, and as what. */
export interface QueryTarget extends ChartOutputs, RowsTarget<QueryFormat> {
  readonly envelope: boolean
}

/** Writes rows as a journal, a workbook or text. Returns which rows are left out. */
const writeResult = Effect.fnUntraced(function*(
  { columns, rows }: QueryResult,
  given: QueryTarget,
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
const envelopeOf = ({ envelope, format }: QueryTarget, columns: QueryResult["columns"]) =>
  envelope && format === "json"
    ? { members: `"columns":${JSON.stringify(memberNames(columns))}`, output: outputs.query }
    : {}

const isDrawn = ({ chart, html, svg }: QueryTarget): boolean => chart || html !== undefined || svg !== undefined

/** The result of a query of the current rows, or of those of an earlier point. */
type Result = QueryResult & Partial<ResultAt>

/** A question with everything that its answer depends on. */
export interface Asked {
  readonly destination: Destination.StoredDestination
  readonly question: Questions.Question
  readonly month: string | undefined
  readonly top: number | undefined
  readonly where: ReadonlyArray<FieldCondition>
  /** The point of the rows; undefined for those of now. */
  readonly point: NamedPoint | undefined
  readonly basis: Questions.Basis | undefined
  /** A sentence about the fields that the copy leaves out. Undefined if it leaves out none of those that are asked for. */
  readonly omitted: string | undefined
}

/** Prints the answer to a question, and what is to be said about its records. */
export const printAnswer = Effect.fnUntraced(function*(given: QueryTarget, asked: Asked) {
  const { basis, destination, omitted, point, question } = asked
  const ages = point === undefined ? yield* agesOf(destination, question) : []
  const { leftOut, reached } = yield* writeAnswer(given, asked, ages)
  if (omitted !== undefined) yield* logWrapped(omitted)
  if (reached !== undefined) yield* logPoint(reached)
  for (const note of Questions.basisNotes(question, basis)) yield* logWrapped(note)
  // The totals of a list that was never read to its end, or of which the last scan returned a part, must not look complete.
  for (const age of ages) {
    if (age.endedAt === undefined || age.heldBack !== undefined) yield* logWrapped(ageText(age))
  }
  yield* requireAll(leftOut)
})

/** Writes the answer. People also see the sums over all groups, so they get the first groups only. */
const writeAnswer = Effect.fnUntraced(function*(given: QueryTarget, asked: Asked, ages: ReadonlyArray<ListAge>) {
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
    yield* drawAnswer(given, asked, { ages, result, sql })
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
  given: QueryTarget,
  asked: Asked,
  { ages, result, sql }: { readonly ages: ReadonlyArray<ListAge>; readonly result: Result; readonly sql: string }
) {
  const { basis, omitted, question, top } = asked
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

const titleOf = ({ month, question, where }: Asked): string =>
  [
    String.capitalize(question.description),
    ...month === undefined ? [] : [month],
    ...where.map(conditionText)
  ].join(", ")

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
