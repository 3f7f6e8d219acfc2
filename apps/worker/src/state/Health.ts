/**
 * The health checks over HTTP. `/health/live` answers while the process runs. `/health/ready` says whether every
 * destination can be used. `/health/fresh` says whether every list is younger than its `max_age`. In a cluster both are
 * about the sources of this runner; `/health/fleet` is about all sources.
 */
import { heldBackText } from "@payments/copy"
import { contract } from "@payments/program"
import { Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { outputs } from "../contract/WorkerOutputs.ts"
import { Status } from "./Status.ts"
import { isWithoutRunner, type ListSnapshot, type Snapshot, type SourceSnapshot } from "./StatusSnapshot.ts"

/**
 * Whether the destination is open. A standby is ready too, so that a rolling update can end the worker that has the
 * locks. So is a source of another runner, if this runner could take it over.
 */
const isReady = ({ cluster }: Snapshot) => ({ problem, state }: SourceSnapshot): boolean =>
  problem === null &&
  (state === "running" || state === "standby" || (state === "elsewhere" && cluster?.isHealthy === true))

const staleLists = ({ sources }: Snapshot) =>
  sources.flatMap((source) =>
    source.lists.filter(({ isFresh }) => !isFresh).map((list) => ({
      source: source.name,
      list: list.list,
      ageSeconds: list.ageSeconds,
      maxAgeSeconds: list.maxAgeSeconds,
      why: whyStale(source, list)
    }))
  )

const whyStale = (source: SourceSnapshot, list: ListSnapshot): string => {
  const { ageSeconds, completeScan, failure, holder, holdsLock, progress, stall } = list
  if (isWithoutRunner(source)) return "no live runner has the source"
  const problem = source.problem ?? stall ?? progress?.waiting ?? failure
  if (problem) return problem.message
  if (!holdsLock && holder !== null) return `another program has the lock: ${holder}`
  if (completeScan === null) return "no full scan is complete yet"
  return ageSeconds === null
    ? "the last complete full scan began in the future: the clock was set back"
    : "no full scan has been complete since"
}

/**
 * The lists whose last full scan held rows back. They do not make a list stale, because the next scan may return them.
 */
const heldBackLists = ({ sources }: Snapshot) =>
  sources.flatMap((source) =>
    source.lists.flatMap(({ completeScan, list }) => {
      const { heldBack = 0, unchecked = 0 } = completeScan?.certificate ?? {}
      const why = heldBackText(completeScan?.certificate)
      return why === undefined ? [] : [{ source: source.name, list, rows: heldBack + unchecked, why }]
    })
  )

export const routes = HttpRouter.use((router) =>
  Effect.gen(function*() {
    const status = yield* Status
    /** Adds a check. Its answer begins with whether all is well. At the start, the sources are not known yet. */
    const add = (
      name: "ready" | "fresh" | "fleet",
      snapshots: Effect.Effect<Snapshot>,
      check: (snapshot: Snapshot) => readonly [isWell: boolean, facts: object]
    ) =>
      router.add(
        "GET",
        `/health/${name}`,
        Effect.map(snapshots, (snapshot) => {
          const [isWell, facts] = check(snapshot)
          const all = isWell && snapshot.sources.length > 0
          return HttpServerResponse.jsonUnsafe(
            contract.withVersion(outputs[name], { [name]: all, ...facts }),
            { status: all ? 200 : 503 }
          )
        })
      )
    yield* router.add(
      "GET",
      "/health/live",
      HttpServerResponse.jsonUnsafe(contract.withVersion(outputs.health, { live: true }))
    )
    yield* add("ready", status.current, (snapshot) => [snapshot.sources.every(isReady(snapshot)), snapshot])
    yield* add("fresh", status.current, (snapshot) => {
      const stale = staleLists(snapshot)
      return [stale.length === 0, { stale, heldBack: heldBackLists(snapshot) }]
    })
    yield* add("fleet", status.fleet, (snapshot) => {
      const stale = staleLists(snapshot)
      const withoutRunner = snapshot.sources.filter(isWithoutRunner).map(({ name }) => name)
      const runners = Object.fromEntries(snapshot.sources.map(({ name, runner }) => [name, runner]))
      return [stale.length === 0, { stale, withoutRunner, runners }]
    })
  })
)
