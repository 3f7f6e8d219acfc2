/**
 * Ready-made questions about a destination, such as the settled amounts of each day. An answer has a row for each group
 * of records. It has their number, the exact sums of their amounts, and in how many of them each amount is null. Rows
 * that the service no longer returns do not count. No question knows a currency or a unit, because the API's document
 * has none.
 *
 * To add a question: add an entry to `questions`.
 */
import { Days, Lists } from "@payments/core"
import { DateTime, Effect, type Scope, String } from "effect"
import { operations, reader, snapshot, type StoredDestination } from "../destination/Destination.ts"
import { layoutOf, storable } from "../plan/Columns.ts"
import type { FinalStates } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import { isPseudonym } from "../rule/Pseudonym.ts"
import { omittedIn, pseudonymFields } from "../rule/StoredRule.ts"
import type { Dialect } from "../statement/Dialect.ts"
import { QueryError, type QueryResult } from "../statement/Statement.ts"
import { finalStatesIn, finalStatesText, lackingIn } from "../store/OpenRecords.ts"
import { ageQuestions } from "./AgeQuestions.ts"
import { columnOfPath, type FieldCondition, sqlCondition } from "./Conditions.ts"
import { type NamedPoint, type PointError, reachPoint } from "./PointInTime.ts"
import { query, queryAt, type ResultAt } from "./Query.ts"
import {
  conditionOf,
  largestFirst,
  lengths,
  monthParameter,
  nullsLast,
  type Question,
  totalColumns,
  totalsOf
} from "./Question.ts"

export type { Question } from "./Question.ts"

/** A field by which a question groups records: its value, or the day or month at the beginning of a date. */
export interface Group {
  readonly field: string
  readonly part?: "day" | "month"
}

/** What a question about dates or open records needs to know besides the rows. */
export interface Basis {
  /** The time of the rows, in milliseconds since 1970. */
  readonly nowMs: number
  /** The day of the rows, if their point was named as the end of a day. */
  readonly day?: string | undefined
  /** Undefined if the question is not about open records. */
  readonly finalStates: FinalStates | undefined
}

/** The values of the parameters. */
export interface QuestionParameters {
  /** A month such as `2024-05`. */
  readonly month?: string | undefined
  /** Conditions that every record must meet. */
  readonly where?: ReadonlyArray<FieldCondition> | undefined
  /** Whether the groups with the largest first amount come first. Otherwise they do unless the groups have an order. */
  readonly isLargestFirst?: boolean | undefined
  /** What {@link basisOf} returns. Default: now, and no final status. */
  readonly basis?: Basis | undefined
}

/** Returns the name of the column of the answer that has the values of a group. */
const columnOf = ({ field, part }: Group): string =>
  `${String.camelToSnake(field)}${part === undefined ? "" : `_${part}`}`

const expressionOf = ({ field, part }: Group): string =>
  part === undefined ? String.camelToSnake(field) : `substr(${String.camelToSnake(field)}, 1, ${lengths[part]})`

