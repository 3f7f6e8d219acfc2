/**
 * The bodies of answers as they go over the wire. They are compressed beside the server's own thread and piece by piece,
 * so that a bomb neither holds up other requests nor fills memory, and kept, so that it is made once.
 */
import { makeBoundedMap, type Reply } from "@payments/core/testing"
import { Readable, type Transform } from "node:stream"
import { pipeline } from "node:stream/promises"
import { constants, createBrotliCompress, createDeflate, createGzip, createZstdCompress } from "node:zlib"

/** The body of an answer, compressed as it says, with its padding. */
export type Encode = (reply: Reply) => Promise<Buffer>

/** Bodies that are kept: as many as pages that are likely to be asked for again. */
const kept = 32

/** Encodes, and keeps what it encoded last. */
export const makeEncoder = (): Encode => {
  const bodies = makeBoundedMap<string, Promise<Buffer>>(kept)
  return (reply) => {
    const name = `${reply.encoding} ${reply.padding} ${reply.body}`
    const body = bodies.get(name) ?? encode(reply)
    bodies.set(name, body)
    return body
  }
}

const encode = async ({ body, encoding, padding = 0 }: Reply): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  const collect = async (source: AsyncIterable<Buffer>) => {
    for await (const part of source) parts.push(part)
  }
  const plain = Readable.from(pieces(body, padding))
  if (encoding === undefined) await collect(plain)
  else await pipeline(plain, compressors[encoding](), collect)
  return Buffer.concat(parts)
}

const spaces = Buffer.alloc(1024 * 1024, " ")

const pieces = function*(body: string, mebibytes: number): Generator<Buffer> {
  yield Buffer.from(body)
  for (let count = 0; count < mebibytes; count++) yield spaces
}

const compressors: { readonly [Name in NonNullable<Reply["encoding"]>]: () => Transform } = {
  gzip: createGzip,
  deflate: createDeflate,
  // The highest quality, Node's default, would take seconds for a bomb.
  br: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 5 } }),
  zstd: createZstdCompress
}
