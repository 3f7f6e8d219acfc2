/**
 * Ready-made questions about a destination, such as the settled amounts of each day. An answer has a row for each group of
 * records: their number, the exact sums of their amounts, and in how many of them each amount is null. Rows that the service
 * no longer returns do not count. No question knows a currency or a unit, because the API's document has none.
 *
 * To add a question: add an entry to `questions`.
 */
import { Days, Lists } from "@payments/core"
import { type Effect, type Scope, String } from "effect"
import type { StoredDestination } from "../DestinationUrl.ts"
import { layoutOf } from "../engine/Columns.ts"
import type { SinkError } from "../Sink.ts"
import { query, type QueryResult } from "./Query.ts"
import type { QueryError } from "./Statement.ts"

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
  /** What a chart of the answer shows: the columns that name the groups, that of the values, and whether time orders the groups. */
  readonly chart: { readonly x: ReadonlyArray<string>; readonly y: string; readonly isOverTime: boolean }
  /** Returns the statement. `$1` is the month, if it is given. `sum` is the database's function for exact sums. */
  readonly sql: (sum: string, hasMonth: boolean) => string
}

/** The values of the parameters. */
export interface QuestionParameters {
  /** A month such as `2024-05`. */
  readonly month?: string | undefined
}

/** The length of the part of a date. */
const lengths = { day: 10, month: 7 } as const

const nameOf = ({ field, part }: Group): string =>
  `${String.camelToSnake(field)}${part === undefined ? "" : `_${part}`}`

const expressionOf = ({ field, part }: Group): string =>
  part === undefined ? String.camelToSnake(field) : `substr(${String.camelToSnake(field)}, 1, ${lengths[part]})`

const define = <List extends Lists.AnyList>(
  name: string,
  description: string,
  list: List,
  monthOf: keyof List["record"]["fields"] & string,
  by: ReadonlyArray<Group & { readonly field: keyof List["record"]["fields"] }>
): Question => {
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
    chart: { x: by.map(nameOf), y: first?.name ?? "records", isOverTime },
    sql: (sum, hasMonth) => {
      const groups = by.map(expressionOf)
      const columns = [
        ...by.map((group) => `${expressionOf(group)} AS ${nameOf(group)}`),
        "count(*) AS records",
        ...amounts.flatMap((amount) => [
          `${sum}(${amount.name}) AS ${amount.name}`,
          `count(*) - count(${amount.name}) AS ${amount.name}_null`
        ])
      ]
      // The databases sort nulls differently unless the statement says where they go.
      const order = isOverTime
        ? groups.flatMap((group) => [`${group} IS NULL`, group])
        // The order needs no exact sum, and SQLite cannot compare sums beyond 64 bits.
        : [
          ...first === undefined ? [] : [`sum(${first.name} * 1.0) IS NULL, sum(${first.name} * 1.0) DESC`],
          "count(*) DESC",
          ...groups
        ]
      return `SELECT ${columns.join(", ")} FROM ${table}
        WHERE missing_since IS NULL${hasMonth ? ` AND ${month} = $1` : ""}
        GROUP BY ${groups.join(", ")} ORDER BY ${order.join(", ")}`
    }
  }
}

const { invoices, payinSources, payoutRequests } = Lists

/** All questions. */
export const questions: ReadonlyArray<Question> = [
  define("settled-by-day", "invoices by settlement date", invoices, "settlementDate", [{ field: "settlementDate" }]),
  define("settled-by-cycle", "invoices by settlement date and cycle", invoices, "settlementDate", [
    { field: "settlementDate" },
    { field: "settlementTime" }
  ]),
  define("settled-by-month", "invoices by month of settlement", invoices, "settlementDate", [
    { field: "settlementDate", part: "month" }
  ]),
  define("paid-by-day", "invoices by UTC day of the payment", invoices, "paymentDate", [
    { field: "paymentDate", part: "day" }
  ]),
  define("paid-by-method", "invoices by payment method and source", invoices, "paymentDate", [
    { field: "paymentMethod" },
    { field: "paymentSource" }
  ]),
  define("invoices-by-status", "invoices by status", invoices, "createdAt", [{ field: "status" }]),
  define(
    "invoices-by-customer",
    "invoices by customer document number",
    invoices,
    "createdAt",
    [
      { field: "customerDocumentNumber" }
    ]
  ),
  define("payouts-by-day", "payout requests by UTC day of creation", payoutRequests, "createdAt", [
    { field: "createdAt", part: "day" }
  ]),
  define("payouts-by-status", "payout requests by status and message", payoutRequests, "createdAt", [
    { field: "status" },
    { field: "statusMessage" }
  ]),
  define("payouts-by-customer", "payout requests by customer", payoutRequests, "createdAt", [
    { field: "customerId" }
  ]),
  define("sources-by-status", "payin sources by status and message", payinSources, "createdAt", [
    { field: "status" },
    { field: "statusMessage" }
  ])
]

/** Returns the name of the column of the answer that has the values of a group. */
export const columnOf = nameOf

/** Whether the text is a month such as `2024-05`. */
export const isMonth = (text: string): boolean => /^\d{4}-\d{2}$/.test(text) && Days.isDay(`${text}-01`)

/** Returns the statement that {@link answer} runs. `$1` is the month, if it is given. */
export const statementOf = (
  destination: StoredDestination,
  { sql }: Question,
  { month }: QuestionParameters = {}
): string => sql(destination._tag === "Postgres" ? "sum" : "exact_sum", month !== undefined)

/** Answers a question from a destination. */
export const answer = (
  destination: StoredDestination,
  question: Question,
  parameters: QuestionParameters = {}
): Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope> =>
  query(
    destination,
    statementOf(destination, question, parameters),
    parameters.month === undefined ? [] : [parameters.month]
  )
