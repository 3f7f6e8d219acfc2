/**
 * Arbitraries of records, for the property tests of the library's users. They are derived from the schemas of the
 * records, so they generate new fields without a change here.
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
import * as Lists from "../model/Lists.ts"

/** How records are generated. */
export interface RecordOptions {
  /**
   * `documented`, the default: timestamps and dates have the formats of §2, with the precision of the list, in the
   * years 2000 to 2099. `any`: any text, which the check of a record accepts too.
   */
  readonly timestamps?: "documented" | "any" | undefined
  /**
   * Whether records have undocumented fields, at every depth; default false. Their names need no escape in JSON,
   * because `JSON.parse` of Node 24 may confuse escaped names (nodejs/node#63785).
   */
  readonly undocumented?: boolean | undefined
}

/** How lists of records are generated. */
export interface RecordsOptions extends RecordOptions {
  /** The shortest list; default 0. */
  readonly minLength?: number | undefined
  /** The longest list. A page has at most 100 records (§8). */
  readonly maxLength?: number | undefined
}

/**
 * Returns an arbitrary of records that pass the check of the list and survive JSON. Each field except `id` may be
 * absent or null, amounts are safe integers, and texts may be empty or contain any characters.
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
    extra: extraFields(options),
    nestedExtra: extraFields(options)
  }).pipe(
    Arbitrary.map(({ dates: generated, extra, nestedExtra, plain }) => {
      // Replace generated texts by dates. Absent and null fields stay absent and null.
      const texts = Record.filter(generated, (_, field) => typeof plain[field] === "string")
      const nested = Object.entries(plain).map(([field, value]) =>
        [field, typeof value === "object" && value !== null ? { ...nestedExtra, ...value } : value] as const
      )
      // JSON has no -0, and parsing changes the order of numeric keys.
      return JSON.parse(JSON.stringify({ ...extra, ...Object.fromEntries(nested), ...texts })) as unknown
    }),
    // Drop records whose undocumented field has the name of a documented one, with a value of the wrong type.
    Arbitrary.filter(Schema.is(list.record))
  )
}

/** Returns an arbitrary of lists of records with unique ids. */
export const records = <Record extends { readonly id: string }, Filters>(
  list: Lists.ListDefinition<Record, Filters>,
  { maxLength, minLength, ...options }: RecordsOptions = {}
): Arbitrary.Arbitrary<ReadonlyArray<Record>> =>
  Arbitrary.array(record(list, options), { minLength, maxLength }).pipe(Arbitrary.map((generated) => {
    const ids = new Set<string>()
    return generated.map((item, index) => {
      let { id } = item
      while (ids.has(id)) id += `_${index}`
      ids.add(id)
      return { ...item, id }
    })
  }))

/** Returns an arbitrary of all lists, for `layerTest`. */
export const lists = (
  options: RecordsOptions = {}
): Arbitrary.Arbitrary<{ readonly [Name in Lists.ListName]: ReadonlyArray<Lists.ItemOf<Name>> }> =>
  // The cast is sound: `Lists.map` keeps the names, but its type does not relate each list to its own records.
  Arbitrary.all(Lists.map((list) => records<{ readonly id: string }, object>(list, options))) as never

/** Milliseconds since 1970, in the years 2000 to 2099. */
const Instant = Schema.Int.check(Schema.isBetween({ minimum: 946_684_800_000, maximum: 4_102_444_799_999 }))

const dateText = (ms: number, kind: "dateTime" | "day", precision: "seconds" | "milliseconds"): string => {
  const text = DateTime.formatIso(DateTime.makeUnsafe(ms))
  return kind === "day" ? text.slice(0, 10) : precision === "milliseconds" ? text : text.replace(/\.\d+Z$/, "Z")
}

const extraFields = ({ undocumented = false }: RecordOptions): Arbitrary.Arbitrary<object> =>
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