/** A group may be only the name of its field. `books` is the amount of a journal; by default the first one of the list. */
const define = <List extends Lists.AnyList, Field extends keyof List["record"]["fields"] & string>(
  list: List,
  name: string,
  { books, by: given, description, monthOf, status }: {
    readonly description: string
    readonly books?: Field
    readonly by: ReadonlyArray<Field | (Group & { readonly field: Field })>
    readonly monthOf: Field
    readonly status?: string
  }
): Question => {
  const by = given.map((group): Group => typeof group === "string" ? { field: group } : group)
  const { amounts, table } = layoutOf(list)
  const isOverTime = by.some(({ field, part }) => part !== undefined || field in Lists.dateFields(list))
  const [first] = amounts
  const labels = by.map(columnOf)
  const day = by.find(({ field, part }) => part === "day" || (part === undefined && field in Lists.dateFields(list)))
  const booked = books === undefined ? first?.name : String.camelToSnake(books)
  return {
    name,
    description,
    list,
    fields: by.map(({ field }) => field),
    columns: [...labels, ...totalColumns(amounts)],
    labels,
    monthOf,
    parameters: [monthParameter(monthOf)],
    chart: { x: labels, y: first?.name ?? "records", isOverTime },
    journal: day === undefined || booked === undefined ? undefined : { date: columnOf(day), amount: booked },
    status,
    dateOf: undefined,
    isOfOpen: false,
    sql: (sum, options) => {
      const groups = by.map(expressionOf)
      const columns = [...by.map((group) => `${expressionOf(group)} AS ${columnOf(group)}`), ...totalsOf(amounts, sum)]
      const order = options.isLargestFirst ?? !isOverTime
        ? [...largestFirst(first?.name), ...groups]
        : groups.flatMap(nullsLast)
      return `SELECT ${columns.join(", ")} FROM ${table}
        WHERE ${conditionOf({ monthOf, status }, options)}
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
    books: "paymentAmount",
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
  }),
  ...ageQuestions
]

/** Whether the text is a month such as `2024-05`. */
export const isMonth = (text: string): boolean => /^\d{4}-\d{2}$/.test(text) && Days.isDay(`${text}-01`)

/** A statement with its parameters: `$1` is the first. */
export interface Statement {
  readonly sql: string
  readonly parameters: ReadonlyArray<string>
}

/** Returns the statement that {@link answer} runs with this SQL. Fails if the list has no column for a condition. */
export const statementOf = Effect.fnUntraced(function*(
  dialect: Dialect,
  { isOfOpen, list, sql }: Question,
  { basis, isLargestFirst, month, where = [] }: QuestionParameters = {}
): Effect.fn.Return<Statement, QueryError> {
  const parameters = month === undefined ? [] : [month]
  const conditions: Array<string> = []
  for (const condition of where) {
    const found = sqlCondition(dialect, list, condition)
    if (typeof found === "string") return yield* new QueryError({ problem: found })
    if (found.value !== undefined) parameters.push(found.value)
    conditions.push(found.sql(`$${parameters.length}`))
  }
  const { states } = basis?.finalStates ?? { states: [] }
  if (isOfOpen && states.length > 0) {
    const places = states.map((state) => `$${parameters.push(storable(state))}`)
    // Without a status, nothing says that the record is closed.
    conditions.push(`(status IS NULL OR status NOT IN (${places.join(", ")}))`)
  }
  const nowMs = basis?.nowMs ?? DateTime.toEpochMillis(yield* DateTime.now)
  const day = dayOf({ ...basis, nowMs })
  return {
    sql: sql(dialect.exactSum, { nowMs, day, hasMonth: month !== undefined, conditions, isLargestFirst }),
    parameters
  }
})

/**
 * Fails if the question, the month or a condition needs a field that the copy leaves out: every record would look as if it had no
 * value there. A date that is replaced by a pseudonym has no day or month. Also fails if a condition compares a field that the
 * rule for personal data replaces with another value than a pseudonym. For a user who may not read the rule, nothing is refused.
 */
export const requireFields = Effect.fnUntraced(function*(
  destination: StoredDestination,
  { chart, fields, list, monthOf, name, status }: Question,
  { month, where = [] }: Pick<QuestionParameters, "month" | "where"> = {}
): Effect.fn.Return<void, QueryError> {
  const personal = Effect.scoped(Effect.flatMap(reader(destination), (opened) => opened.personal))
  const rule = yield* Effect.orElseSucceed(Effect.map(personal, (state) => state.rule), () => undefined)
  const [omitted, replaced] = [new Set(omittedIn(rule)), pseudonymFields(rule, list)]
  const compared = where.flatMap((condition) => {
    const field = columnOfPath(list, condition.path.names)?.path.join(".")
    return field === undefined ? [] : [{ condition, field }]
  })
  const exact = [
    ...chart.isOverTime ? fields : [],
    ...month === undefined ? [] : [monthOf],
    ...status === undefined ? [] : ["status"]
  ]
  const lacking = new Set([
    ...[...fields, ...exact, ...compared.map(({ field }) => field)].filter((field) => omitted.has(field)),
    ...exact.filter((field) => replaced.has(field))
  ])
  if (lacking.size > 0) return yield* lacks(name, [...lacking])
  for (const { condition, field } of compared) {
    if (!replaced.has(field) || !("value" in condition)) continue
    const { isText, operator, value } = condition
    const isNull = value === "null" && !isText && (operator === "=" || operator === "!=")
    if (isNull || isPseudonym(value)) continue
    return yield* new QueryError({
      problem:
        `The copy has pseudonyms of ${field}, by its rule for personal data, so only a pseudonym can be compared there. If the personal key is set, payments find prints the records of a value, with its pseudonym.`
    })
  }
})

const lacks = (question: string, fields: ReadonlyArray<string>): QueryError =>
  new QueryError({
    problem: `${question} needs ${
      fields.join(" and ")
    }, which the copy leaves out or replaces by its rule for personal data.`
  })

/** Returns the statement with its values in place of the parameters, for people. */
export const withValues = ({ parameters, sql }: Statement): string =>
  sql.replaceAll(/\$(\d+)/g, (_, number: string) => `'${(parameters[Number(number) - 1] ?? "").replaceAll("'", "''")}'`)

/**
 * Returns what a question needs to know besides the rows of now; undefined if it needs nothing. `configured` has the final states
 * that the source names; without them, those that the copy has learned count. Fails if the copy does not have a field as the
 * service sent it: every record would look as if it had no date, or no status.
 */
export const basisOf = Effect.fnUntraced(function*(
  destination: StoredDestination,
  question: Question,
  configured?: ReadonlyArray<string>
): Effect.fn.Return<Basis | undefined, SinkError | QueryError, Scope.Scope> {
  if (question.dateOf === undefined) return undefined
  const opened = yield* reader(destination)
  const lacking = yield* lackingIn(opened, question.list, question.fields)
  if (lacking.length > 0) return yield* lacks(question.name, lacking)
  return {
    nowMs: DateTime.toEpochMillis(yield* DateTime.now),
    finalStates: question.isOfOpen ? yield* finalStatesIn(opened, question.list, configured) : undefined
  }
}, Effect.scoped)

/** Does the same as {@link basisOf} for the rows of a point. */
export const basisAt = Effect.fnUntraced(function*(
  destination: StoredDestination,
  question: Question,
  point: NamedPoint,
  configured?: ReadonlyArray<string>
): Effect.fn.Return<Basis | undefined, SinkError | QueryError | PointError, Scope.Scope> {
  const basis = yield* basisOf(destination, question, configured)
  if (basis === undefined) return undefined
  if (typeof point !== "number") return { ...basis, nowMs: Date.parse(point.time), day: point.day }
  const opened = yield* snapshot(destination)
  const { lists: [reached] } = yield* reachPoint(opened, point, [question.list])
  // Before the first change, the copy is that of the first export.
  const time = (yield* opened.timeOf(point)) ?? reached?.readAt
  return time === undefined
    ? yield* new QueryError({ problem: `The time of change ${point} is not known. Name a time instead.` })
    : { ...basis, nowMs: Date.parse(time) }
}, Effect.scoped)

/** A date without a time is of no time zone, so that of a named day counts as it is. */
const dayOf = ({ day, nowMs }: Pick<Basis, "day" | "nowMs">): string =>
  day ?? DateTime.formatIso(DateTime.makeUnsafe(nowMs)).slice(0, 10)

/** Says from which field and up to when the dates of an answer count, and which records are open. */
export const basisNotes = ({ columns, dateOf, list }: Question, basis: Basis | undefined): ReadonlyArray<string> => {
  if (basis === undefined || dateOf === undefined) return []
  const time = DateTime.formatIso(DateTime.makeUnsafe(basis.nowMs))
  return [
    columns.includes("counted_from")
      ? `Ages count from ${dateOf} to ${time}.`
      : `Settled: ${dateOf} is not after ${dayOf(basis)}${
        basis.day === undefined ? `, the day of ${time}` : ""
      }. Later ones are still expected.`,
    ...basis.finalStates === undefined ? [] : [finalStatesText(list, basis.finalStates)]
  ]
}

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
