/** What a ready-made question is, and what the statements of all questions have in common. */
import type { Lists } from "@payments/core"
import { String } from "effect"
import type { Column } from "../plan/Columns.ts"

/** A question. */
export interface Question {
  /** The name in kebab case. */
  readonly name: string
  readonly description: string
  readonly list: Lists.AnyList
  /** The fields that it reads, besides the amounts. */
  readonly fields: ReadonlyArray<string>
  /** The columns of the answer. */
  readonly columns: ReadonlyArray<string>
  /** Those of the columns that are not added up, because they name a group or describe it. The first names it. */
  readonly labels: ReadonlyArray<string>
  /** The date field that the parameter `month` compares. */
  readonly monthOf: string
  /** The parameters, which are all optional. */
  readonly parameters: ReadonlyArray<{ readonly name: "month"; readonly description: string }>
  /** A chart: the columns that name the groups, that of the values, and whether time orders the groups. */
  readonly chart: { readonly x: ReadonlyArray<string>; readonly y: string; readonly isOverTime: boolean }
  /** The columns of a journal: the day of each group, and the amount to book. Undefined if no group is a day. */
  readonly journal: { readonly date: string; readonly amount: string } | undefined
  /** The status of the records that count; undefined if those of every status do. */
  readonly status: string | undefined
  /**
   * The field of the date that the answer compares with the time of the rows; undefined if it compares none. The figures are then
   * right only for this time, and only if the copy has the fields as the service sent them.
   */
  readonly dateOf: string | undefined
  /** Whether only records count whose status is not known to be final. */
  readonly isOfOpen: boolean
  /** Returns the statement. `sum` is `exactSum` of the database's `Dialect`. */
  readonly sql: (sum: (column: string) => string, options: QuestionOptions) => string
}

/** What a statement depends on besides its question. */
export interface QuestionOptions {
  /** The time of the rows, in milliseconds since 1970. */
  readonly nowMs: number
  /** The day of the rows, `YYYY-MM-DD`: the one that was named, else that of {@link nowMs} in UTC. */
  readonly day: string
  /** Whether only one month counts, which is the parameter `$1`. */
  readonly hasMonth?: boolean
  /** More conditions in SQL. */
  readonly conditions?: ReadonlyArray<string>
  /** Whether the groups with the largest first amount come first, also if the groups have an order. */
  readonly isLargestFirst?: boolean | undefined
}

/** The length of the part of a date. */
export const lengths = { day: 10, month: 7 } as const

export const monthParameter = (field: string): Question["parameters"][number] => ({
  name: "month",
  description: `only records whose ${field} is in this month, such as 2024-05`
})

/** Returns the condition of the records that count. */
export const conditionOf = (
  { monthOf, status }: Pick<Question, "monthOf" | "status">,
  { conditions = [], hasMonth = false }: QuestionOptions
): string =>
  [
    "missing_since IS NULL",
    ...hasMonth ? [`substr(${String.camelToSnake(monthOf)}, 1, ${lengths.month}) = $1`] : [],
    ...status === undefined ? [] : [`status = '${status}'`],
    ...conditions
  ].join(" AND ")

/** The names of the columns with the number of records and the amounts, in the order of {@link totalsOf}. */
export const totalColumns = (amounts: ReadonlyArray<Column>): ReadonlyArray<string> => [
  "records",
  ...amounts.flatMap(({ name }) => [name, `${name}_null`])
]

/** Returns the number of records, the exact sums of the amounts, and in how many records each amount is null. */
export const totalsOf = (amounts: ReadonlyArray<Column>, sum: (column: string) => string): ReadonlyArray<string> => [
  "count(*) AS records",
  ...amounts.flatMap(({ name }) => [`${sum(name)} AS ${name}`, `count(*) - count(${name}) AS ${name}_null`])
]

/** The databases sort nulls differently unless the statement says where they go. */
export const nullsLast = (column: string): ReadonlyArray<string> => [`${column} IS NULL`, column]

/**
 * Returns the order of the groups with the largest amount first. The order needs no exact sum, and SQLite cannot compare sums
 * beyond 64 bits.
 */
export const largestFirst = (amount: string | undefined): ReadonlyArray<string> => {
  const size = `sum(CAST(${amount} AS DOUBLE PRECISION))`
  return [...amount === undefined ? [] : [`${size} IS NULL, ${size} DESC`], "count(*) DESC"]
}
