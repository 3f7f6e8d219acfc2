/**
 * Parquet in row groups of bounded size. Amounts are INT64, booleans BOOLEAN, and text UTF-8. A date-time of the record
 * (§2) stays text (`created_at`). The next column has it as a UTC timestamp in milliseconds (`created_at_utc`), which
 * is null if the text is not a valid date-time. The last columns are `raw` and the timestamps `first_seen_at`,
 * `changed_at` and `missing_since`.
 */
import { Lists, timestamp } from "@payments/core"
import { Option } from "effect"
import { ByteWriter, ParquetWriter } from "hyparquet-writer"
import { gzipSync, zstdCompressSync } from "node:zlib"
import { type Column, layoutOf } from "../../plan/Columns.ts"
import type { FullRow } from "../../store/Store.ts"
import type { Encoder, Format } from "./Format.ts"

/** A row group ends with the row that reaches either limit. */
const groupLimit = { rows: 5000, characters: 8 * 1024 * 1024 } as const

const codecs = { none: "UNCOMPRESSED", gzip: "GZIP", zstd: "ZSTD" } as const
const compressors = {
  GZIP: (input: Uint8Array): Uint8Array => gzipSync(input),
  ZSTD: (input: Uint8Array): Uint8Array => zstdCompressSync(input)
}

type SchemaElement = ConstructorParameters<typeof ParquetWriter>[0]["schema"][number]

/** A column of the file. */
interface Field {
  readonly element: SchemaElement
  readonly value: (row: FullRow) => unknown
  /** Whether this is the text of the record. It differs in each row, and nobody filters by it, so it has no statistics. */
  readonly isRaw?: boolean
}

export const encoder = (list: Lists.AnyList, compress: Format["compress"]): Encoder => {
  const fields = fieldsOf(list, layoutOf(list).columns)
  const output = new ByteWriter()
  const writer = new ParquetWriter({
    writer: output,
    schema: [{ name: "record", num_children: fields.length }, ...fields.map(({ element }) => element)],
    codec: codecs[compress],
    compressors,
    createdBy: "payments-read-toolkit"
  })
  let group = emptyGroup(fields)

  const writeGroup = () => {
    // This writer has no asynchronous flush, so the call is complete when it returns.
    void writer.write({ columnData: group.columns, rowGroupSize: group.rows })
    group = emptyGroup(fields)
  }
  const takeBytes = () => {
    const bytes = output.getBytes().slice()
    output.index = 0
    return bytes
  }

  return {
    write: (rows) => {
      for (const row of rows) {
        for (const [index, { isRaw = false, value }] of fields.entries()) {
          group.columns[index]?.data.push(isRaw ? Buffer.from(row.raw) : value(row))
        }
        group.rows++
        group.characters += row.raw.length
        if (group.rows >= groupLimit.rows || group.characters >= groupLimit.characters) writeGroup()
      }
      return takeBytes()
    },
    end: () => {
      if (group.rows > 0) writeGroup()
      void writer.finish()
      return takeBytes()
    }
  }
}

/** The values of a row group by column: they take less memory than its rows. */
const emptyGroup = (fields: ReadonlyArray<Field>) => ({
  rows: 0,
  characters: 0,
  columns: fields.map(({ element: { name }, isRaw = false }) => ({
    name,
    data: new Array<unknown>(),
    offsetIndex: false,
    ...(isRaw ? { statistics: false, encoding: "PLAIN" } as const : {})
  }))
})

/** Returns the columns of a file that is rendered with these columns of the list's table. */
export const fieldsOf = (list: Lists.AnyList, columns: ReadonlyArray<Column>): ReadonlyArray<Field> => [
  ...columns.flatMap((column) => fieldsOfColumn(column, Lists.dateFields(list))),
  { element: text("raw", "REQUIRED"), value: ({ raw }) => raw, isRaw: true },
  { element: instant("first_seen_at"), value: ({ firstSeenAt }) => instantOf(firstSeenAt) },
  { element: instant("changed_at"), value: ({ changedAt }) => instantOf(changedAt) },
  { element: instant("missing_since"), value: ({ missingSince }) => instantOf(missingSince) }
]

/** A day such as `settlement_date` has no time zone, so it gets no timestamp. */
const fieldsOfColumn = (column: Column, dates: ReturnType<typeof Lists.dateFields>): ReadonlyArray<Field> => {
  const { name, path: [field, inner] } = column
  const own: Field = { element: elementOf(column), value: ({ cells }) => cellOf(column, cells[name]) }
  return inner === undefined && dates[field] === "dateTime"
    ? [own, { element: instant(`${name}_utc`), value: ({ cells }) => instantOf(cells[name]) }]
    : [own]
}

const elementOf = ({ kind, name }: Column): SchemaElement =>
  kind === "text"
    ? text(name, name === "id" ? "REQUIRED" : "OPTIONAL")
    : { name, type: types[kind], repetition_type: "OPTIONAL" }

const types = { integer: "INT64", boolean: "BOOLEAN" } as const

const text = (name: string, repetition_type: "REQUIRED" | "OPTIONAL"): SchemaElement => ({
  name,
  type: "BYTE_ARRAY",
  converted_type: "UTF8",
  logical_type: { type: "STRING" },
  repetition_type
})

const instant = (name: string): SchemaElement => ({
  name,
  type: "INT64",
  converted_type: "TIMESTAMP_MILLIS",
  logical_type: { type: "TIMESTAMP", isAdjustedToUTC: true, unit: "MILLIS" },
  repetition_type: "OPTIONAL"
})

const cellOf = ({ kind }: Column, cell: unknown): unknown => {
  if (cell === null || cell === undefined) return null
  switch (kind) {
    case "text":
      return cell
    case "integer":
      return BigInt(cell as number) // the type of a stored integer cell
    case "boolean":
      return Boolean(cell)
  }
}

const instantOf = (cell: unknown): Date | null =>
  typeof cell === "string"
    ? Option.getOrNull(Option.map(timestamp(cell), ({ epochMilliseconds }) => new Date(epochMilliseconds)))
    : null
