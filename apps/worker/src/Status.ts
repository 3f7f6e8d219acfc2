/** What the worker knows of itself, and says over HTTP: whether it lives, and whether the destination is in step. */
import { Lists } from "@payments/core"
import type { ScanEvent } from "@payments/export"
import { Context, DateTime, Effect, Layer, Record, Ref, Result } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"

/** How it stands with one list. */
export interface ListStatus {
  readonly scanning: boolean
  /** Whether its last scan ended with an error; only a complete one says otherwise. */
  readonly failed: boolean
  /** Of the running scan, or of the last one. */
  readonly records: number
  /** When the destination was last equal to the list; ISO 8601 UTC. */
  readonly completedAt: string | null
}

/** By the list's name on the command line. */
type ListStatuses = { readonly [label: string]: ListStatus }

/** The state of each list, by the list's name on the command line. */
export class Status extends Context.Service<Status, {
  readonly lists: Effect.Effect<ListStatuses>
  readonly onEvent: (event: ScanEvent) => Effect.Effect<void>
}>()("@payments/worker/Status") {
  static readonly layer = Layer.effect(
    Status,
    Effect.gen(function*() {
      const first: ListStatus = { scanning: false, failed: false, records: 0, completedAt: null }
      const state = yield* Ref.make<ListStatuses>(Record.fromIterableWith(Lists.all, ({ label }) => [label, first]))
      const update = (list: Lists.ListName, change: Partial<ListStatus>) =>
        Ref.update(state, (lists) => {
          const { label } = Lists.byName[list]
          return { ...lists, [label]: { ...first, ...lists[label], ...change } }
        })
      return Status.of({
        lists: Ref.get(state),
        onEvent: Effect.fnUntraced(function*(event) {
          if (event._tag === "Begun" || event._tag === "Committed") {
            yield* update(event.list, { scanning: true, records: event.progress.records })
          }
          if (event._tag !== "Ended") return
          const { result } = event.outcome
          const now = DateTime.formatIso(yield* DateTime.now)
          yield* update(
            event.list,
            Result.isSuccess(result)
              ? { scanning: false, failed: false, records: result.success[0]?.records ?? 0, completedAt: now }
              : { scanning: false, failed: true }
          )
        })
      })
    })
  )
}

/**
 * `/health/live`: 200 for as long as the process answers. `/health/ready`: 200 once every list has been scanned to its end
 * and no last scan failed, 503 before; the body says how each list stands.
 */
export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    yield* router.add("GET", "/health/live", HttpServerResponse.jsonUnsafe({ live: true }))
    yield* router.add(
      "GET",
      "/health/ready",
      Effect.map(status.lists, (lists) => {
        const ready = Object.values(lists).every(({ completedAt, failed }) => completedAt !== null && !failed)
        return HttpServerResponse.jsonUnsafe({ ready, lists }, { status: ready ? 200 : 503 })
      })
    )
  })
)
