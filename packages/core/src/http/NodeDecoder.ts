/** Decodes compressed bodies (`content-encoding`, RFC 9110 §8.4) with Node, up to a size limit. */
import { Effect } from "effect"
import type { Transform } from "node:stream"
import * as zlib from "node:zlib"
import { systemCode } from "../config/SystemCode.ts"
import { MalformedResponse, type Reason, Transport } from "../model/PaymentsError.ts"
import { notDecoded, tooLarge } from "./TunedRead.ts"

type DecodeWhole = (
  bytes: Uint8Array,
  options: { readonly maxOutputLength: number },
  done: (error: Error | null, decoded: Uint8Array) => void
) => void

/** Functions, because the bundle of a program loads `node:zlib` when a function of it is first used. */
interface Decoder {
  readonly whole: () => DecodeWhole
  readonly stream: () => Transform
}

const gzip: Decoder = { whole: () => zlib.gunzip, stream: () => zlib.createGunzip() }

const decoders: ReadonlyMap<string, Decoder> = new Map([
  ["gzip", gzip],
  ["x-gzip", gzip],
  ["deflate", { whole: () => zlib.inflate, stream: () => zlib.createInflate() }],
  ["br", { whole: () => zlib.brotliDecompress, stream: () => zlib.createBrotliDecompress() }],
  ["zstd", { whole: () => zlib.zstdDecompress, stream: () => zlib.createZstdDecompress() }]
])

/** The requested codings: gzip, which every server supports, and two that compress better. */
export const acceptEncoding = "gzip, br, zstd"

/** Whether the coding is `identity`, which leaves the body unchanged. No `content-encoding` means the same. */
export const isIdentity = (coding: string): boolean => coding === "" || coding === "identity"

/** Decodes a whole body. Fails, and stops decoding, if it exceeds `maxBytes`. */
export const decodeWhole = (coding: string, bytes: Uint8Array, maxBytes: number): Effect.Effect<Uint8Array, Reason> => {
  const decoder = decoders.get(coding)
  // An empty body is valid with any coding.
  if (isIdentity(coding) || bytes.length === 0) return Effect.succeed(bytes)
  if (decoder === undefined) return Effect.fail(notDecoded)
  return Effect.callback((resume) =>
    decoder.whole()(bytes, { maxOutputLength: maxBytes }, (error, decoded) => {
      resume(error === null ? Effect.succeed(decoded) : Effect.fail(reasonOf(systemCode(error), maxBytes)))
    })
  )
}

/** Returns a stream that decodes `content-encoding`, or undefined if there is none or it is unknown. */
export const decodeStream = (contentEncoding: string | undefined): Transform | undefined =>
  decoders.get(codingOf(contentEncoding))?.stream()

/** Returns the coding that `content-encoding` names, in lower case, or empty text. */
export const codingOf = (contentEncoding: string | undefined): string => contentEncoding?.trim().toLowerCase() ?? ""

const reasonOf = (code: string | undefined, maxBytes: number): Reason => {
  if (code === "ERR_BUFFER_TOO_LARGE") return tooLarge(maxBytes)
  // The compressed body ended early.
  if (code === "Z_BUF_ERROR" || code === "ZSTD_error_srcSize_wrong") return new Transport({ kind: "truncated" })
  return new MalformedResponse({ kind: "notJson", path: "(root)", detail: "a compressed body that is broken" })
}
