/** `payments query`: answers a ready-made question about a destination, or runs an SQL query on it. */
import { Lists } from "@payments/core"
import { Destination, freshnessOf, query, Questions, tables } from "@payments/export"
import { checkAll, fromDestination, fromFlag, nearest, setting, textFlag, usage } from "@payments/export/program"
import { Effect, Stream, String } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { printChart, writePage } from "../charts/ChartOutput.ts"
import { logWrapped } from "../Output.ts"
import { type Column, printRows, type RowFormat, rowFormatFlag } from "../RowsOutput.ts"

const booleanFlag = (name: string, description: string) =>
  Flag.Boolean(name).pipe(Flag.withDescription(description), Flag.withDefault(false))

/** `payments query`. */
export const queryCommand = Command.make(
  "query",
  {
    sql: Argument.String("sql").pipe(
      Argument.withMetavar("QUESTION|SQL"),
      Argument.withDescription("the name of a question, or one statement in quotes: SELECT, WITH or VALUES"),
      Argument.optional
    ),
    from: fromFlag,
    month: textFlag("month", "YYYY-MM", "only records of this month; each question says by which date"),
    chart: booleanFlag("chart", "draw the first column of numbers: bars, or a line over many days"),
    html: textFlag("html", "FILE", "write a page with a chart and a table, to send and to print"),
    tables: booleanFlag("tables", "print the tables and columns"),
    questions: booleanFlag("questions", "print the questions"),
    format: rowFormatFlag
  },
  Effect.fnUntraced(
    function*(given) {
      if (given.tables) return yield* printRows(tableColumns, Stream.make(tableRows), given.format, "")
      if (given.questions) return yield* printRows(questionColumns, Stream.make(questionRows), given.format, "")
      const sql = given.sql._tag === "Some" ? given.sql.value : undefined
      const { destination, month, question } = yield* checkAll({
        question: questionOf(sql),
        month: setting({ name: "month", text: given.month }, undefined, {
          expected: "a month such as 2024-05",
          parse: (text) => Questions.isMonth(text) ? text : undefined
        }),
        flags: conflictOf(given),
        destination: fromDestination(given.from)
      })
      if (question === undefined && month !== undefined) {
        return yield* usage("--month is for questions. In a statement, write a condition such as WHERE.")
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const result = question === undefined
          ? yield* query(destination, sql ?? "")
          : yield* Questions.answer(destination, question, { month })
        const noRows = month === undefined
          ? "No rows."
          : `No rows in ${month}. Without --month, the rows of all months are shown.`
        if (given.chart) return yield* printChart(result, question?.chart, noRows)
        if (given.html === undefined) {
          return yield* printRows(
            result.columns.map((name) => columnOf(name, question)),
            result.rows,
            given.format,
            noRows
          )
        }
        yield* writePage(given.html, result, {
          title: question === undefined ? "Query result" : titleOf(question, month),
          description: question === undefined ? undefined : amountsNote,
          sql: question === undefined
            ? sql ?? ""
            : Questions.statementOf(destination, question, { month }).replace("$1", `'${month}'`),
          chart: question?.chart,
          notes: (yield* agesOf(destination, question)).map(ageText)
        })
      }))
      // The totals of a list that was never read to its end must not look complete.
      for (const age of question === undefined ? [] : yield* agesOf(destination, question)) {
        if (age.endedAt === undefined) yield* logWrapped(ageText(age))
      }
    },
    Effect.catchTag("QueryError", ({ problem }) => usage(problem))
  )
).pipe(
  Command.withDescription(
    [
      "Answer a question about a database or a folder, or query it with SQL; writes nothing there and rounds no number.",
      "",
      "Questions:",
      ...Questions.questions.map(({ description, name }) => `  ${name.padEnd(22)} ${description}`),
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
      command: `payments query --from file:./payments --format csv "SELECT id, amount FROM payout_requests"`,
      description: "rows as CSV"
    }
  ])
)

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
  const suggestion = near.length === 0 ? `The questions are ${names.join(", ")}.` : `Did you mean ${near.join(" or ")}?`
  return Effect.fail(usage(`There is no question ${sql}. ${suggestion}`))
}

const conflictOf = ({ chart, format, html }: {
  readonly chart: boolean
  readonly format: RowFormat | undefined
  readonly html: string | undefined
}) => {
  const outputs = [
    chart ? ["--chart"] : [],
    html === undefined ? [] : ["--html"],
    format === undefined ? [] : ["--format"]
  ]
    .flat()
  if (html === "-") return usage("--html: name a file, such as ./page.html. A page is not written to stdout.")
  return outputs.length > 1 ? usage(`${outputs.join(" and ")} exclude each other.`) : Effect.void
}

const titleOf = ({ description }: Questions.Question, month: string | undefined): string =>
  `${String.capitalize(description)}${month === undefined ? "" : `, ${month}`}`

const amountsNote =
  "Amounts are integers as the service sends them. Its document specifies neither their currency nor their unit."

/** The end of the last complete export of a list; undefined if there was none. */
interface ListAge {
  readonly list: string
  readonly endedAt: string | undefined
}

/** Returns the ages of the lists that a question reads. A statement may read all lists that have rows. */
const agesOf = (destination: Destination.StoredDestination, question: Questions.Question | undefined) =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    const lists = yield* freshnessOf(reader, question === undefined ? Lists.all : [question.list])
    return lists.filter(({ rows }) => question !== undefined || rows > 0).map(({ completeScan, list }): ListAge => ({
      list,
      endedAt: completeScan?.endedAt
    }))
  }))

const ageText = ({ endedAt, list }: ListAge): string =>
  endedAt === undefined
    ? `${list}: no export has read the whole list yet, so these figures may be incomplete.`
    : `${list}: the last complete export ended at ${endedAt.slice(0, 16).replace("T", " ")} UTC.`

/** Ids are never shortened, so that people can copy them. */
const columnOf = (name: string, question: Questions.Question | undefined): Column =>
  name === "id" || name.endsWith("_id")
    ? { name, wholeUpTo: 40 }
    : name === "status"
    ? { name, kind: "state" }
    : question !== undefined && !question.by.some((group) => Questions.columnOf(group) === name)
    ? { name, kind: "integer" }
    : { name }

const tableColumns: ReadonlyArray<Column> = [{ name: "table" }, { name: "column" }, { name: "type" }, {
  name: "description"
}]

const tableRows = tables.flatMap(({ columns, name }) =>
  columns.map((column) => [name, column.name, column.kind, column.description])
)

const questionColumns: ReadonlyArray<Column> = [
  { name: "question", wholeUpTo: 40 },
  { name: "description", minWidth: 30 },
  { name: "month" }
]

const questionRows = Questions.questions.map(({ description, monthOf, name }) => [name, description, monthOf])
