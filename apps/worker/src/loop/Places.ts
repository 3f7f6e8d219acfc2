/**
 * Limits how many runs are active at the same time, over all sources. A run gives its place up while it waits for its
 * service, while no page arrives, and after its turn if others wait. So a source that is slow, stalls or has millions
 * of records does not keep the others from running.
 */
import { Monotonic } from "@payments/core"
import { Effect } from "effect"

/** How long a run without a committed page keeps its place. */
const idleMs = 2000
/** How long a run keeps its place while others wait. */
const turnMs = 5000

export interface Place {
  /**
   * Call it after each committed page. Waits for a place if the run has given its place up, or if its turn has ended.
   */
  readonly onCommit: Effect.Effect<void>
  /** Gives the place up until the next commit. */
  readonly onWait: Effect.Effect<void>
  /** Whether the run waits for a place. */
  readonly isQueued: Effect.Effect<boolean>
}

export interface Places {
  readonly run: <A, E, R>(effect: (place: Place) => Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly resize: (count: number) => void
}

/** Runs get a place in the order in which they asked for it. */
export const makePlaces = (initialCount: number): Places => {
  const pool = new Pool(initialCount)
  return {
    resize: (count) => pool.resize(count),
    run: (effect) =>
      Effect.suspend(() => {
        const turn = new Turn(pool)
        const watch = Effect.forever(
          Effect.andThen(
            Effect.sleep(idleMs / 2),
            Effect.flatMap(Monotonic.millis, (now) => turn.isIdle(now) ? turn.onWait : Effect.void)
          )
        )
        return turn.acquire.pipe(
          Effect.andThen(Effect.suspend(() => Effect.raceFirst(effect(turn), watch))),
          Effect.ensuring(turn.onWait)
        )
      })
  }
}

class Pool {
  #count: number
  /** Below 0 while more runs are active than there are places now. */
  #free: number
  readonly #queue = new Set<() => void>()

  constructor(count: number) {
    this.#count = count
    this.#free = count
  }

  get hasQueue(): boolean {
    return this.#queue.size > 0
  }

  readonly take = Effect.callback<void>((resume) => {
    if (this.#free > 0) {
      this.#free--
      return resume(Effect.void)
    }
    const next = () => resume(Effect.void)
    this.#queue.add(next)
    return Effect.sync(() => void this.#queue.delete(next))
  })

  giveBack(): void {
    this.#free++
    this.#fill()
  }

  resize(count: number): void {
    this.#free += count - this.#count
    this.#count = count
    this.#fill()
  }

  #fill(): void {
    for (const next of this.#queue) {
      if (this.#free <= 0) return
      this.#free--
      this.#queue.delete(next)
      next()
    }
  }
}

class Turn implements Place {
  readonly #pool: Pool
  #state: "held" | "free" | "queued" = "free"
  #heldSince = 0
  #committedAt = 0

  constructor(pool: Pool) {
    this.#pool = pool
  }

  readonly acquire = Effect.suspend(() => {
    this.#state = "queued"
    return this.#pool.take.pipe(
      Effect.andThen(Monotonic.millis),
      Effect.map((now) => {
        this.#state = "held"
        this.#heldSince = now
        this.#committedAt = now
      }),
      Effect.onInterrupt(() => Effect.sync(() => void (this.#state = "free")))
    )
  })

  readonly onWait = Effect.sync(() => {
    if (this.#state !== "held") return
    this.#state = "free"
    this.#pool.giveBack()
  })

  readonly onCommit = Effect.flatMap(Monotonic.millis, (now) => {
    this.#committedAt = now
    if (this.#state === "held" && (!this.#pool.hasQueue || now - this.#heldSince < turnMs)) return Effect.void
    return Effect.andThen(this.onWait, this.acquire)
  })

  readonly isQueued = Effect.sync(() => this.#state === "queued")

  isIdle(now: number): boolean {
    return now - this.#committedAt >= idleMs
  }
}
