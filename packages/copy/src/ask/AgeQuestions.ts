/**
 * Questions about how long records have been open, and when paid invoices are settled. They compare dates with the time of the
 * rows: now, or that of `--at`. Each record is in exactly one group, also if it has no date or a date in the future, so that the
 * groups add up to all records that count.
 */
import { Lists } from "@payments/core"
import { String } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { dayNumberOf, everyRow, instantOf } from "../statement/DateSql.ts"
import { lacksText, openFields } from "../store/OpenRecords.ts"
import {
  conditionOf,
  largestFirst,
  monthParameter,
  nullsLast,
  type Question,
  totalColumns,
  totalsOf
} from "./Question.ts"

const dayMicroseconds = 86_400_000_000n

/** The groups of ages: records of at most so many days that no group before has. */
const ageDays = [1, 3, 7, 14, 30] as const

export const inTheFuture = "in the future"
export const older = "older"
export const noDate = "no date"

const upTo = (days: number): string => `up to ${days} ${days === 1 ? "day" : "days"}`

/** The names of the groups of ages, in their order. */
export const ageGroups: ReadonlyArray<string> = [inTheFuture, ...ageDays.map(upTo), older, noDate]

/** Returns SQL for the place of an instant's age in {@link ageGroups}. `created_us` has the microseconds of the instant. */
const placeOfAge = (nowMs: number): string => {
  const now = BigInt(nowMs) * 1000n
  const limits = ageDays.map((days, index) =>
    `WHEN created_us >= ${now - BigInt(days) * dayMicroseconds} THEN ${index + 1}`
  )
  return `CASE WHEN created_us IS NULL THEN ${ageGroups.indexOf(noDate)} WHEN created_us > ${now} THEN 0 ${
    limits.join(" ")
  } ELSE ${ageGroups.indexOf(older)} END`
}

/** The age of the records that are open. */
const openByAge = (list: Lists.AnyList, name: string, description: string): Question => {
  const { since: dateOf, without } = openFields(list)
  const { amounts, table } = layoutOf(list)
  const [first] = amounts
  const known = { monthOf: dateOf, status: undefined }
  const read = amounts.map((amount) => `, ${amount.name}`).join("")
  return {
    ...known,
    name,
    description,
    list,
    fields: [dateOf, "status", ...without === undefined ? [] : [without]],
    columns: ["age", "counted_from", ...totalColumns(amounts)],
    labels: ["age", "counted_from"],
    parameters: [monthParameter(dateOf)],
    chart: { x: ["age"], y: first?.name ?? "records", isOverTime: false },
    journal: undefined,
    dateOf,
    isOfOpen: true,
    sql: (sum, options) => {
      const met = [
        conditionOf(known, options),
        ...without === undefined ? [] : [lacksText(without)]
      ]
      const order = options.isLargestFirst === true ? [...largestFirst(first?.name), "place"] : ["place"]
      return `SELECT CASE place ${
        ageGroups.map((group, place) => `WHEN ${place} THEN '${group}'`).join(" ")
      } END AS age,
        '${dateOf}' AS counted_from, ${totalsOf(amounts, sum).join(", ")}
        FROM (SELECT ${placeOfAge(options.nowMs)} AS place${read}
          FROM (SELECT ${instantOf(String.camelToSnake(dateOf))} AS created_us${read} FROM ${table}
            WHERE ${met.join(" AND ")} ${everyRow}) AS dated) AS aged
        GROUP BY place ORDER BY ${order.join(", ")}`
    }
  }
}

/** 1970-01-01 was a Thursday. */
const weekdays = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"]

const weekdayOf = (day: string): string =>
  `CASE (${day} % 7 + 7) % 7 ${weekdays.map((name, place) => `WHEN ${place} THEN '${name}'`).join(" ")} END`

/**
 * The invoices of each payment day: how many were paid, how many of them are settled, and how many are still to be settled. An
 * invoice is settled if its settlement date is not after the day of the rows. The lag is the number of days from the
 * payment to the settlement. That of a weekday is the most frequent one of all its days. Without such invoices, an amount is 0. It is
 * null if none of them has an amount.
 */
