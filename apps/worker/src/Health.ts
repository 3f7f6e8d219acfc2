/**
 * The health checks over HTTP. `/health/live` answers while the process runs. `/health/ready` says whether every destination
 * can be used, `/health/fresh` whether every list is younger than its `max_age`.
 */
import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import type { ListSnapshot, Snapshot, SourceSnapshot } from "./Snapshot.ts"
import { Status } from "./Status.ts"

/**
 * Whether the destination is open. A standby is ready too, so that a rolling update can end the worker that has the locks. So is
 * a source that another runner has, if this runner could take it over.
 */
const isReady = ({ cluster }: Snapshot) => ({ problem, state }: SourceSnapshot): boolean =>
  problem === null &&
  (state === "running" || state === "standby" || (state === "elsewhere" && cluster?.isHealthy === true))

/** A list that is older than its `max_age`. */
interface StaleList extends Pick<ListSnapshot, "list" | "ageSeconds" | "maxAgeSeconds"> {
  readonly source: string
  readonly why: string
}

const staleLists = ({ sources }: Snapshot): ReadonlyArray<StaleList> =>
  sources.flatMap((source) =>
    source.lists.filter(({ isFresh }) => !isFresh).map((
      { ageSeconds, completeScan, holder, holdsLock, list, maxAgeSeconds, ...state }
    ) => ({
      source: source.name,
      list,
      ageSeconds,
      maxAgeSeconds,
      why: [source.problem, state.stall, state.progress?.waiting, state.failure].find((problem) => problem)?.message ??
        (!holdsLock && holder !== null
          ? `another program has the lock: ${holder}`
          : completeScan === null
          ? "no full scan is complete yet"
          : ageSeconds === null
          ? "the last complete full scan began in the future: the clock was set back"
          : "no full scan has been complete since")
    }))
  )

/** The health checks. */
export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    yield* router.add("GET", "/health/live", HttpServerResponse.jsonUnsafe({ live: true }))
    yield* router.add(
      "GET",
      "/health/ready",
      Effect.map(status.current, (snapshot) => {
        // At the start, the sources are not known yet.
        const ready = snapshot.sources.length > 0 && snapshot.sources.every(isReady(snapshot))
        return HttpServerResponse.jsonUnsafe({ ready, ...snapshot }, { status: ready ? 200 : 503 })
      })
    )
    yield* router.add(
      "GET",
      "/health/fresh",
      Effect.map(status.current, (snapshot) => {
        const stale = staleLists(snapshot)
        const fresh = snapshot.sources.length > 0 && stale.length === 0
        return HttpServerResponse.jsonUnsafe({ fresh, stale }, { status: fresh ? 200 : 503 })
      })
    )
  })
)
