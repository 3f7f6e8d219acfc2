/** Reads what was rendered as a careful reader would, by libraries that did not write it. */
import { assert } from "@effect/vitest"
import type { Lists } from "@payments/core"
import { parse } from "csv-parse/sync"
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { MessageChannel, receiveMessageOnPort, Worker } from "node:worker_threads"
import { gunzipSync, zstdDecompressSync } from "node:zlib"
import { Manifest } from "../src/index.ts"
import type { StoredRow } from "./SinkTest.ts"

/** A row of a table. */
export type Cells = Readonly<Record<string, unknown>>

export const manifestOf = (folder: string): Manifest =>
  Schema.decodeSync(Schema.fromJsonString(Manifest))(readFileSync(join(folder, "manifest.json"), "utf8"))

/** The rows of a CSV file by column. An empty field is null, `""` is empty text. */
export const readCsv = (bytes: Uint8Array): ReadonlyArray<Cells> =>
  parse(Buffer.from(bytes), {
    columns: true,
    record_delimiter: "\r\n",
    cast: (value, { header, quoting }) => !header && value === "" && !quoting ? null : value
  })

const signal = new Int32Array(new SharedArrayBuffer(4))
let reader: { readonly worker: Worker; readonly answers: MessageChannel["port1"] } | undefined

/** Waits for another thread to read. */
const readParquetNow = (file: string): ReadonlyArray<Cells> => {
  if (reader === undefined) {
    const { port1, port2 } = new MessageChannel()
    const worker = new Worker(new URL("./ParquetReader.ts", import.meta.url), {
      workerData: { signal, answers: port2 },
      transferList: [port2]
    })
    worker.unref()
    reader = { worker, answers: port1 }
  }
  Atomics.store(signal, 0, 0)
  // oxlint-disable-next-line require-post-message-target-origin -- a thread has no origin
  reader.worker.postMessage(file)
  assert.notStrictEqual(Atomics.wait(signal, 0, 0, 20_000), "timed-out")
  const answer: { readonly message: unknown } = receiveMessageOnPort(reader.answers) ?? { message: {} }
  const { error, rows } = answer.message as { readonly error?: unknown; readonly rows: ReadonlyArray<Cells> } // as it posts
  if (error !== undefined) throw error
  return rows
}

/** One file by the manifest's word: digest, size and count hold. NDJSON has the column `raw` alone. */
const readFile = (
  folder: string,
  { compress, format }: Manifest["lists"][string],
  { bytes, file, records, sha256 }: Manifest["lists"][string]["files"][number]
): ReadonlyArray<Cells> => {
  const content = readFileSync(join(folder, file))
  assert.deepStrictEqual([content.length, createHash("sha256").update(content).digest("hex")], [bytes, sha256])
  const unpacked = () =>
    compress === "gzip" ? gunzipSync(content) : compress === "zstd" ? zstdDecompressSync(content) : content
  const rows = format === "parquet"
    ? readParquetNow(join(folder, file))
    : format === "csv"
    ? readCsv(unpacked())
    : unpacked().toString("utf8").split("\n").slice(0, -1).map((raw) => ({ raw }))
  assert.strictEqual(rows.length, records)
  return rows
}

/** Everything that the manifest shows of a list: the manifest first, then each file. */
export const tableOf = (folder: string, list: Lists.AnyList): ReadonlyArray<Cells> => {
  if (!existsSync(join(folder, "manifest.json"))) return []
  const shown = manifestOf(folder).lists[list.label]
  return shown === undefined ? [] : shown.files.flatMap((file) => readFile(folder, shown, file))
}

/** The same as the shared suite reads it. */
export const read = (folder: string, list: Lists.AnyList): ReadonlyArray<StoredRow> =>
  tableOf(folder, list).map((cells) => {
    const raw = String(cells["raw"])
    const id = String((JSON.parse(raw) as { readonly id: unknown }).id) // every stored record has one
    if (cells["id"] !== undefined) assert.strictEqual(String(cells["id"]).replace(/^'(?=[=+\-@])/, ""), id)
    return { id, raw }
  })
