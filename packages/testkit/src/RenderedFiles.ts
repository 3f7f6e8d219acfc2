/** Reads rendered files strictly, with libraries other than those that wrote them. */
import { assert } from "@effect/vitest"
import { Manifest } from "@payments/copy"
import type { Lists } from "@payments/core"
import { parse } from "csv-parse/sync"
import { csvParseRows } from "d3-dsv"
import { Effect, Schema } from "effect"
import { parquetReadObjects } from "hyparquet"
import { createHash } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { gunzipSync, zstdDecompressSync } from "node:zlib"
import type { StoredRow } from "./postgres/StoredRow.ts"

export type Cells = Readonly<Record<string, unknown>>

export const manifestOf = (folder: string): Manifest =>
  Schema.decodeSync(Schema.fromJsonString(Manifest))(readFileSync(join(folder, "manifest.json"), "utf8"))

/**
 * Reads the rows by column. An empty field is null, `""` is empty text. Two libraries that end a row at every unquoted
 * CR, LF or CRLF must return the same rows.
 */
export const readCsv = (bytes: Uint8Array | string): ReadonlyArray<Cells> => {
  const text = Buffer.from(bytes).toString("utf8")
  const options = { bom: false, record_delimiter: ["\r\n", "\n", "\r"] }
  const rows: Array<Array<string>> = parse(text, options)
  assert.deepStrictEqual(csvParseRows(text), rows, "two readers disagree")
  return parse(text, {
    ...options,
    columns: true,
    cast: (value, { header, quoting }) => !header && value === "" && !quoting ? null : value
  })
}

export const readParquet = (bytes: Uint8Array): Promise<ReadonlyArray<Cells>> =>
  parquetReadObjects({
    file: Uint8Array.from(bytes).buffer,
    compressors: { GZIP: (input) => gunzipSync(input), ZSTD: (input) => zstdDecompressSync(input) },
    // The reader's default parser drops a byte order mark at the start of a text.
    parsers: { stringFromBytes: (text) => Buffer.from(text).toString("utf8") }
  })

/** Checks the file's digest, size and count against the manifest. NDJSON has only the column `raw`. */
const readFile = async (
  folder: string,
  { compress, format }: Manifest["lists"][string],
  { bytes, file, records, sha256 }: Manifest["lists"][string]["files"][number]
): Promise<ReadonlyArray<Cells>> => {
  const content = readFileSync(join(folder, file))
  assert.deepStrictEqual([content.length, createHash("sha256").update(content).digest("hex")], [bytes, sha256])
  const unpacked = () =>
    compress === "gzip" ? gunzipSync(content) : compress === "zstd" ? zstdDecompressSync(content) : content
  const rows = format === "parquet"
    ? await readParquet(content)
    : format === "csv"
    ? readCsv(unpacked())
    : unpacked().toString("utf8").split("\n").slice(0, -1).map((raw) => ({ raw }))
  assert.strictEqual(rows.length, records)
  return rows
}

/** Reads all rows of a list: the manifest first, then each file that it names. */
const table = async (folder: string, list: Lists.AnyList): Promise<ReadonlyArray<Cells>> => {
  if (!existsSync(join(folder, "manifest.json"))) return []
  const shown = manifestOf(folder).lists[list.label]
  return shown === undefined ? [] : (await Promise.all(shown.files.map((file) => readFile(folder, shown, file)))).flat()
}

/** {@inheritDoc table} */
export const tableOf = (folder: string, list: Lists.AnyList): Effect.Effect<ReadonlyArray<Cells>> =>
  Effect.promise(() => table(folder, list))

/** Reads the rows of a list for the shared suite. */
export const read = async (folder: string, list: Lists.AnyList): Promise<ReadonlyArray<StoredRow>> =>
  (await table(folder, list)).map((cells) => {
    const raw = String(cells["raw"])
    const id = String((JSON.parse(raw) as { readonly id: unknown }).id) // every stored record has one
    if (cells["id"] !== undefined) assert.strictEqual(String(cells["id"]).replace(/^'(?=[=+\-@])/, ""), id)
    return { id, raw }
  })

/** Reads the exact texts of a list's records. */
export const textsOf = (folder: string, list: Lists.AnyList): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(Effect.promise(() => read(folder, list)), (rows) => rows.map(({ raw }) => raw))
