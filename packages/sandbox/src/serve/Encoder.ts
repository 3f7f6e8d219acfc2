/**
 * Encodes the bodies of answers as they are sent. Compression runs outside the server's thread and in chunks, so that a
 * large body neither delays other requests nor fills memory. Encoded bodies are cached.
 */
import { makeBoundedMap, type Reply } from "@payments/core/testing"
import { Readable, type Transform } from "node:stream"
import { pipeline } from "node:stream/promises"
import { constants, createBrotliCompress, createDeflate, createGzip, createZstdCompress } from "node:zlib"

/**
 * Returns the bytes of a reply's body: its text and `padding` MiB of spaces, compressed if the reply has an encoding.
 */
export type Encode = (reply: Reply) => Promise<Buffer>

/** The number of cached bodies: the pages that are likely to be requested again. */
const maxBodies = 32

/** Makes an encoder that caches the latest bodies. */
export const makeEncoder = (): Encode => {
  const bodies = makeBoundedMap<string, Promise<Buffer>>(maxBodies)
  return (reply) => {
    const key = `${reply.encoding} ${reply.padding} ${reply.body}`
    const body = bodies.get(key) ?? encode(reply)
    bodies.set(key, body)
    return body
  }
}

const encode = async ({ body, encoding, padding = 0 }: Reply): Promise<Buffer> => {
  const encoded: Array<Buffer> = []
  const collect = async (source: AsyncIterable<Buffer>) => {
    for await (const chunk of source) encoded.push(chunk)
  }
  const plain = Readable.from(chunksOf(body, padding))
  if (encoding === undefined) await collect(plain)
  else await pipeline(plain, compressors[encoding](), collect)
  return Buffer.concat(encoded)
}

const spaces = Buffer.alloc(1024 * 1024, " ")

const chunksOf = function*(body: string, mebibytes: number): Generator<Buffer> {
  yield Buffer.from(body)
  for (let count = 0; count < mebibytes; count++) yield spaces
}

const compressors: { readonly [Name in NonNullable<Reply["encoding"]>]: () => Transform } = {
  gzip: createGzip,
  deflate: createDeflate,
  // The highest quality is Node's default. It would take seconds for a large body.
  br: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  zstd: createZstdCompress
}
