/** The tools that read the copy: `query`, `ask`, `changes` and `status`. */
import {
  type ChangeRow,
  Destination,
  excerptTables,
  freshnessOf,
  type NamedPoint,
  query,
  QueryError,
  queryExcerpt,
  queryExcerptAt,
  type QueryResult,
  Questions,
  requirePosition,
  type ResultAt,
  sqliteDialect
} from "@payments/copy"
import { Lists } from "@payments/core"
import { counted } from "@payments/program"
import { DateTime, Effect, Schema, type Scope, Stream } from "effect"
import { listsIn } from "../listing/ListsInStatement.ts"
import { omittedInAnswer, omittedInStatement } from "../listing/OmittedFields.ts"
import { optionalPointIn, pointProblems, pointWords } from "../listing/PointFlag.ts"
import type { Answer } from "./Answer.ts"
import { ListLabel } from "./ApiTools.ts"
import { ageSecondsOf, copyStateAt, copyStateOf } from "./CopyAge.ts"
import { cellValue, fitting, type Json } from "./Json.ts"
import { explained, leftOutColumns, offer } from "./LeftOut.ts"
import {
  define,
  pointArgument,
  Refused,
  requireDestination,
  type Sources,
  type Tool,
  type ToolError,
  wholeNumber
} from "./Tool.ts"
import { shows } from "./Visibility.ts"

export const copyTools = (sources: Sources): ReadonlyArray<Tool> => [
  queryTool(sources),
  askTool(sources),
  changesTool(sources),
  statusTool(sources)
]

const rowArguments = {
  at: pointArgument(`read the rows of an earlier point: ${pointWords}`),
  limit: wholeNumber(1, 500, "rows of this answer; default 50"),
  offset: wholeNumber(0, 1_000_000, "rows to skip; give the statement an ORDER BY")
}

const pseudonymWords =
  "Texts such as ps1_… are pseudonyms of values that identify a person: equal values have equal ones. Their values are not here"

const queryTool = (sources: Sources): Tool => {
  const { visibility } = sources
  const hidden = leftOutColumns(visibility)
  return define(
    "query",
    `Runs one SQLite statement (SELECT, WITH or VALUES) over the copy. Nothing is written. An amount has no known currency or ` +
      "unit. missing_since is not null if the service no longer returns the record. Tables: " +
      excerptTables(visibility).map(({ columns, table }) => `${table}(${columns.map(({ name }) => name).join(", ")})`)
        .join("; ") +
      (hidden.length === 0
        ? ""
        : `. Left out, because they identify a person: ${hidden.join(", ")}. ${offer}`) +
      (visibility.pseudonyms === undefined ? "" : `. ${pseudonymWords}`),
    Schema.Struct({ sql: Schema.NonEmptyString, ...rowArguments }),
    Effect.fnUntraced(function*({ at, limit, offset, sql }) {
      const destination = yield* requireDestination(sources)
      const point = yield* optionalPointIn(at, "at")
      const omitted = yield* omittedInStatement(destination, sql)
      return yield* rowsAnswer(
        sources,
        Effect.catchTag(
          excerptAnswer(destination, { sql }, visibility, point),
          "QueryError",
          ({ problem }) => Effect.fail(new QueryError({ problem: explained(problem, sql, visibility) }))
        ),
        {
          limit,
          offset,
          notes: omitted === undefined ? [] : [omitted],
          next: (more) => ({ tool: "query", arguments: { sql, ...withPoint(at), ...more } }),
          lists: listsIn(sql)
        }
      )
    })
  )
}

const withPoint = (at: string | number | undefined) => at === undefined ? {} : { at }

/** A result over the rows as they are, or as they were at a point. */
type Result = QueryResult & Partial<ResultAt>

const excerptAnswer = (
  destination: Destination.StoredDestination,
  statement: Questions.Statement | { readonly sql: string },
  visibility: Sources["visibility"],
  point: NamedPoint | undefined
): Effect.Effect<Result, ToolError, Scope.Scope> =>
  point === undefined
    ? queryExcerpt(destination, statement, visibility)
    : Effect.catchTags(queryExcerptAt(destination, statement, visibility, point), pointProblems)

