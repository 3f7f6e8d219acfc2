/** Where personal data can still be after an erasure or a rewrite, and what to do about it. */
import { Destination, type Maintenance } from "@payments/copy"
import { grouped, logLine } from "@payments/program"
import { Effect } from "effect"
import { logWrapped } from "./Wrapped.ts"

/** What is left to do, for programs. */
export interface Left {
  /** The consumers that have not read all changes, and so perhaps not those of the erasure. */
  readonly consumers: ReadonlyArray<{ readonly consumer: string; readonly lag: number | null }>
  /** The statement that removes old versions of rows, and statistics of their values, from a PostgreSQL server. */
  readonly vacuum: string | null
  /** Whether files were rendered again and older ones removed. */
  readonly rendered: boolean
}

export const leftAfter = Effect.fnUntraced(
  function*(destination: Destination.StoredDestination, { consumerStates }: Pick<Maintenance, "consumerStates">) {
    const { place, rendered } = Destination.operations(destination)
    const left: Left = {
      consumers: (yield* consumerStates).filter(({ lag }) => lag !== 0)
        .map(({ lag = null, name }) => ({ consumer: name, lag })),
      vacuum: place.isLocal ? null : place.cleaning,
      rendered: rendered !== undefined
    }
    return left
  }
)

/** Says what is left to do. */
export const logLeft = Effect.fnUntraced(function*({ consumers, rendered, vacuum }: Left) {
  if (rendered) {
    yield* logWrapped("The files were rendered again, and older ones were removed. Remove copies of them elsewhere.")
  }
  if (vacuum !== null) {
    yield* logWrapped(
      "PostgreSQL keeps old versions of changed rows, and statistics of their values, until the owner of the database has run:"
    )
    // The line is not wrapped, so that it can be copied.
    yield* logLine(`  ${vacuum}`)
    yield* logWrapped("Its write-ahead log, replicas and backups keep them for longer.")
  }
  for (const { consumer, lag } of consumers) {
    yield* logWrapped(
      `The consumer ${consumer} has ${
        lag === null ? "" : `${grouped(lag)} `
      }changes left to read. What it has stored may have the data.`
    )
  }
})
