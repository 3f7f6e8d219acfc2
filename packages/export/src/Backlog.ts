/**
 * Bounds what was read for a destination and is not written yet, over all lists and parts that are scanned side by side. The
 * unit is the character: a text takes one byte or two of memory for each.
 */
import { Effect, Latch, type Scope } from "effect"
import type { Sink } from "./Sink.ts"

/** A hundred pages of an ordinary service. */
const mostCharacters = 8 * 1024 * 1024

/** What one traversal has read and not written. */
export interface Backlog {
  /** Adds characters and waits until there is room for more: one page may exceed the bound, but no second one. */
  readonly add: (characters: number) => Effect.Effect<void>
  /** Removes what was added and is now written. */
  readonly remove: (characters: number) => void
}

interface Shared {
  characters: number
  readonly room: Latch.Latch
}

const backlogs = new WeakMap<Sink["Service"], Shared>()

/** A share of the destination's backlog. What is still in it when the scope closes is removed. */
export const backlogOf = (sink: Sink["Service"]): Effect.Effect<Backlog, never, Scope.Scope> =>
  Effect.suspend(() => {
    const shared = backlogs.get(sink) ?? { characters: 0, room: Latch.makeUnsafe(true) }
    backlogs.set(sink, shared)
    let own = 0
    const change = (characters: number) => {
      own += characters
      shared.characters += characters
      if (shared.characters > mostCharacters) shared.room.closeUnsafe()
      else shared.room.openUnsafe()
    }
    const backlog: Backlog = {
      add: (characters) =>
        Effect.suspend(() => {
          change(characters)
          return shared.room.await
        }),
      remove: (characters) => change(-characters)
    }
    return Effect.as(Effect.addFinalizer(() => Effect.sync(() => change(-own))), backlog)
  })
