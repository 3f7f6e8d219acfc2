/**
 * Reads a rendered file as any other program would, by libraries that did not write it where there are any, and compares its
 * records with the rows of the copy, in their order. Takes bounded memory, however long the file is.
 */
import type { Lists } from "@payments/core"
import { parse } from "csv-parse"
import { Data, Effect, Stream } from "effect"
import { type AsyncBuffer, parquetMetadataAsync, parquetReadObjects } from "hyparquet"
import { createReadStream } from "node:fs"
import { open } from "node:fs/promises"
import { pipeline } from "node:stream"
import { createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from "node:zlib"
import { fieldText } from "../Csv.ts"
import type { Column } from "../engine/Columns.ts"
import type { FullRow } from "../engine/Store.ts"
import type { SinkError } from "../Sink.ts"
import { atOnce } from "./CopyRows.ts"
import * as Csv from "./render/Csv.ts"
import type { Format } from "./render/Format.ts"
import * as Parquet from "./render/Parquet.ts"

/** What a file must hold. */
export interface Expected {
  readonly list: Lists.AnyList
  /** The list's columns that the file was rendered with. */
  readonly columns: ReadonlyArray<Column>
  readonly format: Format
  readonly records: number
  /** The next rows of the copy; undefined where the copy has changed since the file was rendered. */
  readonly take: ((count: number) => Effect.Effect<ReadonlyArray<FullRow>, SinkError>) | undefined
}

/** The first difference. */
class Differs extends Data.TaggedError("Differs")<{ readonly problem: string }> {}

/** A record of a file: names the column in which it differs from a row, if any. */
type Read = (row: FullRow) => string | undefined

/** The first difference between the file and what it must hold; undefined where there is none. */
export const differenceIn = (
  path: string,
  expected: Expected
): Effect.Effect<string | undefined, SinkError> => {
  const { format, records, take } = expected
  let read = 0
  return Stream.fromAsyncIterable(
    readersOf[format.format](path, expected),
    () => new Differs({ problem: `it cannot be read behind record ${read}` })
  ).pipe(
    Stream.runForEach(Effect.fnUntraced(function*(some) {
      const rows = take === undefined ? [] : yield* take(some.length)
      for (const [index, row] of rows.entries()) {
        const column = some[index]?.(row)
        if (column !== undefined) {
          return yield* new Differs({
            problem: `record ${read + index + 1} (${row.id}): ${column} differs from the copy`
          })
        }
      }
      if (take !== undefined && rows.length < some.length) {
        return yield* new Differs({ problem: `the copy has no record ${read + rows.length + 1}` })
      }
      read += some.length
    })),
    Effect.andThen(take?.(1) ?? Effect.succeed([])),
    Effect.andThen((rest) =>
      read !== records || rest.length > 0
        ? Effect.succeed(
          read === records ? `the copy has more than ${read} records` : `it holds ${read} records, not ${records}`
        )
        : Effect.undefined
    ),
    Effect.catchTag("Differs", ({ problem }) => Effect.succeed(problem))
  )
}

type Records = AsyncIterable<ReadonlyArray<Read>>

/** Each line is the record's exact text. */
const ndjson = async function*(path: string, { format: { compress } }: Expected): Records {
  let some = new Piece()
  let begun: Array<Buffer> = []
  for await (const bytes of unpacked(path, compress)) {
    let from = 0
    for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, from)) {
      const line = Buffer.concat([...begun, bytes.subarray(from, end)]).toString("utf8")
      begun = []
      from = end + 1
      some.add(({ raw }) => line === raw ? undefined : "the line", line.length)
      if (some.isFull) {
        yield some.reads
        some = new Piece()
      }
    }
    if (from < bytes.length) begun.push(bytes.subarray(from))
  }
  if (begun.length > 0) some.add(() => "the end of the line", 0)
  yield some.reads
}

const lineFeed = 0x0a

/** The reader ends a row at every CR or LF that is not quoted, as spreadsheets do. */
const csv = async function*(path: string, { columns, format: { compress, formulas } }: Expected): Records {
  const names = Csv.columnNames(columns)
  const parser = parse({ record_delimiter: ["\r\n", "\n", "\r"], relax_column_count: true })
  // An error of either ends the other, and is thrown to the loop.
  pipeline(unpacked(path, compress), parser, () => {})
  let some = new Piece()
  let isHeader = true
  for await (const fields of parser as AsyncIterable<ReadonlyArray<string>>) { // what it gives without columns
    if (isHeader) {
      isHeader = false
      if (names.some((name, index) => name !== fields[index])) throw new Error("another header")
      continue
    }
    const read: Read = (row) => {
      const expected = Csv.fieldsOf(columns, row).map((field) => fieldText(field, formulas))
      const at = expected.findIndex((field, index) => field !== fields[index])
      return at === -1 ? undefined : names[at]
    }
    some.add(read, fields.reduce((sum, { length }) => sum + length, 0))
    if (some.isFull) {
      yield some.reads
      some = new Piece()
    }
  }
  yield some.reads
}

/** A row group at a time. */
const parquet = async function*(path: string, { columns, list }: Expected): Records {
  const fields = Parquet.fieldsOf(list, columns)
  const handle = await open(path)
  try {
    const file: AsyncBuffer = {
      byteLength: (await handle.stat()).size,
      slice: async (start, end = file.byteLength) => {
        const bytes = new Uint8Array(end - start)
        const { bytesRead } = await handle.read(bytes, 0, bytes.length, start)
        if (bytesRead < bytes.length) throw new Error("the file is too short")
        return bytes.buffer
      }
    }
    const metadata = await parquetMetadataAsync(file)
    let rowStart = 0
    for (const group of metadata.row_groups) {
      const rowEnd = rowStart + Number(group.num_rows)
      // oxlint-disable-next-line no-await-in-loop -- one group after the other, so that memory is bounded
      const rows = await parquetReadObjects({ file, metadata, rowStart, rowEnd, compressors, parsers })
      yield rows.map((cells): Read => (row) =>
        fields.find(({ element: { name }, value }) => comparable(cells[name]) !== comparable(value(row)))?.element.name
      )
      rowStart = rowEnd
    }
  } finally {
    await handle.close()
  }
}

const compressors = {
  GZIP: (input: Uint8Array) => gunzipSync(input),
  ZSTD: (input: Uint8Array) => zstdDecompressSync(input)
}

/** By itself this reader drops a byte order mark at the start of a text. */
const parsers = { stringFromBytes: (text: Uint8Array) => Buffer.from(text).toString("utf8") }

const comparable = (cell: unknown): unknown => cell instanceof Date ? cell.getTime() : cell ?? null

const readersOf: {
  readonly [Name in Format["format"]]: (path: string, expected: Expected) => Records
} = {
  ndjson,
  csv,
  parquet
}

/** Records that are compared together. */
class Piece {
  readonly reads: Array<Read> = []
  #characters = 0

  add(read: Read, characters: number): void {
    this.reads.push(read)
    this.#characters += characters
  }

  get isFull(): boolean {
    return this.reads.length >= atOnce.rows || this.#characters >= atOnce.characters
  }
}

const unpacked = (path: string, compress: Format["compress"]): NodeJS.ReadableStream & AsyncIterable<Buffer> => {
  const bytes = createReadStream(path)
  if (compress === "none") return bytes
  const unpacker = compress === "gzip" ? createGunzip() : createZstdDecompress()
  pipeline(bytes, unpacker, () => {})
  return unpacker
}