const askTool = (sources: Sources): Tool => {
  const { visibility } = sources
  const isShown = ({ fields, list }: Questions.Question) => fields.every((field) => shows(visibility, list, field))
  const questions = Questions.questions.filter(isShown)
  const leftOut = Questions.questions.filter((question) => !isShown(question)).map(({ name }) => name)
  const names = questions.map(({ name }) => name)
  const leftOutWords = leftOut.length === 0
    ? ""
    : ` Left out, because they group by a field that identifies a person: ${leftOut.join(", ")}. ${offer}`
  return define(
    "ask",
    "Answers a ready-made question from the copy: for each group the number of records, the exact sum of each amount, and in how " +
      `many records it is null. Questions: ${
        questions.map(({ description, name }) => `${name}: ${description}`).join("; ")
      }.${leftOutWords}${visibility.pseudonyms === undefined ? "" : ` ${pseudonymWords}.`}`,
    Schema.Struct({
      question: Schema.Literals(names).annotate({ message: `give one of ${names.join(", ")}.${leftOutWords}` }),
      month: Schema.optionalKey(
        Schema.String.check(Schema.makeFilter(Questions.isMonth, {
          message: "Expected a month such as 2024-05"
        })).annotate({ description: "only records of this month, such as 2024-05" })
      ),
      ...rowArguments
    }),
    Effect.fnUntraced(function*({ at, limit, month, offset, question: name }) {
      const question = questions.find((known) => known.name === name)
      if (question === undefined) return yield* new Refused({ problem: "question: give the name of a question." })
      const destination = yield* requireDestination(sources)
      const point = yield* optionalPointIn(at, "at")
      yield* Questions.requireFields(destination, question, { month })
      const finalStates = sources.finalStates?.[question.list.label]
      const basis = point === undefined
        ? yield* Questions.basisOf(destination, question, finalStates)
        : yield* Effect.catchTags(Questions.basisAt(destination, question, point, finalStates), pointProblems)
      const omitted = yield* omittedInAnswer(destination, question)
      return yield* rowsAnswer(
        sources,
        answerIn(sources, destination, { question, given: { month, basis }, point }),
        {
          limit,
          offset,
          notes: [...omitted === undefined ? [] : [omitted], ...Questions.basisNotes(question, basis)],
          next: (more) => ({
            tool: "ask",
            arguments: { question: name, ...(month === undefined ? {} : { month }), ...withPoint(at), ...more }
          }),
          lists: [question.list]
        }
      )
    })
  )
}

/** Answers a question. With pseudonyms it runs over an excerpt, so that not even the order of the groups depends on values. */
const answerIn = (
  { visibility }: Sources,
  destination: Destination.StoredDestination,
  { given, point, question }: {
    readonly question: Questions.Question
    readonly given: Questions.QuestionParameters
    readonly point: NamedPoint | undefined
  }
): Effect.Effect<Result, ToolError, Scope.Scope> =>
  visibility.pseudonyms !== undefined
    ? Effect.flatMap(
      Questions.statementOf(sqliteDialect, question, given),
      (statement) => excerptAnswer(destination, statement, visibility, point)
    )
    : point === undefined
    ? Questions.answer(destination, question, given)
    : Effect.catchTags(Questions.answerAt(destination, question, given, point), pointProblems)

const longestQuery = "30 seconds"
/** Rows after those of the answer are counted up to this number. */
const mostCounted = 100_000

/** Reads the rows of a result that fit into an answer, and counts the others. */
const rowsAnswer = (
  sources: Sources,
  result: Effect.Effect<Result, ToolError, Scope.Scope>,
  { limit = 50, lists, next, notes = [], offset = 0 }: {
    readonly limit?: number | undefined
    readonly offset?: number | undefined
    readonly next: (more: { readonly limit: number; readonly offset: number }) => Answer["next"]
    readonly lists: ReadonlyArray<Lists.AnyList>
    /** What else is to be said about the rows. */
    readonly notes?: ReadonlyArray<string>
  }
): Effect.Effect<Answer, ToolError> =>
  Effect.scoped(Effect.gen(function*() {
    const { columns, point, rows } = yield* result
    const kept: Array<ReadonlyArray<Json>> = []
    let count = 0
    const isWhole = yield* Stream.runForEachWhile(rows, (chunk) =>
      Effect.sync(() => {
        for (const row of chunk) if (count++ >= offset && kept.length < limit) kept.push(row.map(cellValue))
        return count < offset + limit + mostCounted
      })).pipe(Effect.map(() => count < offset + limit + mostCounted))
    const data = fitting(kept)
    const end = offset + data.length
    const isAtEnd = isWhole && end >= count
    const copy = point === undefined ? yield* copyStateOf(sources, lists) : yield* copyStateAt(point)
    return {
      columns,
      data,
      complete: isAtEnd && offset === 0 && copy.isWhole,
      total: isWhole ? count : null,
      source: "copy" as const,
      ageSeconds: copy.ageSeconds,
      next: isAtEnd ? null : next({ limit, offset: end }),
      notes: [
        ...copy.notes,
        ...notes,
        ...isAtEnd ? [] : ["More rows follow. To count or to add up, use an aggregate: it covers all rows."],
        ...isAtEnd && offset > 0
          ? [
            `These are the last rows. ${
              counted(Math.min(offset, count), "row before them was", "rows before them were")
            } skipped.`
          ]
          : []
      ]
    }
  })).pipe(
    Effect.timeoutOrElse({
      duration: longestQuery,
      orElse: () =>
        Effect.fail(
          new Refused({ problem: `The query was stopped after ${longestQuery}. Select fewer rows, or aggregate them.` })
        )
    })
  )

