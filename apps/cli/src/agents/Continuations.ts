/**
 * Remembers where listings can continue. An agent gets a short name instead of the cursor, which is text of the service and may
 * contain filter values.
 */
import type { Lists, Position } from "@payments/core"
import { randomBytes } from "node:crypto"
import type { Json } from "./Json.ts"

export interface Continuation {
  readonly list: Lists.AnyList
  readonly filters: { readonly [field: string]: string }
  readonly limit: number
  /** The records that were read but did not fit into the answer. */
  readonly waiting: ReadonlyArray<Json>
  /** The next page, or null if the waiting records are the last. */
  readonly next: Position.Position | null
  /** The number of records in the answers so far. */
  readonly returned: number
}

/** The oldest continuations are forgotten when there are more, or when their waiting records have more characters. */
const limits = { continuations: 200, characters: 8 * 1024 * 1024 }

export const makeContinuations = () => {
  const known = new Map<string, { readonly continuation: Continuation; readonly characters: number }>()
  // A name of another process is never valid here.
  const prefix = randomBytes(4).toString("hex")
  let count = 0
  let total = 0
  return {
    get: (name: string): Continuation | undefined => known.get(name)?.continuation,
    add: (continuation: Continuation): string => {
      const name = `${prefix}-${++count}`
      const characters = JSON.stringify(continuation.waiting).length
      known.set(name, { continuation, characters })
      total += characters
      for (const [oldest, forgotten] of known) {
        if (oldest === name || (known.size <= limits.continuations && total <= limits.characters)) break
        known.delete(oldest)
        total -= forgotten.characters
      }
      return name
    }
  }
}
