/**
 * Limits the text that is read for a destination but not written yet, over all lists and parts that are scanned concurrently.
 * The unit is the character, which takes one or two bytes of memory.
 */
import { Effect, Latch, type Scope } from "effect"
import type { Sink } from "../port/Sink.ts"

/** About a hundred pages of an ordinary service. */
const maxCharacters = 8 * 1024 * 1024

/** The text that one reading has not written yet. */
export interface Backlog {
  /** Adds characters and waits until the backlog is below the limit. One page may exceed the limit, but no second one. */
  readonly add: (characters: number) => Effect.Effect<void>
  /** Removes characters that are now written. */
  readonly remove: (characters: number) => void
}

interface Shared {
  characters: number
  readonly room: Latch.Latch
}

const backlogs = new WeakMap<Sink["Service"], Shared>()

/** Returns the share of one reading in the destination's backlog. Closing the scope removes the remaining characters. */
export const backlogOf = (sink: Sink["Service"]): Effect.Effect<Backlog, never, Scope.Scope> =>
  Effect.suspend(() => {
    const shared = backlogs.get(sink) ?? { characters: 0, room: Latch.makeUnsafe(true) }
    backlogs.set(sink, shared)
    let own = 0
    const change = (characters: number) => {
      own += characters
      shared.characters += characters
      if (shared.characters > maxCharacters) shared.room.closeUnsafe()
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
