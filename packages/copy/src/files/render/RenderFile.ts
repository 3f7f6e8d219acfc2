/** Renders one file of a list, in bounded memory, and syncs it to disk. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Effect, type FileSystem, Stream } from "effect"
import { createHash } from "node:crypto"
import { createGzip, createZstdCompress } from "node:zlib"
import type { SinkError } from "../../port/Sink.ts"
import type { FullRow } from "../../store/Store.ts"
import type { Encoder, Format } from "./Format.ts"

/** Renders the rows with backpressure from the disk. The file must not exist yet. Only its owner may read it. */
export const renderFile = Effect.fnUntraced(
  function*({ encoder, format: { compress, format }, fs, rows, target }: {
    readonly fs: FileSystem.FileSystem
    readonly target: string
    readonly rows: Stream.Stream<ReadonlyArray<FullRow>, SinkError>
    readonly encoder: Encoder
    readonly format: Format
  }) {
    const file = yield* fs.open(target, { flag: "wx", mode: 0o600 })
    const sha256 = createHash("sha256")
    let records = 0
    let bytes = 0
    const encoded = rows.pipe(
      Stream.map((chunk) => {
        records += chunk.length
        return encoder.write(chunk)
      }),
      Stream.concat(Stream.suspend(() => Stream.succeed(encoder.end()))),
      Stream.filter(({ length }) => length > 0)
    )
    const output = format === "parquet" ? encoded : compressed(encoded, compress)
    yield* Stream.runForEach(output, (chunk) => {
      sha256.update(chunk)
      bytes += chunk.length
      return file.writeAll(chunk)
    }).pipe(
      Effect.andThen(file.sync),
      // Remove an incomplete file: on a full disk, the next run needs the space.
      Effect.onError(() => Effect.ignore(fs.remove(target, { force: true })))
    )
    return { records, bytes, sha256: sha256.digest("hex") }
  },
  Effect.scoped
)

const compressed = <E>(
  bytes: Stream.Stream<Uint8Array, E>,
  compress: Format["compress"]
): Stream.Stream<Uint8Array, E> =>
  compress === "none" ? bytes : NodeStream.pipeThroughDuplex(bytes, {
    evaluate: () => compress === "gzip" ? createGzip() : createZstdCompress()
  }).pipe(
    // A compressor fails only if this program uses it incorrectly.
    Stream.catchTag("UnknownError", (error) => Stream.die(error))
  )
