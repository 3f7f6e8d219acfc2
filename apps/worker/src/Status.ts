/** What the worker knows of itself, and says over HTTP: whether it lives, and whether the destination is in step. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, SinkError } from "@payments/export"
import { Context, DateTime, Effect, Layer, Record, Ref, Result } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"

/** What is wrong, since when (ISO 8601 UTC). The message holds no key, cursor or record. */
export interface Problem {
  readonly reason: string
  readonly message: string
  readonly since: string
}

/** A scan that reached the end of its list. */
export interface CompleteScan {
  /** ISO 8601 UTC. */
  readonly at: string
  readonly records: number
  readonly quarantined: number
  /** Rows that were not marked missing, because they are too many at once. */
  readonly heldBack: number
}

/** The state of one list. */
export interface ListStatus {
  /** Records that the running scan has read so far; null where none is running. */
  readonly scanned: number | null
  /** Why the running scan waits before it asks for a page again. */
  readonly waiting: Problem | null
  /** Why the last scan that ended did not complete. */
  readonly failure: Problem | null
  /** The last scan that completed. */
  readonly complete: CompleteScan | null
}

/** By the list's name on the command line. */
type ListStatuses = { readonly [label: string]: ListStatus }

/** The state of the destination and of each list. */
export interface WorkerStatus {
  /** Why the destination cannot be opened or reached. */
  readonly destination: Problem | null
  readonly lists: ListStatuses
}

/** The state of the worker, kept from what happens in its rounds. */
export class Status extends Context.Service<Status, {
  readonly current: Effect.Effect<WorkerStatus>
  readonly onEvent: (event: ScanEvent) => Effect.Effect<void>
  readonly onDestinationOpen: Effect.Effect<void>
  /** The destination could not be opened or reached, so that these lists were not scanned. */
  readonly onDestinationProblem: (error: SinkError, names: ReadonlyArray<Lists.ListName>) => Effect.Effect<void>
}>()("@payments/worker/Status") {
  static readonly layer = Layer.effect(
    Status,
    Effect.gen(function*() {
      const state = yield* Ref.make<WorkerStatus>({
        destination: null,
        lists: Record.fromIterableWith(Lists.all, ({ label }) => [label, initial])
      })
      return Status.of({
        current: Ref.get(state),
        onEvent: Effect.fnUntraced(function*(event) {
          const now = yield* timestamp
          const { label } = Lists.byName[event.list]
          yield* Ref.update(state, (status) => {
            const list = status.lists[label] ?? initial
            return { ...status, lists: { ...status.lists, [label]: after(event, list, now) } }
          })
        }),
        onDestinationOpen: Ref.update(state, (status) => ({ ...status, destination: null })),
        onDestinationProblem: Effect.fnUntraced(function*(error, names) {
          const now = yield* timestamp
          const labels = names.map((name) => Lists.byName[name].label)
          yield* Ref.update(state, (status) => ({
            destination: problemOf(error, status.destination, now),
            lists: Record.map(
              status.lists,
              (list, label) =>
                labels.some((one) => one === label)
                  ? { ...list, failure: problemOf(error, list.failure, now) }
                  : list
            )
          }))
        })
      })
    })
  )
}

const timestamp = Effect.map(DateTime.now, DateTime.formatIso)

const initial: ListStatus = { scanned: null, waiting: null, failure: null, complete: null }

const after = (event: ScanEvent, list: ListStatus, now: string): ListStatus => {
  switch (event._tag) {
    case "Begun":
    case "Committed":
      return { ...list, scanned: event.progress.records, waiting: null }
    case "Waiting":
      return { ...list, waiting: problemOf(event.error, list.waiting, now) }
    case "Restarted":
      return { ...list, waiting: null }
    case "Ended": {
      const { result } = event.outcome
      const ended = { ...list, scanned: null, waiting: null }
      if (Result.isFailure(result)) return { ...ended, failure: problemOf(result.failure, list.failure, now) }
      const [summary] = result.success
      if (summary === undefined) return ended
      const { heldBack, quarantined, records } = summary
      return { ...ended, failure: null, complete: { at: now, records, quarantined, heldBack } }
    }
  }
}

/** A reason that comes again keeps the moment when it was first seen. */
const problemOf = ({ message, reason }: PaymentsError | SinkError, before: Problem | null, now: string): Problem => ({
  reason: reason._tag,
  message,
  since: before?.reason === reason._tag ? before.since : now
})

const isInStep = ({ complete, failure, waiting }: ListStatus): boolean =>
  waiting === null && failure === null && complete !== null && complete.heldBack === 0

/**
 * `/health/live`: 200 for as long as the process answers. `/health/ready`: 200 where the destination can be reached and
 * every list's last scan completed without rows held back and none waits for the service, else 503; the body holds the
 * {@link WorkerStatus}.
 */
export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    yield* router.add("GET", "/health/live", HttpServerResponse.jsonUnsafe({ live: true }))
    yield* router.add(
      "GET",
      "/health/ready",
      Effect.map(status.current, (current) => {
        const ready = current.destination === null && Object.values(current.lists).every(isInStep)
        return HttpServerResponse.jsonUnsafe({ ready, ...current }, { status: ready ? 200 : 503 })
      })
    )
  })
)
