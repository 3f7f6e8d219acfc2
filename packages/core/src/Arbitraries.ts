/**
 * Arbitraries of what the lists may hold, for a team's own property tests. Derived from the schemas of the records, so
 * that a new field is drawn as soon as it is there.
 *
 * @example
 * ```ts
 * import { Lists } from "@payments/core"
 * import { Arbitraries } from "@payments/core/testing"
 * import { Arbitrary, Effect } from "effect"
 *
 * const total = (amounts: ReadonlyArray<number | null | undefined>) =>
 *   amounts.reduce<bigint>((sum, amount) => sum + BigInt(amount ?? 0), 0n)
 *
 * const result = await Effect.runPromise(Arbitrary.checkEffect(
 *   Arbitraries.records(Lists.invoices),
 *   (invoices) => total(invoices.map(({ amount }) => amount)) === total(invoices.map(({ amount }) => amount).toReversed())
 * ))
 * console.log(result._tag)
 * ```
 */
import { Arbitrary, DateTime, Record, Schema } from "effect"
import * as Lists from "./Lists.ts"

/** How records are drawn. */
export interface RecordOptions {
  /**
   * `documented`, the default: timestamps and dates have the formats of §2, with the list's precision, and lie in the years
   * 2000 to 2099. `any`: any text, which a record may hold too.
   */
  readonly timestamps?: "documented" | "any" | undefined
  /**
   * Whether records carry undocumented fields, at every depth; they do not unless asked to. Their names need no escape in
   * JSON: `JSON.parse` of Node 24 may take such a name for another one (nodejs/node#63785), which no test here is about.
   */
  readonly undocumented?: boolean | undefined
}

/** How lists of records are drawn. */
export interface RecordsOptions extends RecordOptions {
  /** No list is shorter; 0 unless given. */
  readonly minLength?: number | undefined
  /** No list is longer. A page has at most 100 (§8). */
  readonly maxLength?: number | undefined
}

/**
 * Any record of a list that passes its check, as JSON carries it: each field but `id` may be absent or null, amounts are
 * integers that JSON keeps exactly, texts may be empty or hold anything that a string can.
 */
export const record = <Record, Filters>(
  list: Lists.ListDefinition<Record, Filters>,
  options: RecordOptions = {}
): Arbitrary.Arbitrary<Record> => {
  const dates = options.timestamps === "any" ? {} : Record.map(
    Lists.dateFields(list),
    (kind) => Arbitrary.map(Arbitrary.schema(Instant), (ms) => dateText(ms, kind, list.timestampPrecision))
  )
  return Arbitrary.all({
    plain: Arbitrary.schema(Schema.Struct(list.record.fields)),
    dates: Arbitrary.all(dates),
    beside: extras(options),
    within: extras(options)
  }).pipe(
    Arbitrary.map(({ beside, dates: drawn, plain, within }) => {
      // Dates replace the texts that were drawn; absent and null fields stay so.
      const texts = Record.filter(drawn, (_, field) => typeof plain[field] === "string")
      const nested = Object.entries(plain).map(([field, value]) =>
        [field, typeof value === "object" && value !== null ? { ...within, ...value } : value] as const
      )
      // JSON has no -0, and sets the order of keys that are numbers.
      return JSON.parse(JSON.stringify({ ...beside, ...Object.fromEntries(nested), ...texts })) as unknown
    }),
    // An undocumented field is not one if it has the name of a documented one.
    Arbitrary.filter(Schema.is(list.record))
  )
}

/** A list of such records; no two have the same `id`. */
export const records = <Record extends { readonly id: string }, Filters>(
  list: Lists.ListDefinition<Record, Filters>,
  { maxLength, minLength, ...options }: RecordsOptions = {}
): Arbitrary.Arbitrary<ReadonlyArray<Record>> =>
  Arbitrary.array(record(list, options), { minLength, maxLength }).pipe(Arbitrary.map((drawn) => {
    const ids = new Set<string>()
    return drawn.map((item, index) => {
      let { id } = item
      while (ids.has(id)) id += `_${index}`
      ids.add(id)
      return { ...item, id }
    })
  }))

/** All lists, as `layerTest` takes them. */
export const lists = (
  options: RecordsOptions = {}
): Arbitrary.Arbitrary<{ readonly [Name in Lists.ListName]: ReadonlyArray<Lists.ItemOf<Name>> }> =>
  // Each list has records of its own, which the type of the map over all lists does not say.
  Arbitrary.all(Lists.map((list) => records<{ readonly id: string }, object>(list, options))) as never

/** Milliseconds since 1970, in the years 2000 to 2099. */
const Instant = Schema.Int.check(Schema.isBetween({ minimum: 946_684_800_000, maximum: 4_102_444_799_999 }))

const dateText = (ms: number, kind: "dateTime" | "day", precision: "seconds" | "milliseconds"): string => {
  const text = DateTime.formatIso(DateTime.makeUnsafe(ms))
  return kind === "day" ? text.slice(0, 10) : precision === "milliseconds" ? text : text.replace(/\.\d+Z$/, "Z")
}

const extras = ({ undocumented = false }: RecordOptions): Arbitrary.Arbitrary<object> =>
  undocumented
    ? Arbitrary.schema(Schema.Record(Schema.String, Schema.Json)).pipe(Arbitrary.map(withPlainNames))
    : Arbitrary.Constant({})

const withPlainNames = (fields: { readonly [name: string]: Schema.Json }): { readonly [name: string]: Schema.Json } =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name.replaceAll(/["\\\p{Cc}\p{Cs}]/gu, "_"), plainNamesIn(value)])
  )

const plainNamesIn = (value: Schema.Json): Schema.Json =>
  isArray(value) ? value.map(plainNamesIn) : typeof value === "object" && value !== null ? withPlainNames(value) : value

const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)
