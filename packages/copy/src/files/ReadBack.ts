/**
 * Reads a rendered file as another program does, if possible with libraries other than those that wrote it. Compares
 * its records in order with the rows of the copy, in bounded memory.
 */
import type { Lists } from "@payments/core"
import { parse } from "csv-parse"
import { Data, Effect, Stream } from "effect"
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from "hyparquet"
import { createReadStream } from "node:fs"
import { pipeline } from "node:stream"
import { createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from "node:zlib"
import type { Column } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import type { FullRow } from "../store/Store.ts"
import { fieldText } from "../text/Csv.ts"
import { chunkLimit } from "./CopyRows.ts"
import * as Csv from "./render/CsvFormat.ts"
import type { Format } from "./render/Format.ts"
import * as Parquet from "./render/ParquetFormat.ts"

export interface Expected {
  readonly list: Lists.AnyList
  /** The list's columns with which the file was rendered. */
  readonly columns: ReadonlyArray<Column>
  readonly format: Format
  readonly records: number
  /** Returns the next rows of the copy. Undefined if the copy has changed since the file was rendered. */
  readonly nextRows: ((count: number) => Effect.Effect<ReadonlyArray<FullRow>, SinkError>) | undefined
}

/** The first difference of a file. */
class Differs extends Data.TaggedError("Differs")<{ readonly problem: string }> {}

/** A record of a file, as a function that returns the first column in which the record differs from a row. */
type FileRecord = (row: FullRow) => string | undefined

/** Returns the first difference between the file and its expected content, or undefined if there is none. */
export const differenceIn = (
  path: string,
  expected: Expected
): Effect.Effect<string | undefined, SinkError> => {
  const { format, nextRows, records } = expected
  let read = 0
  return Stream.fromAsyncIterable(
    readersOf[format.format](path, expected),
    () => new Differs({ problem: `it cannot be read after record ${read}` })
  ).pipe(
    Stream.runForEach(Effect.fnUntraced(function*(chunk) {
      const rows = nextRows === undefined ? [] : yield* nextRows(chunk.length)
      for (const [index, row] of rows.entries()) {
        const column = chunk[index]?.(row)
        if (column !== undefined) {
          return yield* new Differs({
            problem: `record ${read + index + 1} (${row.id}): ${column} differs from the copy`
          })
        }
      }
      if (nextRows !== undefined && rows.length < chunk.length) {
        return yield* new Differs({ problem: `the copy has no record ${read + rows.length + 1}` })
      }
      read += chunk.length
    })),
    Effect.andThen(nextRows?.(1) ?? Effect.succeed([])),
    Effect.map((rest) => {
      if (read !== records) return `it has ${read} ${read === 1 ? "record" : "records"}, not ${records}`
      return rest.length > 0 ? `the copy has more than ${read} records` : undefined
    }),
    Effect.catchTag("Differs", ({ problem }) => Effect.succeed(problem))
  )
}

type Records = AsyncIterable<ReadonlyArray<FileRecord>>

/** Each line is the record's exact text. */
const ndjson = async function*(path: string, { format: { compress } }: Expected): Records {
  let chunk = new Chunk()
  let partialLine: Array<Buffer> = []
  for await (const bytes of decompressed(path, compress)) {
    let from = 0
    for (let end = bytes.indexOf(lineFeed); end !== -1; end = bytes.indexOf(lineFeed, from)) {
      const line = Buffer.concat([...partialLine, bytes.subarray(from, end)]).toString("utf8")
      partialLine = []
      from = end + 1
      chunk.add(({ raw }) => line === raw ? undefined : "the line", line.length)
      if (chunk.isFull) {
        yield chunk.records
        chunk = new Chunk()
      }
    }
    if (from < bytes.length) partialLine.push(bytes.subarray(from))
  }
  if (partialLine.length > 0) chunk.add(() => "the end of the line", 0)
  yield chunk.records
}

const lineFeed = 0x0a

/** The parser ends a row at every unquoted CR or LF, as spreadsheets do. */
const csv = async function*(path: string, { columns, format: { compress, formulas } }: Expected): Records {
  const names = Csv.columnNames(columns)
  const parser = parse({ record_delimiter: ["\r\n", "\n", "\r"], relax_column_count: true })
  // `pipeline` passes an error of the file to the parser, which throws it into the loop.
  pipeline(decompressed(path, compress), parser, () => {})
  let chunk = new Chunk()
  let isHeader = true
  for await (const fields of parser as AsyncIterable<ReadonlyArray<string>>) { // the rows without the option `columns`
    if (isHeader) {
      isHeader = false
      if (names.some((name, index) => name !== fields[index])) throw new Error("another header")
      continue
    }
    const record: FileRecord = (row) => {
      const expected = Csv.fieldsOf(columns, row).map((field) => fieldText(field, formulas))
      const at = expected.findIndex((field, index) => field !== fields[index])
      return at === -1 ? undefined : names[at]
    }
    chunk.add(record, fields.reduce((sum, { length }) => sum + length, 0))
    if (chunk.isFull) {
      yield chunk.records
      chunk = new Chunk()
    }
  }
  yield chunk.records
}

/** Reads one row group at a time. */
const parquet = async function*(path: string, { columns, list }: Expected): Records {
  const fields = Parquet.fieldsOf(list, columns)
  const file = await asyncBufferFromFile(path)
  const metadata = await parquetMetadataAsync(file)
  let rowStart = 0
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows)
    // oxlint-disable-next-line no-await-in-loop -- reads one group after the other, to bound the memory
    const rows = await parquetReadObjects({ file, metadata, rowStart, rowEnd, compressors, parsers })
    yield rows.map((cells): FileRecord => (row) =>
      fields.find(({ element: { name }, value }) => comparable(cells[name]) !== comparable(value(row)))?.element.name
    )
    rowStart = rowEnd
  }
}

const compressors = {
  GZIP: (input: Uint8Array) => gunzipSync(input),
  ZSTD: (input: Uint8Array) => zstdDecompressSync(input)
}

/** The reader's default parser drops a byte order mark at the start of a text. */
const parsers = { stringFromBytes: (text: Uint8Array) => Buffer.from(text).toString("utf8") }

const comparable = (cell: unknown): unknown => cell instanceof Date ? cell.getTime() : cell ?? null

const readersOf: Record<Format["format"], (path: string, expected: Expected) => Records> = { ndjson, csv, parquet }

/** Records that are compared together. */
class Chunk {
  readonly records: Array<FileRecord> = []
  #characters = 0

  add(record: FileRecord, characters: number): void {
    this.records.push(record)
    this.#characters += characters
  }

  get isFull(): boolean {
    return this.records.length >= chunkLimit.rows || this.#characters >= chunkLimit.characters
  }
}

const decompressed = (path: string, compress: Format["compress"]): NodeJS.ReadableStream & AsyncIterable<Buffer> => {
  const bytes = createReadStream(path)
  if (compress === "none") return bytes
  const decompressor = compress === "gzip" ? createGunzip() : createZstdDecompress()
  pipeline(bytes, decompressor, () => {})
  return decompressor
}
