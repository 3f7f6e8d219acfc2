/** An answer of a test server as data: its content, and how it is sent. The sender does not need to know the fault. */

/** The compression of a body (RFC 9110 §8.4.1, RFC 8878). */
export type Encoding = "gzip" | "deflate" | "br" | "zstd"

/** Where an answer stops, and what happens to the connection then. */
export interface Truncation {
  /** `nothing`: before the headers. A number: after that many bytes of the body. */
  readonly after: "nothing" | number
  /** `open`: the server sends nothing more and keeps the connection open. */
  readonly connection: "reset" | "closed" | "open"
}

/** An answer, and how it is sent. */
export interface Reply {
  /** The HTTP status, 200 to 599. */
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** The whole body, including what `truncation` removes. */
  readonly body: string
  /** Mebibytes of spaces after the body. */
  readonly padding?: number | undefined
  /** Milliseconds before the first byte. */
  readonly delayMs?: number | undefined
  /** Where the answer stops early. */
  readonly truncation?: Truncation | undefined
  /** Whether a `content-length` announces the body. Otherwise the body is chunked. */
  readonly sized?: boolean | undefined
  /** Sends the body in chunks of `bytes` bytes, `everyMs` milliseconds apart. */
  readonly drip?: { readonly bytes: number; readonly everyMs: number } | undefined
  /** The compression of the body. */
  readonly encoding?: Encoding | undefined
}

/** Returns an answer with a body of JSON text. */
export const json = (body: string, status = 200): Reply => ({
  status,
  headers: { "content-type": "application/json" },
  body
})
