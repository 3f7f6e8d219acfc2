/** What a sandbox tells of its requests: which list, what came of it, which faults it met. Never a key, a cursor or a value. */
import { Lists } from "@payments/core"
import { catalogue, type Fault, type ServiceAnswer } from "@payments/core/testing"
import { Schema } from "effect"

const FaultName = Schema.Literals(Object.keys(catalogue) as ReadonlyArray<Fault["fault"]>) // the catalogue's own names

/** One request. */
export const LoggedRequest = Schema.Struct({
  /** Milliseconds since the epoch. */
  at: Schema.Finite,
  /** Null where the path is no list's. */
  list: Schema.NullOr(Lists.ListName),
  /** Null where the connection ended before an answer. */
  status: Schema.NullOr(Schema.Int),
  faults: Schema.Array(FaultName)
})
/** {@inheritDoc LoggedRequest} */
export type LoggedRequest = typeof LoggedRequest.Type

const Counts = Schema.Record(Schema.String, Schema.Int)

/** How many requests there were. */
export const Counters = Schema.Struct({
  requests: Schema.Int,
  /** By list; `other` is any other path. */
  lists: Counts,
  /** By status; `none` is a connection that ended before an answer. */
  statuses: Counts,
  /** By fault. A request may meet several. */
  faults: Counts
})
/** {@inheritDoc Counters} */
export type Counters = typeof Counters.Type

/** Keeps the counters, and the last requests. */
export interface Journal {
  readonly record: (answer: ServiceAnswer, now: number) => void
  readonly counters: () => Counters
  /** The last 1,000, the oldest first. */
  readonly requests: () => ReadonlyArray<LoggedRequest>
}

const kept = 1000

/** An empty journal. `onRequest` is told of each request as it is answered. */
export const make = (onRequest: (request: LoggedRequest) => void = () => {}): Journal => {
  let total = 0
  const counts = {
    lists: new Map<string, number>(),
    statuses: new Map<string, number>(),
    faults: new Map<string, number>()
  }
  const requests: Array<LoggedRequest> = []
  return {
    record: ({ faults, list, reply }, now) => {
      const status = reply.truncation?.after === "nothing" ? null : reply.status
      const request = { at: now, list: list ?? null, status, faults }
      total++
      add(counts.lists, list ?? "other")
      add(counts.statuses, status === null ? "none" : String(status))
      for (const fault of faults) add(counts.faults, fault)
      requests.push(request)
      if (requests.length > 2 * kept) requests.splice(0, kept)
      onRequest(request)
    },
    counters: () => ({
      requests: total,
      lists: Object.fromEntries(counts.lists),
      statuses: Object.fromEntries(counts.statuses),
      faults: Object.fromEntries(counts.faults)
    }),
    requests: () => requests.slice(-kept)
  }
}

const add = (counts: Map<string, number>, name: string): void => {
  counts.set(name, (counts.get(name) ?? 0) + 1)
}