const changesTool = (sources: Sources): Tool =>
  define(
    "changes",
    "Returns what exports found changed in the copy, in order: inserted, updated, missing and returned records. The first load of a " +
      "list is not among them.",
    Schema.Struct({
      after: wholeNumber(0, Number.MAX_SAFE_INTEGER, "only changes after this sequence number; default: all"),
      generation: Schema.optionalKey(
        Schema.String.annotate({ description: "the generation of `after`, which each change has beside its seq" })
      ),
      list: Schema.optionalKey(ListLabel),
      limit: wholeNumber(1, 100, "changes of this answer; default 20")
    }),
    Effect.fnUntraced(function*({ after, generation, limit = 20, list: label }) {
      const destination = yield* requireDestination(sources)
      const lists = Lists.all.filter((list) => label === undefined || list.label === label)
      const reader = yield* Destination.reader(destination)
      const { generation: current, pruned } = yield* reader.changeRange
      const start = after ?? pruned
      if (generation !== undefined && generation !== current) {
        yield* Effect.catchTag(
          requirePosition(reader, { generation, seq: start }),
          ["OtherGeneration", "BeyondLastChange", "ChangesRemoved"],
          ({ message }) => Effect.fail(new Refused({ problem: `${message} Begin again without \`after\`.` }))
        )
      }
      const rows = yield* reader.changes(start, limit, lists)
      const data = fitting(rows.map((row) => changeOf(sources, row)))
      const found = yield* query(
        destination,
        `SELECT count(*) FROM changes WHERE seq > ${start} AND list IN (${
          lists.map((list) => `'${list.label}'`).join(", ")
        })`
      )
      const [cell = null] = (yield* Stream.runCollect(Stream.flattenIterable(found.rows)))[0] ?? []
      const total = Number(cell !== null && typeof cell === "object" ? cell.json : cell)
      const last = rows[data.length - 1]?.seq ?? start
      const isAtEnd = data.length >= total
      const removed = pruned > start || (after === undefined && pruned > 0)
      const copy = yield* copyStateOf(sources, lists)
      return {
        data,
        complete: isAtEnd && !removed && copy.isWhole,
        total,
        source: "copy",
        ageSeconds: copy.ageSeconds,
        next: isAtEnd
          ? null
          : {
            tool: "changes",
            arguments: {
              after: last,
              ...(current === undefined ? {} : { generation: current }),
              limit,
              ...(label === undefined ? {} : { list: label })
            }
          },
        notes: [
          ...copy.notes,
          ...removed ? [`Changes up to ${pruned} were removed and cannot be read any more.`] : [],
          ...isAtEnd ? [] : ["More changes follow."]
        ]
      } satisfies Answer
    }, Effect.scoped)
  )

/** Returns the visible part of a change. Of an update, only the members that differ. */
const changeOf = (
  { visibility }: Sources,
  { after, at, before, fields, generation, id, kind, list: label, seq }: ChangeRow
): Json => {
  const list = Lists.all.find((known) => known.label === label)
  const common = { seq, generation: generation ?? null, list: label, at, change: kind, id }
  if (list === undefined) return common
  const names = [...new Set(fields.map((field) => visibility.memberName(list, field)))]
  const part = (text: string | undefined): Json => {
    const record = text === undefined ? null : visibility.recordOf(list, text)
    return names.length === 0 || typeof record !== "object" || record === null
      ? record
      : Object.fromEntries(Object.entries(record).filter(([name]) => fields.includes(name)))
  }
  return names.length === 0
    ? { ...common, record: part(after ?? before) }
    : { ...common, fields: names, before: part(before), after: part(after) }
}

const statusTool = (sources: Sources): Tool =>
  define(
    "status",
    "Says for each list of the copy how old it is, how many rows it has, and whether an export is running.",
    Schema.Struct({}),
    Effect.fnUntraced(function*() {
      const reader = yield* Destination.reader(yield* requireDestination(sources))
      const now = yield* DateTime.now
      const lists = yield* freshnessOf(reader, Lists.all)
      const data = lists.map((list): Json => ({
        list: list.list,
        ageSeconds: ageSecondsOf(list, now),
        rows: list.rows,
        missing: list.missing,
        quarantined: list.quarantined,
        lastChange: list.lastChange,
        generation: list.generation?.generation ?? null,
        heldBack: list.completeScan?.certificate?.heldBack ?? 0,
        lastCompleteScan: list.completeScan === undefined
          ? null
          : { startedAt: list.completeScan.startedAt, endedAt: list.completeScan.endedAt },
        running: list.running === undefined
          ? null
          : {
            startedAt: list.running.startedAt,
            records: list.running.records,
            isInterrupted: list.holder === undefined
          }
      }))
      const copy = yield* copyStateOf(sources, Lists.all)
      return {
        data,
        complete: !copy.hasHeldBack,
        total: data.length,
        source: "copy",
        ageSeconds: copy.ageSeconds,
        next: null,
        notes: copy.notes
      } satisfies Answer
    }, Effect.scoped)
  )
