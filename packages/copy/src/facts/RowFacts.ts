/**
 * Facts that the stored rows of a list show: lengths of texts, repeated references, signs of amounts, forms of dates, and how
 * long after its creation a record is first seen. The database counts, so that a large copy needs no more memory than a
 * small one. Only numbers leave it, and no value of a record. Rows that the service no longer returns do not count.
 *
 * To add a fact: add an entry to `registry`.
 */
import { Lists } from "@payments/core"
import { Effect, Record, type Scope, Stream } from "effect"
import { columnsOf, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { keptFields } from "../rule/StoredRule.ts"
import { formsOfDates, isAfter, isIn, microsecondsOf, shapeOf } from "../statement/DateSql.ts"
import type { Dialect } from "../statement/Dialect.ts"
import type { QueryError, QueryResult } from "../statement/Statement.ts"
import type { Reader } from "../store/Store.ts"
import type { KnownFact } from "./Probe.ts"

/** `records` is the number of records that were looked at. */
export interface CopyFact extends Pick<KnownFact, "name" | "section" | "question" | "seen" | "answer"> {
  readonly records: number
}

/** The database of a copy: the `Operations` of a destination. */
export interface QueriedCopy {
  readonly dialect: Pick<Dialect, "forExcerpt">
  readonly query: (
    sql: string,
    parameters: ReadonlyArray<string>
  ) => Effect.Effect<QueryResult, SinkError | QueryError, Scope.Scope>
}

/** Returns the facts of the fields that the copy has, as the service has sent them. Runs one statement. */
export const rowFacts = Effect.fnUntraced(function*(
  reader: Pick<Reader, "columns" | "personal">,
  list: Lists.AnyList,
  { dialect, query }: QueriedCopy
): Effect.fn.Return<ReadonlyArray<CopyFact>, SinkError | QueryError> {
  const { rewriting, rule } = yield* reader.personal
  // During a rewrite, some rows have pseudonyms and others do not.
  if (rewriting) return []
  const kept = keptFields(rule, list)
  const filled = new Set(
    (yield* reader.columns(list)).flatMap(({ name, unfilledFrom }) => unfilledFrom === undefined ? [name] : [])
  )
  const meanings = Lists.fieldMeanings(list)
  const dates = Lists.dateFields(list)
  const fields = columnsOf(list).flatMap(({ kind, name: column, path }, index): ReadonlyArray<Field> => {
    const { identifies, isKind } = meanings[index] ?? {}
    const name = path.join(".")
    const type = dates[name] ?? (isKind === true ? "kind" : kind)
    return kept.has(name) && filled.has(column)
      ? [{ name, column, path, type, isOfPayment: identifies === "payment" }]
      : []
  })
  const rows = `${tableOf(list)} WHERE missing_since IS NULL`
  const facts = registry.flatMap((entry) => entry({ list, fields, rows, dialect }))
  if (facts.length === 0) return []
  const sources = [...new Set(facts.map(({ from }) => from))]
  const asked = sources.map((source) => facts.filter(({ from }) => from === source))
  const selects = sources.map((source, place) => {
    const numbers = (asked[place] ?? []).flatMap(({ counts }) => counts).map((count) =>
      `CAST(coalesce(${count}, 0) AS TEXT)`
    )
    return `SELECT ${place} AS place, ${numbers.join(" || ' ' || ")} AS numbers FROM ${source}`
  })
  const found = yield* Effect.scoped(Effect.flatMap(
    query(selects.join("\nUNION ALL "), []),
    ({ rows: chunks }) => Stream.runCollect(Stream.flattenIterable(chunks))
  ))
  const answers = new Map<RowFact, CopyFact>()
  for (const [place, text] of found) {
    const numbers = String(text).split(" ").map(Number)
    for (const fact of asked[typeof place === "object" && place !== null ? Number(place.json) : -1] ?? []) {
      answers.set(fact, fact.factOf(numbers.splice(0, fact.counts.length)))
    }
  }
  return facts.flatMap((fact) => answers.get(fact) ?? [])
})

interface Field {
  readonly name: string
  readonly column: string
  readonly path: ReadonlyArray<string>
  readonly type: Lists.FieldMeaning["kind"] | "kind" | "dateTime" | "day"
  /** Whether it identifies a payment, an invoice or an object of the service. */
  readonly isOfPayment: boolean
}

interface Table {
  readonly list: Lists.AnyList
  readonly fields: ReadonlyArray<Field>
  /** The rows that count, as the end of a statement. */
  readonly rows: string
  readonly dialect: QueriedCopy["dialect"]
}

/** A fact with the counts that it needs. Facts with the same source share one reading of it. */
interface RowFact {
  /** What is counted, as the end of a statement. */
  readonly from: string
  /** Expressions with a whole number. */
  readonly counts: ReadonlyArray<string>
  readonly factOf: (numbers: ReadonlyArray<number>) => CopyFact
}

interface Definition<Name extends string> extends Pick<CopyFact, "name" | "section" | "question"> {
  readonly from: string
  readonly counts: { readonly [name in Name]: string }
  readonly of: (counts: { readonly [name in Name]: number }) => Pick<CopyFact, "answer" | "seen" | "records">
}

const define = <Name extends string>({ counts, from, of, ...fact }: Definition<Name>): RowFact => {
  const names = Record.keys(counts)
  return {
    from,
    counts: names.map((name) => counts[name]),
    factOf: (numbers) => ({ ...fact, ...of(Record.map(counts, (_, name) => numbers[names.indexOf(name)] ?? 0)) })
  }
}

const countIf = (condition: string): string => `count(CASE WHEN ${condition} THEN 1 END)`

const lengths = ({ fields, rows }: Table): ReadonlyArray<RowFact> =>
  // Kinds and dates have facts of their own.
  fields.filter(({ type }) => type === "text").map(({ column, name }) =>
    define({
      name: `length-${name}`,
      section: "§2",
      question: `How many characters have the texts of ${name}?`,
      from: rows,
      counts: {
        texts: `count(${column})`,
        empty: countIf(`${column} = ''`),
        shortest: `min(length(${column}))`,
        longest: `max(length(${column}))`
      },
      of: ({ empty, longest, shortest, texts }) => ({
        answer: texts === 0 ? undefined : shortest === longest ? String(longest) : `${shortest} to ${longest}`,
        seen: texts === 0 ? "no record has a text" : `${empty} of ${texts} texts are empty`,
        records: texts
      })
    })
  )

const repeats = ({ fields, rows }: Table): ReadonlyArray<RowFact> =>
  // A copy has one row for each id.
  fields.filter(({ isOfPayment, name, type }) => isOfPayment && type === "text" && name !== "id").map((
    { column, name }
  ) =>
    define({
      name: `unique-${name}`,
      section: "§2",
      question: `Has each record another ${name}?`,
      from: `(SELECT count(*) AS n FROM ${rows} AND ${column} IS NOT NULL GROUP BY ${column}) AS of_${column}`,
      counts: {
        values: "count(*)",
        records: "sum(n)",
        repeated: countIf("n > 1"),
        sharing: "sum(CASE WHEN n > 1 THEN n END)",
        most: "max(n)"
      },
      of: ({ most, records, repeated, sharing, values }) => ({
        answer: records === 0 ? undefined : repeated === 0 ? "yes" : "no",
        seen: records === 0
          ? "no record has a value"
          : `${repeated} of ${values} values repeat, in ${sharing} of ${records} records; at most ${most} share one`,
        records
      })
    })
  )

const signs = ({ fields, rows }: Table): ReadonlyArray<RowFact> =>
  fields.filter(({ type }) => type === "integer").map(({ column, name, path }) => {
    // A number that the column cannot store exactly is only in the text. PostgreSQL cannot look into one with \u0000.
    const text = `CAST(raw${path.map((member) => ` -> '${member}'`).join("")} AS TEXT)`
    const first =
      `CASE WHEN ${column} IS NULL AND CAST(raw AS TEXT) NOT LIKE '%\\u%' ESCAPE '|' THEN substr(${text}, 1, 1) END`
    return define({
      name: `signs-${name}`,
      section: "§2",
      question: `Which signs has ${name}?`,
      from: rows,
      counts: {
        records: "count(*)",
        positive: countIf(`${column} > 0`),
        zero: countIf(`${column} = 0`),
        negative: countIf(`${column} < 0`),
        inexactPositive: countIf(`${first} IN ('1', '2', '3', '4', '5', '6', '7', '8', '9', '0')`),
        inexactNegative: countIf(`${first} = '-'`)
      },
      of: ({ inexactNegative, inexactPositive, records, zero, ...exact }) => {
        const counts = {
          positive: exact.positive + inexactPositive,
          zero,
          negative: exact.negative + inexactNegative
        }
        const all = Object.entries(counts)
        const numbers = all.reduce((sum, [, count]) => sum + count, 0)
        return {
          answer: all.flatMap(([sign, count]) => count === 0 ? [] : [sign]).join(", ") || undefined,
          seen: `${all.map(([sign, count]) => `${sign} ${count}`).join(", ")}; ` +
            `no whole number below 2^53: ${inexactPositive + inexactNegative}; without a number: ${records - numbers}`,
          records: numbers
        }
      }
    })
  })

const formats = ({ fields, rows }: Table): ReadonlyArray<RowFact> =>
  fields.filter(({ type }) => type === "dateTime" || type === "day").map(({ column, name }) =>
    define({
      name: `format-${name}`,
      section: "§2",
      question: `How is ${name} written?`,
      from:
        `(SELECT shape, count(*) AS n FROM (SELECT ${
          shapeOf(column)
        } AS shape FROM ${rows} AND ${column} IS NOT NULL) ` +
        `AS shapes GROUP BY shape) AS of_${column}`,
      counts: {
        ...Record.map(formsOfDates, (shapes) => `sum(CASE WHEN ${isIn("shape", shapes)} THEN n END)`),
        [otherForm]: `sum(CASE WHEN NOT ${isIn("shape", Object.values(formsOfDates).flat())} THEN n END)`
      },
      of: (counts) => {
        const seen = Object.entries(counts).filter(([, count]) => count > 0)
          .toSorted(([, one], [, other]) => other - one)
        return {
          answer: seen.map(([form]) => form).join(", ") || undefined,
          seen: seen.map(([form, count]) => `${form} ${count}`).join(", ") || "no record has a text",
          records: seen.reduce((sum, [, count]) => sum + count, 0)
        }
      }
    })
  )

const otherForm = "(other)"

const columnNamed = (fields: ReadonlyArray<Field>, wanted: string): string | undefined =>
  fields.find(({ name }) => name === wanted)?.column

const orderOfTimes = ({ fields, rows }: Table): ReadonlyArray<RowFact> => {
  const [created, updated] = ["createdAt", "updatedAt"].map((name) => columnNamed(fields, name))
  if (created === undefined || updated === undefined) return []
  return [define({
    name: "created-before-updated",
    section: "§2",
    question: "Is createdAt never after updatedAt?",
    from: `(SELECT is_broken, count(*) AS n FROM (SELECT ${isAfter(created, updated)} AS is_broken FROM ${rows}) ` +
      "AS compared GROUP BY is_broken) AS orders",
    counts: {
      records: "sum(n)",
      broken: "sum(CASE WHEN is_broken THEN n END)",
      inOrder: "sum(CASE WHEN NOT is_broken THEN n END)"
    },
    of: ({ broken, inOrder, records }) => {
      const compared = broken + inOrder
      return {
        answer: compared === 0 ? undefined : broken === 0 ? "yes" : "no",
        seen: `after it in ${broken} of ${compared} records; ${records - compared} without two exact instants`,
        records: compared
      }
    }
  })]
}

/** Records that were there at the first complete scan do not show when they could first be seen. */
const lag = ({ dialect, fields, list }: Table): ReadonlyArray<RowFact> => {
  const created = columnNamed(fields, "createdAt")
  if (created === undefined) return []
  const seen = dialect.forExcerpt({ kind: "time", name: "first_seen_at" })
  const firstScan =
    `SELECT min(ended_at) FROM scans WHERE list = '${list.label}' AND kind = 'full' AND state = 'complete'`
  const newer = `SELECT ${created} AS created, ${seen} AS seen FROM ${
    tableOf(list)
  } WHERE first_seen_at > (${firstScan})`
  const lags = `SELECT (${microsecondsOf("seen")} - ${microsecondsOf("created")}) / 1000 AS lag FROM newer`
  // The nearest rank, counted from 0.
  const percentile = (percent: number) =>
    "(SELECT lag FROM lags WHERE lag IS NOT NULL ORDER BY lag LIMIT 1 " +
    `OFFSET (SELECT (${percent} * count(lag) - 1) / 100 FROM lags))`
  return [define({
    name: "first-sight",
    section: "§2",
    question: "How long after its createdAt is a record first seen?",
    // Window functions take SQLite five times as long. Without `MATERIALIZED`, texts would be parsed again for each use.
    from: `(WITH newer AS MATERIALIZED (${newer}), lags AS MATERIALIZED (${lags})
      SELECT count(*) AS records, count(lag) AS known, ${countIf("lag < 0")} AS negative, ${percentile(50)} AS half,
        ${percentile(99)} AS most, max(lag) AS largest FROM lags) AS counted`,
    counts: {
      records: "records",
      known: "known",
      negative: "negative",
      half: "half",
      most: "most",
      largest: "largest"
    },
    of: ({ half, known, largest, most, negative, records }) => ({
      answer: known === 0 ? undefined : `p50 ${half} ms, p99 ${most} ms, largest ${largest} ms`,
      seen: records === 0
        ? "no record was new since the first complete scan"
        : `${records} new records since the first complete scan, ${records - known} without an exact createdAt` +
          (negative === 0 ? "" : `; ${negative} of them seen before createdAt: a clock is ahead`),
      records: known
    })
  })]
}

/** Each entry makes the facts of one kind. */
const registry: ReadonlyArray<(table: Table) => ReadonlyArray<RowFact>> = [
  lengths,
  repeats,
  signs,
  formats,
  orderOfTimes,
  lag
]
