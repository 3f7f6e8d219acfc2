/** Writes one file of a list, in bounded memory however long the list is, and has it on disk when it returns. */
import * as NodeStream from "@effect/platform-node/NodeStream"
import { Effect, type FileSystem, type PlatformError, Stream } from "effect"
import { createHash } from "node:crypto"
import { createGzip, createZstdCompress } from "node:zlib"
import type { FullRow } from "../../engine/Store.ts"
import type { SinkError } from "../../Sink.ts"
import type { Encoder, Format } from "./Format.ts"

/** What a file has come to. */
export interface Written {
  readonly records: number
  readonly bytes: number
  /** Lower-case hex. */
  readonly sha256: string
}

/** Takes rows as fast as the disk takes bytes. The file must not be there yet; it is readable by its owner alone. */
export const renderFile = Effect.fnUntraced(
  function*(
    fs: FileSystem.FileSystem,
    target: string,
    rows: Stream.Stream<ReadonlyArray<FullRow>, SinkError>,
    encoder: Encoder,
    { compress, format }: Format
  ): Effect.fn.Return<Written, SinkError | PlatformError.PlatformError, never> {
    return yield* Effect.scoped(Effect.gen(function*() {
      const file = yield* fs.open(target, { flag: "wx", mode: 0o600 })
      const sha256 = createHash("sha256")
      let records = 0
      let bytes = 0
      const encoded = rows.pipe(
        Stream.map((some) => {
          records += some.length
          return encoder.write(some)
        }),
        Stream.concat(Stream.suspend(() => Stream.succeed(encoder.end()))),
        Stream.filter(({ length }) => length > 0)
      )
      const whole = format === "parquet" ? encoded : compressed(encoded, compress)
      yield* Stream.runForEach(whole, (piece) => {
        sha256.update(piece)
        bytes += piece.length
        return file.writeAll(piece)
      }).pipe(
        Effect.andThen(file.sync),
        // Where there is no space left, half a file takes what the next run needs to begin.
        Effect.onError(() => Effect.ignore(fs.remove(target, { force: true })))
      )
      return { records, bytes, sha256: sha256.digest("hex") }
    }))
  }
)

const compressed = <E>(
  bytes: Stream.Stream<Uint8Array, E>,
  compress: Format["compress"]
): Stream.Stream<Uint8Array, E> =>
  compress === "none" ? bytes : NodeStream.pipeThroughDuplex(bytes, {
    evaluate: () => compress === "gzip" ? createGzip() : createZstdCompress()
  }).pipe(
    // Bytes that cannot be compressed are a bug: the only errors of these streams are of their use.
    Stream.catchTag("UnknownError", (error) => Stream.die(error))
  )
