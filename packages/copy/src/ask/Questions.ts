/**
 * Ready-made questions about a destination, such as the settled amounts of each day. An answer has a row for each group
 * of records. It has their number, the exact sums of their amounts, and in how many of them each amount is null. Rows
 * that the service no longer returns do not count. No question knows a currency or a unit, because the API's document
 * has none.
 *
 * To add a question: add an entry to `questions`.
 */
import { Days, Lists } from "@payments/core"
import { Effect, type Scope, String } from "effect"
import { operations, type StoredDestination } from "../destination/Destination.ts"
import { layoutOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Dialect } from "../statement/Dialect.ts"
import { QueryError, type QueryResult } from "../statement/Statement.ts"
import { type FieldCondition, sqlCondition } from "./Conditions.ts"
import type { NamedPoint, PointError } from "./PointInTime.ts"
import { query, queryAt, type ResultAt } from "./Query.ts"

/** A field by which a question groups records: its value, or the day or month at the beginning of a date. */
export interface Group {
  readonly field: string
  readonly part?: "day" | "month"
}

/** A question. */
export interface Question {
  /** The name in kebab case. */
  readonly name: string
  readonly description: string
  readonly list: Lists.AnyList
  /** The fields by which it groups. Their columns come first in the answer; {@link columnOf} names them. */
  readonly by: ReadonlyArray<Group>
  /** The date field that the parameter `month` compares. */
  readonly monthOf: string
  /** The parameters, which are all optional. */
  readonly parameters: ReadonlyArray<{ readonly name: "month"; readonly description: string }>
  /** A chart: the columns that name the groups, that of the values, and whether time orders the groups. */
  readonly chart: { readonly x: ReadonlyArray<string>; readonly y: string; readonly isOverTime: boolean }
  /** The status of the records that count; undefined if those of every status do. */
  readonly status: string | undefined
  /** Returns the statement. `sum` is `exactSum` of the database's `Dialect`. */
  readonly sql: (sum: (column: string) => string, options?: QuestionOptions) => string
}

interface QuestionOptions {
  /** Whether only one month counts, which is the parameter `$1`. */
  readonly hasMonth?: boolean
  /** More conditions in SQL. */
  readonly conditions?: ReadonlyArray<string>
  /** Whether the groups with the largest first amount come first, also if time would order them. */
  readonly isLargestFirst?: boolean | undefined
}

/** The values of the parameters. */
export interface QuestionParameters {
  /** A month such as `2024-05`. */
  readonly month?: string | undefined
  /** Conditions that every record must meet. */
  readonly where?: ReadonlyArray<FieldCondition> | undefined
  /** Whether the groups with the largest first amount come first. Otherwise they do unless time orders the groups. */
  readonly isLargestFirst?: boolean | undefined
}

/** The length of the part of a date. */
const lengths = { day: 10, month: 7 } as const

/** Returns the name of the column of the answer that has the values of a group. */
export const columnOf = ({ field, part }: Group): string =>
  `${String.camelToSnake(field)}${part === undefined ? "" : `_${part}`}`

const expressionOf = ({ field, part }: Group): string =>
  part === undefined ? String.camelToSnake(field) : `substr(${String.camelToSnake(field)}, 1, ${lengths[part]})`

/** A group may be only the name of its field. */
const define = <List extends Lists.AnyList, Field extends keyof List["record"]["fields"] & string>(
  list: List,
  name: string,
  { by: given, description, monthOf, status }: {
    readonly description: string
    readonly by: ReadonlyArray<Field | (Group & { readonly field: Field })>
    readonly monthOf: Field
    readonly status?: string
  }
): Question => {
  const by = given.map((group): Group => typeof group === "string" ? { field: group } : group)
  const { amounts, table } = layoutOf(list)
  const isOverTime = by.some(({ field, part }) => part !== undefined || field in Lists.dateFields(list))
  const [first] = amounts
  const month = expressionOf({ field: monthOf, part: "month" })
  return {
    name,
    description,
    list,
    by,
    monthOf,
    parameters: [{ name: "month", description: `only records whose ${monthOf} is in this month, such as 2024-05` }],
    chart: { x: by.map(columnOf), y: first?.name ?? "records", isOverTime },
    status,
    sql: (sum, { conditions = [], hasMonth = false, isLargestFirst = !isOverTime } = {}) => {
      const groups = by.map(expressionOf)
      const columns = [
        ...by.map((group) => `${expressionOf(group)} AS ${columnOf(group)}`),
        "count(*) AS records",
        ...amounts.flatMap((amount) => [
          `${sum(amount.name)} AS ${amount.name}`,
          `count(*) - count(${amount.name}) AS ${amount.name}_null`
        ])
      ]
      // The databases sort nulls differently unless the statement says where they go.
      const size = `sum(CAST(${first?.name} AS DOUBLE PRECISION))`
      const order = !isLargestFirst
        ? groups.flatMap((group) => [`${group} IS NULL`, group])
        // The order needs no exact sum, and SQLite cannot compare sums beyond 64 bits.
        : [
          ...first === undefined ? [] : [`${size} IS NULL, ${size} DESC`],
          "count(*) DESC",
          ...groups
        ]
      const met = [
        "missing_since IS NULL",
        ...hasMonth ? [`${month} = $1`] : [],
        ...status === undefined ? [] : [`status = '${status}'`],
        ...conditions
      ]
      return `SELECT ${columns.join(", ")} FROM ${table}
        WHERE ${met.join(" AND ")}
        GROUP BY ${groups.join(", ")} ORDER BY ${order.join(", ")}`
    }
  }
}

