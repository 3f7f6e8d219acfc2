/** NDJSON: the exact text of each record on its own line. */
import type { Encoder } from "./Format.ts"

const utf8 = new TextEncoder()

/** NDJSON cannot mark a row as missing, so the caller renders missing rows into a file of their own. */
export const encoder = (): Encoder => ({
  write: (rows) => utf8.encode(rows.map(({ raw }) => `${raw}\n`).join("")),
  end: () => new Uint8Array()
})
