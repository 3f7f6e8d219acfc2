/** A log of the requests to a sandbox: list, status and faults of each. It contains no key, cursor or filter value. */
import { Lists } from "@payments/core"
import { catalogue, type Fault, type ServiceAnswer } from "@payments/core/testing"
import { Record, Schema } from "effect"

const FaultName = Schema.Literals(Object.keys(catalogue) as ReadonlyArray<Fault["fault"]>) // the catalogue's own names

/** One request. */
export const LoggedRequest = Schema.Struct({
  /** Milliseconds since the epoch. */
  at: Schema.Finite,
  /** Null if the path is not that of a list. */
  list: Schema.NullOr(Lists.ListName),
  /** Null if the connection ended before an answer. */
  status: Schema.NullOr(Schema.Int),
  /** The faults that were applied. */
  faults: Schema.Array(FaultName)
})
/** {@inheritDoc LoggedRequest} */
export type LoggedRequest = typeof LoggedRequest.Type

const Counts = Schema.Record(Schema.String, Schema.Int)

/** Counts of requests. */
export const Counters = Schema.Struct({
  requests: Schema.Int,
  /** By list; `other` is any other path. */
  lists: Counts,
  /** By status; `none` is a connection that ended before an answer. */
  statuses: Counts,
  /** By fault. Several faults can apply to one request. */
  faults: Counts
})
/** {@inheritDoc Counters} */
export type Counters = typeof Counters.Type

/** Counts the requests, and keeps the latest ones. */
export interface RequestLog {
  /** Adds a request, from its answer. */
  readonly add: (answer: ServiceAnswer, now: number) => void
  /** Returns the counts of all requests since the start. */
  readonly counters: () => Counters
  /** Returns the latest 1,000 requests, the oldest first. */
  readonly requests: () => ReadonlyArray<LoggedRequest>
}

const maxRequests = 1000

/** Makes an empty log. It calls `onRequest` for each added request. */
export const make = (onRequest: (request: LoggedRequest) => void = () => {}): RequestLog => {
  let total = 0
  const counts = {
    lists: new Map<string, number>(),
    statuses: new Map<string, number>(),
    faults: new Map<string, number>()
  }
  const requests: Array<LoggedRequest> = []
  return {
    add: ({ faults, list, reply }, now) => {
      const status = reply.truncation?.after === "nothing" ? null : reply.status
      const request = { at: now, list: list ?? null, status, faults }
      total++
      increment(counts.lists, list ?? "other")
      increment(counts.statuses, status === null ? "none" : String(status))
      for (const fault of faults) increment(counts.faults, fault)
      requests.push(request)
      if (requests.length > 2 * maxRequests) requests.splice(0, maxRequests)
      onRequest(request)
    },
    counters: () => ({
      requests: total,
      ...Record.map(counts, (count) => Object.fromEntries(count))
    }),
    requests: () => requests.slice(-maxRequests)
  }
}

const increment = (counts: Map<string, number>, name: string): void => {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}
