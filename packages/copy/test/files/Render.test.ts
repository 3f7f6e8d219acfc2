import { assert, describe, it } from "@effect/vitest"
import { Lists, timestamp } from "@payments/core"
import { readCsv, readParquet } from "@payments/testkit/RenderedFiles"
import { Effect, Option, Schema } from "effect"
import { parquetMetadata } from "hyparquet"
import { encoderOf } from "../../src/files/render/Encoders.ts"
import type { Encoder, Format } from "../../src/files/render/Format.ts"
import { layoutOf, valueOf } from "../../src/plan/Columns.ts"
import type { FullRow } from "../../src/store/Store.ts"

/** Texts that could break a file, or harm a program that opens it. */
const Hostile = Schema.Literals([
  "=1+1",
  "+57 300 123",
  "-5",
  "@SUM(A1)",
  "\t=1",
  "\r=1",
  "\n=1",
  "\uff1d1",
  "=HYPERLINK(\"http://x\",\"y\")",
  "a\"b",
  "\"",
  "\"\"",
  ",",
  ";",
  "a\r\nb",
  "a\rb",
  "y\n=1+1",
  "y\r=1+1",
  "y\r\n@SUM(A1)",
  "\n",
  "a\n\n-b\n",
  "z\u2028=1",
  " padded\t",
  "\ufeffmark",
  "",
  " ",
  "'",
  "\u202Eevil\u200F",
  "\0",
  "\ud800",
  "x\udfff",
  "null",
  "💸".repeat(999),
  "q\",\r\n".repeat(20_000)
])
const Text = Schema.Union([Hostile, Schema.String])
const Amount = Schema.Union([Schema.Literals([9007199254740991, -9007199254740991, 0, -1]), Schema.Int])
const Time = Schema.Literals([
  "2024-05-01T10:00:00Z",
  "1969-12-31T23:59:59.999Z",
  "2024-02-30T10:00:00Z",
  "2024-05-01",
  "9999-12-31T23:59:59.999Z",
  "soon"
])

/** Arbitrary records of a list. */
const recordOf = (list: Lists.AnyList) =>
  Schema.Struct(Object.fromEntries(
    layoutOf(list).columns.map(({ kind, name }) => {
      const value = kind === "integer" ? Amount : kind === "boolean" ? Schema.Boolean : Schema.Union([Text, Time])
      return [name, name === "id" ? Text : Schema.NullOr(value)]
    })
  ))

/** A row as a store returns it. */
const rowOf = (list: Lists.AnyList, values: Readonly<Record<string, unknown>>, index: number): FullRow => {
  const record: Record<string, unknown> = {}
  for (const { name, path: [field, inner] } of layoutOf(list).columns) {
    if (inner === undefined) record[field] = values[name]
    else record[field] = { ...(record[field] as object | undefined), [inner]: values[name] } // made by this loop
  }
  return {
    row: index,
    id: String(record["id"]),
    raw: JSON.stringify(record),
    hash: "",
    cells: Object.fromEntries(layoutOf(list).columns.map((column) => [column.name, valueOf(column, record)])),
    firstSeenAt: "2026-01-02T03:04:05.678Z",
    changedAt: "2026-02-02T03:04:05.678Z",
    missingSince: index % 3 === 0 ? "2026-03-02T03:04:05.678Z" : undefined
  }
}

const joined = (pieces: ReadonlyArray<Uint8Array>): Uint8Array => new Uint8Array(Buffer.concat(pieces))

/** Encodes the rows in two chunks. */
const encoded = (encoder: Encoder, rows: ReadonlyArray<FullRow>, parting: number) =>
  joined([encoder.write(rows.slice(0, parting)), encoder.write(rows.slice(parting)), encoder.end()])

const exactly = (bytes: Uint8Array): ArrayBuffer => Uint8Array.from(bytes).buffer

/** Returns the text with a quote before each formula, at the start of the text and of each of its lines. */
const marked = (text: string): string =>
  text.split(/(\r\n|\r|\n)/).map((part, index) =>
    /^[=+\-@\t\uff1d\uff0b\uff0d\uff20]/.test(part) && index % 2 === 0 ? `'${part}` : part
  )
    .join("").replace(/^(?=[\r\n])/, "'")

const plain: Format = { format: "ndjson", compress: "none", formulas: "escape" }

