/** Reads Parquet files for whoever asks from another thread and waits: hyparquet's reading is asynchronous. */
import { parquetReadObjects } from "hyparquet"
import { readFileSync } from "node:fs"
import { type MessagePort, parentPort, workerData } from "node:worker_threads"
import { gunzipSync, zstdDecompressSync } from "node:zlib"

/** The rows of a file by column, read by a library that did not write them. */
export const readParquet = (file: string): Promise<ReadonlyArray<Readonly<Record<string, unknown>>>> => {
  const content = readFileSync(file)
  return parquetReadObjects({
    file: content.buffer.slice(content.byteOffset, content.byteOffset + content.byteLength),
    compressors: { GZIP: (bytes) => gunzipSync(bytes), ZSTD: (bytes) => zstdDecompressSync(bytes) }
  })
}

if (parentPort !== null && workerData?.answers !== undefined) {
  const { answers, signal } = workerData as { readonly answers: MessagePort; readonly signal: Int32Array }
  parentPort.on("message", (file: string) => {
    void readParquet(file).then((rows) => ({ rows }), (error: unknown) => ({ error })).then((answer) => {
      // oxlint-disable-next-line require-post-message-target-origin -- a thread has no origin
      answers.postMessage(answer)
      Atomics.store(signal, 0, 1)
      Atomics.notify(signal, 0)
    })
  })
}
