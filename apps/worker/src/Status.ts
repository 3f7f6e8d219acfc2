/** The worker's state and its health checks over HTTP: whether the process runs, and whether the destination is up to date. */
import { Lists, type PaymentsError } from "@payments/core"
import type { ScanEvent, SinkError } from "@payments/export"
import { Context, DateTime, Effect, Layer, Record, Ref, Result } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"

/** A reason why the destination may be out of date. */
export interface Problem {
  readonly reason: string
  /** Contains no key, cursor or record. */
  readonly message: string
  /** When the problem began, ISO 8601 UTC. */
  readonly since: string
}

/** A scan that reached the end of its list. */
export interface CompleteScan {
  /** When the scan ended, ISO 8601 UTC. */
  readonly at: string
  readonly records: number
  readonly quarantined: number
  /** Rows that the scan did not mark missing because they are too many at once. */
  readonly heldBack: number
}

/** The state of one list. */
export interface ListStatus {
  /** Records that the running scan has read so far; null if no scan is running. */
  readonly scanned: number | null
  /** Why the running scan waits before it requests a page again; null if it does not wait. */
  readonly waiting: Problem | null
  /** Why the last scan that ended did not complete; null if it completed. */
  readonly failure: Problem | null
  /** The last scan that completed. */
  readonly complete: CompleteScan | null
}

/** The state of each list, by its name on the command line. */
type ListStatuses = { readonly [label: string]: ListStatus }

/** The state of the destination and of each list. */
export interface WorkerStatus {
  /** Why the destination cannot be opened or reached; null if it is open. */
  readonly destination: Problem | null
  readonly lists: ListStatuses
}

/** The state of the worker, updated by the events of its rounds. */
export class Status extends Context.Service<Status, {
  readonly current: Effect.Effect<WorkerStatus>
  readonly onEvent: (event: ScanEvent) => Effect.Effect<void>
  readonly onDestinationOpen: Effect.Effect<void>
  /** Stores why the destination could not be opened or reached. These lists were therefore not scanned. */
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
            return { ...status, lists: { ...status.lists, [label]: statusAfter(event, list, now) } }
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
                labels.some((failed) => failed === label)
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

const statusAfter = (event: ScanEvent, list: ListStatus, now: string): ListStatus => {
  switch (event._tag) {
    case "Begun":
    case "Committed":
      return { ...list, scanned: event.progress.records, waiting: null }
    case "Waiting":
      return { ...list, waiting: problemOf(event.error, list.waiting, now) }
    case "Filling":
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

/** Returns the error as a problem. If the reason is the same as before, `since` stays. */
const problemOf = ({ message, reason }: PaymentsError | SinkError, before: Problem | null, now: string): Problem => ({
  reason: reason._tag,
  message,
  since: before?.reason === reason._tag ? before.since : now
})

const isUpToDate = ({ complete, failure, waiting }: ListStatus): boolean =>
  waiting === null && failure === null && complete !== null && complete.heldBack === 0

/**
 * The health checks. `/health/live` answers 200. `/health/ready` answers 200 if the destination is open, the last scan of
 * every list completed without rows held back, and no scan waits for the service. Otherwise it answers 503. The body of
 * `/health/ready` is the {@link WorkerStatus}.
 */
export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    yield* router.add("GET", "/health/live", HttpServerResponse.jsonUnsafe({ live: true }))
    yield* router.add(
      "GET",
      "/health/ready",
      Effect.map(status.current, (current) => {
        const ready = current.destination === null && Object.values(current.lists).every(isUpToDate)
        return HttpServerResponse.jsonUnsafe({ ready, ...current }, { status: ready ? 200 : 503 })
      })
    )
  })
)