const settlementCalendar = (): Question => {
  const known = { monthOf: "paymentDate", status: undefined }
  const labels = ["payment_day", "weekday", "shortest_lag", "longest_lag", "lag_of_weekday"]
  const counts = ["records", "settled", "expected"]
  const sums = ["payment_amount", "payment_amount_null", "settled_amount", "expected_amount"]
  return {
    ...known,
    name: "settlement-calendar",
    description: "invoices by UTC day of the payment: settled, and still expected, with the days in between",
    list: Lists.invoices,
    fields: ["paymentDate", "settlementDate"],
    columns: [...labels.slice(0, 2), ...counts, ...sums, ...labels.slice(2)],
    labels,
    parameters: [monthParameter("paymentDate")],
    chart: { x: ["payment_day"], y: "payment_amount", isOverTime: true },
    journal: { date: "payment_day", amount: "payment_amount" },
    dateOf: "settlementDate",
    isOfOpen: false,
    sql: (sum, options) => {
      const today = Date.parse(options.day) / 86_400_000
      const order = options.isLargestFirst === true
        ? [...largestFirst("payment_amount"), ...nullsLast("payment_day")]
        : nullsLast("payment_day")
      const isSettled = `settled_on <= ${today}`
      const [paymentDay, settlementDay] = ["substr(payment_date, 1, 10)", "substr(settlement_date, 1, 10)"]
      const condition = conditionOf(known, options)
      // The number of a day is computed once, because many invoices have the same days.
      return `WITH numbers AS MATERIALIZED (SELECT day, ${dayNumberOf("day")} AS number FROM (
          SELECT ${paymentDay} AS day FROM invoices WHERE ${condition}
          UNION SELECT ${settlementDay} FROM invoices WHERE ${condition}) AS days),
        dated AS (SELECT payment_date, payment_amount, p.number AS paid_on, s.number AS settled_on
          FROM invoices LEFT JOIN numbers AS p ON p.day = ${paymentDay} LEFT JOIN numbers AS s ON s.day = ${settlementDay}
          WHERE ${condition} AND (payment_date IS NOT NULL OR settlement_date IS NOT NULL) ${everyRow}),
        paid AS MATERIALIZED (SELECT CASE WHEN paid_on IS NOT NULL THEN substr(payment_date, 1, 10) END AS payment_day,
          ${weekdayOf("paid_on")} AS weekday, payment_amount,
          CASE WHEN ${isSettled} THEN payment_amount END AS settled_amount,
          CASE WHEN ${isSettled} THEN NULL ELSE payment_amount END AS expected_amount,
          CASE WHEN ${isSettled} THEN 1 END AS is_settled,
          CASE WHEN ${isSettled} THEN settled_on - paid_on END AS lag FROM dated),
        lags AS (SELECT weekday, lag, row_number() OVER (PARTITION BY weekday ORDER BY count(*) DESC, lag) AS nth
          FROM paid WHERE lag IS NOT NULL GROUP BY weekday, lag),
        usual AS MATERIALIZED (SELECT weekday AS usual_weekday, lag AS lag_of_weekday FROM lags WHERE nth = 1)
        SELECT payment_day, weekday, count(*) AS records, count(is_settled) AS settled,
          count(*) - count(is_settled) AS expected, ${sum("payment_amount")} AS payment_amount,
          count(*) - count(payment_amount) AS payment_amount_null,
          CASE WHEN count(is_settled) = 0 THEN 0 ELSE ${sum("settled_amount")} END AS settled_amount,
          CASE WHEN count(is_settled) = count(*) THEN 0 ELSE ${sum("expected_amount")} END AS expected_amount,
          min(lag) AS shortest_lag, max(lag) AS longest_lag, lag_of_weekday
        FROM paid LEFT JOIN usual ON usual_weekday = weekday
        GROUP BY payment_day, weekday, lag_of_weekday ORDER BY ${order.join(", ")}`
    }
  }
}

/** The questions of this module. */
export const ageQuestions: ReadonlyArray<Question> = [
  openByAge(
    Lists.payoutRequests,
    "open-payouts-by-age",
    "payout requests whose status is not final, by the time since their creation"
  ),
  openByAge(
    Lists.payinSources,
    "unsettled-payin-sources-by-age",
    "payin sources whose status is not final, by the time since their creation"
  ),
  openByAge(
    Lists.invoices,
    "unpaid-invoices-by-age",
    "invoices without a payment date whose status is not final, by the time since their creation"
  ),
  settlementCalendar()
]