const { invoices, payinSources, payoutRequests } = Lists

/** All questions. */
export const questions: ReadonlyArray<Question> = [
  define(invoices, "settled-by-day", {
    description: "invoices by settlement date",
    by: ["settlementDate"],
    monthOf: "settlementDate"
  }),
  define(invoices, "settled-by-time", {
    description: "invoices by settlement date and settlement time",
    by: ["settlementDate", "settlementTime"],
    monthOf: "settlementDate"
  }),
  define(invoices, "settled-by-month", {
    description: "invoices by month of settlement",
    by: [{ field: "settlementDate", part: "month" }],
    monthOf: "settlementDate"
  }),
  define(invoices, "paid-by-day", {
    description: "invoices by UTC day of the payment",
    by: [{ field: "paymentDate", part: "day" }],
    monthOf: "paymentDate"
  }),
  define(invoices, "paid-by-method", {
    description: "invoices by payment method and source",
    by: ["paymentMethod", "paymentSource"],
    monthOf: "paymentDate"
  }),
  define(invoices, "invoices-by-status", {
    description: "invoices by status",
    by: ["status"],
    monthOf: "createdAt"
  }),
  define(invoices, "invoices-by-customer", {
    description: "invoices by customer document number",
    by: ["customerDocumentNumber"],
    monthOf: "createdAt"
  }),
  define(payoutRequests, "payouts-by-day", {
    description: "payout requests by UTC day of creation",
    by: [{ field: "createdAt", part: "day" }],
    monthOf: "createdAt"
  }),
  define(payoutRequests, "payouts-by-status", {
    description: "payout requests by status and message",
    by: ["status", "statusMessage"],
    monthOf: "createdAt"
  }),
  define(payoutRequests, "payouts-by-customer", {
    description: "payout requests by customer",
    by: ["customerId"],
    monthOf: "createdAt"
  }),
  define(payoutRequests, "failed-payouts-by-customer", {
    description: "payout requests with the status failed, by customer and message",
    by: ["customerId", "statusMessage"],
    monthOf: "createdAt",
    status: "failed"
  }),
  define(payinSources, "sources-by-status", {
    description: "payin sources by status and message",
    by: ["status", "statusMessage"],
    monthOf: "createdAt"
  })
]

/** Whether the text is a month such as `2024-05`. */
export const isMonth = (text: string): boolean => /^\d{4}-\d{2}$/.test(text) && Days.isDay(`${text}-01`)

/** A statement with its parameters: `$1` is the first. */
export interface Statement {
  readonly sql: string
  readonly parameters: ReadonlyArray<string>
}

/** Returns the statement that {@link answer} runs with this SQL. Fails if the list has no column for a condition. */
export const statementOf = (
  dialect: Dialect,
  { list, sql }: Question,
  { isLargestFirst, month, where = [] }: QuestionParameters = {}
): Effect.Effect<Statement, QueryError> =>
  Effect.suspend(() => {
    const parameters = month === undefined ? [] : [month]
    const conditions: Array<string> = []
    for (const condition of where) {
      const found = sqlCondition(dialect, list, condition)
      if (typeof found === "string") return Effect.fail(new QueryError({ problem: found }))
      if (found.value !== undefined) parameters.push(found.value)
      conditions.push(found.sql(`$${parameters.length}`))
    }
    return Effect.succeed({
      sql: sql(dialect.exactSum, { hasMonth: month !== undefined, conditions, isLargestFirst }),
      parameters
    })
  })

/** Returns the statement with its values in place of the parameters, for people. */
export const withValues = ({ parameters, sql }: Statement): string =>
  sql.replaceAll(/\$(\d+)/g, (_, number: string) => `'${(parameters[Number(number) - 1] ?? "").replaceAll("'", "''")}'`)

/** Answers a question from a destination. */
export const answer = (
  destination: StoredDestination,
  question: Question,
  parameters: QuestionParameters = {}
): Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope> =>
  Effect.flatMap(
    statementOf(operations(destination).dialect, question, parameters),
    (statement) => query(destination, statement.sql, statement.parameters)
  )

/** Answers a question from a destination as it was at a point. */
export const answerAt = (
  destination: StoredDestination,
  question: Question,
  parameters: QuestionParameters,
  point: NamedPoint
): Effect.Effect<ResultAt, SinkError | QueryError | PointError, Scope.Scope> =>
  Effect.flatMap(
    statementOf(operations(destination).dialect, question, parameters),
    (statement) => queryAt(destination, statement, point)
  )
