/** An answer as data: what is said, and how it comes. Whoever performs it needs no knowledge of the fault behind it. */

/** How a body is compressed (RFC 9110 §8.4.1, RFC 8878). */
export type Encoding = "gzip" | "deflate" | "br" | "zstd"

/** Where an answer stops, and what becomes of the connection. */
export interface Cut {
  /** Before the headers, or after so many bytes of the body. */
  readonly after: "nothing" | number
  /** `open` says nothing more and keeps the client waiting. */
  readonly connection: "reset" | "closed" | "open"
}

/** An answer. */
export interface Reply {
  /** The HTTP status, 200 to 599. */
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** All of it, whatever `cut` lets through. */
  readonly body: string
  /** Spaces that follow the body, in mebibytes. */
  readonly padding?: number | undefined
  /** Milliseconds before anything is said. */
  readonly delayMs?: number | undefined
  /** Where it stops, if it does. */
  readonly cut?: Cut | undefined
  /** Whether a Content-Length comes before the body; otherwise it is chunked. */
  readonly sized?: boolean | undefined
  /** The body comes in pieces of so many bytes, so many milliseconds apart. */
  readonly drip?: { readonly bytes: number; readonly everyMs: number } | undefined
  /** How the body is compressed on its way. */
  readonly encoding?: Encoding | undefined
}

/** An answer of JSON text. */
export const json = (body: string, status = 200): Reply => ({
  status,
  headers: { "content-type": "application/json" },
  body
})
