/** Undoes what a server did to a body (`content-encoding`, RFC 9110 §8.4), as Node can and never beyond a cap. */
import { Effect } from "effect"
import type { Transform } from "node:stream"
import * as zlib from "node:zlib"
import { MalformedResponse, type Reason, Transport } from "../PaymentsError.ts"
import { systemCode } from "./SystemCode.ts"
import { notDecoded, tooLarge } from "./TunedRead.ts"

interface Decoder {
  readonly whole: (
    bytes: Uint8Array,
    options: { readonly maxOutputLength: number },
    done: (error: Error | null, decoded: Uint8Array) => void
  ) => void
  readonly stream: () => Transform
}

const gzip: Decoder = { whole: zlib.gunzip, stream: () => zlib.createGunzip() }

const decoders: ReadonlyMap<string, Decoder> = new Map([
  ["gzip", gzip],
  ["x-gzip", gzip],
  ["deflate", { whole: zlib.inflate, stream: () => zlib.createInflate() }],
  ["br", { whole: zlib.brotliDecompress, stream: () => zlib.createBrotliDecompress() }],
  ["zstd", { whole: zlib.zstdDecompress, stream: () => zlib.createZstdDecompress() }]
])

/** What is asked for: what every server can do, and what packs better. */
export const acceptEncoding = "gzip, br, zstd"

/** Whether the body is as it was before it was sent. */
export const isPlain = (coding: string): boolean => coding === "" || coding === "identity"

/** The decoded body. It is never held beyond the cap: decoding stops there. */
export const decodeWhole = (coding: string, bytes: Uint8Array, cap: number): Effect.Effect<Uint8Array, Reason> => {
  const decoder = decoders.get(coding)
  // No bytes are no body, whatever was done to it.
  if (isPlain(coding) || bytes.length === 0) return Effect.succeed(bytes)
  if (decoder === undefined) return Effect.fail(notDecoded)
  return Effect.callback((resume) =>
    decoder.whole(bytes, { maxOutputLength: cap }, (error, decoded) => {
      resume(error === null ? Effect.succeed(decoded) : Effect.fail(reasonOf(systemCode(error), cap)))
    })
  )
}

/** A stream that decodes the coding that `content-encoding` names; undefined for none, and for an unknown one. */
export const decodeStream = (contentEncoding: string | undefined): Transform | undefined =>
  decoders.get(codingOf(contentEncoding))?.stream()

/** The coding that `content-encoding` names, in lower case. */
export const codingOf = (contentEncoding: string | undefined): string => contentEncoding?.trim().toLowerCase() ?? ""

const reasonOf = (code: string | undefined, cap: number): Reason => {
  if (code === "ERR_BUFFER_TOO_LARGE") return tooLarge(cap)
  // The compressed body ends before its end.
  if (code === "Z_BUF_ERROR" || code === "ZSTD_error_srcSize_wrong") return new Transport({ kind: "truncated" })
  return new MalformedResponse({ kind: "notJson", path: "(root)", expected: "a compressed body that is broken" })
}
