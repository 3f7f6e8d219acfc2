/**
 * What all lists, scans and passes of one source know about its merchant while its destination is open. They share the merchant
 * ids, and until when each key is certain to read the merchant's data. So another merchant in one list ends all of them.
 */
import type { Lists } from "@payments/core"
import { Semaphore } from "effect"
import type { CommittedRecords, ScanKind } from "../port/Sink.ts"

/** Undefined if pages are read without a key. */
export type Fingerprint = string | undefined

/** The shared knowledge about one source. */
export interface SourceGuard {
  /** Returns the number of a request or an answer, in their order. */
  readonly next: () => number
  /** The merchant ids that belong to the source. */
  readonly known: Set<string>
  readonly accepted: Set<Fingerprint>
  /** For each key, the number of its last request that was answered with the source's data. */
  readonly certain: Map<Fingerprint, number>
  /** The keys that have read the data of another merchant. */
  readonly foreign: Set<Fingerprint>
  /** The records that the current scan or pass of each list and kind has committed. */
  readonly committed: Map<string, CommittedRecords>
  /** Only one list at a time reads other lists for evidence. The next one may use the evidence that it found. */
  readonly mutex: Semaphore.Semaphore
}

/** Makes the shared state for one source. A destination that is opened again needs a new one. */
export const makeSourceGuard = (): SourceGuard => {
  let last = 0
  return {
    next: () => ++last,
    known: new Set(),
    accepted: new Set(),
    certain: new Map(),
    foreign: new Set(),
    committed: new Map(),
    mutex: Semaphore.makeUnsafe(1)
  }
}

/** Forgets all decisions, because another program has bound the empty destination meanwhile. */
export const forgetDecisions = ({ accepted, certain, known }: SourceGuard): void => {
  known.clear()
  accepted.clear()
  certain.clear()
}

/** Forgets what the last scan or pass of a list has committed, because the next one begins, or because it is complete. */
export const forgetCommits = ({ committed }: SourceGuard, list: Lists.ListName, kind: ScanKind): void => {
  committed.delete(`${list} ${kind}`)
}

/**
 * A merchant id is a part of the record's payment URL. If a destination has this many different ids, that part does not
 * identify a merchant, so the guard ignores the ids.
 */
export const maxMerchants = 1000

export const idsDecide = ({ known }: SourceGuard): boolean => known.size > 0 && known.size < maxMerchants

/** Whether one of the merchant ids belongs to the source. */
export const isOwn = ({ known }: SourceGuard, merchants: ReadonlyArray<string>): boolean =>
  merchants.some((merchant) => known.has(merchant))

/** Returns whether one of the merchant ids is new. */
export const addMerchants = ({ known }: SourceGuard, merchants: ReadonlyArray<string>): boolean => {
  const before = known.size
  for (const merchant of merchants) known.add(merchant)
  return known.size > before
}

/** Notes that the key reads the source's data, as a request with this number has shown. */
export const noteCertain = ({ accepted, certain }: SourceGuard, key: Fingerprint, requested: number): void => {
  certain.set(key, Math.max(certain.get(key) ?? 0, requested))
  accepted.add(key)
}