describe.each(Lists.all.map((list) => [list.label, list] as const))("%s", (_, list) => {
  const { columns } = layoutOf(list)
  const drawn = {
    records: Schema.Array(recordOf(list)).check(Schema.isMaxLength(8)),
    parting: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 8 }))
  }
  const options = { arbitrary: { runs: 40 } }

  it.effect.prop(
    "are rendered as NDJSON with each record's exact text on a separate line",
    drawn,
    ({ parting, records }) =>
      Effect.gen(function*() {
        const rows = records.map((record, index) => rowOf(list, record, index))
        const text = Buffer.from(encoded(yield* encoderOf(list, plain), rows, parting)).toString("utf8")
        assert.deepStrictEqual(text.split("\n"), [...rows.map(({ raw }) => raw), ""])
      }),
    options
  )

  it.effect.prop(
    "are rendered as CSV with unchanged cells, except for a mark before each formula",
    { ...drawn, formulas: Schema.Literals(["escape", "keep"]) },
    ({ formulas, parting, records }) =>
      Effect.gen(function*() {
        const rows = records.map((record, index) => rowOf(list, record, index))
        const encoder = yield* encoderOf(list, { ...plain, format: "csv", formulas })
        const expected = rows.map(({ cells, changedAt, firstSeenAt, missingSince = null, raw }) => ({
          ...Object.fromEntries(columns.map(({ kind, name }) => {
            const cell = cells[name]
            if (cell === null) return [name, null]
            if (kind === "integer") return [name, String(cell)]
            if (kind === "boolean") return [name, cell === 1 ? "true" : "false"]
            const text = String(cell)
            return [
              name,
              formulas === "escape" ? marked(text) : text
            ]
          })),
          raw,
          first_seen_at: firstSeenAt,
          changed_at: changedAt,
          missing_since: missingSince
        }))
        assert.deepStrictEqual(readCsv(encoded(encoder, rows, parting)).map((cells) => ({ ...cells })), expected)
      }),
    options
  )

  it.effect.prop(
    "are rendered as Parquet with unchanged cells, 64-bit amounts, and a timestamp next to each date-time's text",
    { ...drawn, compress: Schema.Literals(["none", "gzip", "zstd"]) },
    ({ compress, parting, records }) =>
      Effect.gen(function*() {
        const rows = records.map((record, index) => rowOf(list, record, index))
        const bytes = encoded(yield* encoderOf(list, { ...plain, format: "parquet", compress }), rows, parting)
        const expected = rows.map(({ cells, changedAt, firstSeenAt, missingSince, raw }) => ({
          ...Object.fromEntries(
            columns.flatMap(({ kind, name }) => {
              const cell = cells[name] ?? null
              if (cell === null) {
                return /_at$|_date$/.test(name)
                  ? [[name, null], [`${name}_utc`, null]]
                  : [[name, null]]
              }
              if (kind === "integer") return [[name, BigInt(Number(cell))]]
              if (kind === "boolean") return [[name, cell === 1]]
              const instant = Option.getOrUndefined(timestamp(String(cell)))
              const utc = instant === undefined ? null : new Date(instant.epochMilliseconds)
              return /_at$|_date$/.test(name) ? [[name, cell], [`${name}_utc`, utc]] : [[name, cell]]
            }).filter(([name]) => name !== "settlement_date_utc")
          ),
          raw,
          first_seen_at: new Date(firstSeenAt),
          changed_at: new Date(changedAt),
          missing_since: missingSince === undefined ? null : new Date(missingSince)
        }))
        const read = yield* Effect.promise(() => readParquet(bytes))
        assert.deepStrictEqual(read.map((cells) => ({ ...cells })), expected)
        const { row_groups: groups } = parquetMetadata(exactly(bytes))
        for (const { columns: chunks } of groups) {
          for (const { meta_data: chunk } of chunks) {
            assert.strictEqual(chunk?.codec, { none: "UNCOMPRESSED", gzip: "GZIP", zstd: "ZSTD" }[compress])
          }
        }
      }),
    options
  )
})

describe("an encoder", () => {
  it.effect("of Parquet returns a row group when it has 5,000 rows or 8 Mi characters, and keeps nothing", () =>
    Effect.gen(function*() {
      const encoder = yield* encoderOf(Lists.invoices, { ...plain, format: "parquet" })
      const row = rowOf(Lists.invoices, { id: "a", description: "x".repeat(1000) }, 1)
      const some = (count: number) => Array.from({ length: count }, (_, index) => ({ ...row, id: `${index}` }))
      const large = { ...row, raw: `{"id":"${"y".repeat(8 * 1024 * 1024)}"}` }
      const pieces = [some(4_999), some(1), some(2_000), [large], some(10)].map((rows) => encoder.write(rows))
      assert.deepStrictEqual(pieces.map(({ length }) => length > 100), [false, true, false, true, false])
      const { num_rows: total, row_groups: groups } = parquetMetadata(exactly(joined([...pieces, encoder.end()])))
      assert.deepStrictEqual(groups.map(({ num_rows: rows }) => Number(rows)), [5_000, 2_001, 10])
      assert.strictEqual(Number(total), 7_011)
    }))

  it.effect("writes the columns of an empty list", () =>
    Effect.gen(function*() {
      const names = layoutOf(Lists.invoices).columns.map(({ name }) => name)
      const csv = (yield* encoderOf(Lists.invoices, { ...plain, format: "csv" })).end()
      assert.strictEqual(
        Buffer.from(csv).toString("utf8"),
        `${[...names, "raw", "first_seen_at", "changed_at", "missing_since"].join(",")}\r\n`
      )
      const parquet = (yield* encoderOf(Lists.invoices, { ...plain, format: "parquet" })).end()
      const { num_rows: rows, schema } = parquetMetadata(exactly(parquet))
      assert.strictEqual(Number(rows), 0)
      for (const name of names) assert.isTrue(schema.some((element) => element.name === name), name)
      assert.deepInclude(schema.find(({ name }) => name === "payment_date_utc"), {
        type: "INT64",
        logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MILLIS" }
      })
    }))
})
