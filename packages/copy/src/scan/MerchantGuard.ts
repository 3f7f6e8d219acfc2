/**
 * Keeps the data of two merchants apart, on every page. A destination is bound to the merchant ids in its records and to
 * fingerprints of the keys that read them. A page with merchant ids is committed only if one of them is known. A page without
 * is committed only after the same key has read a known merchant id with a later request. It is also committed if it, or a later
 * page of its list, has a record that the destination has. Until then at most 1,000 records are buffered. If the key reads no
 * merchant ids, the key decides.
 *
 * The guard cannot detect another merchant in three cases:
 *
 * 1. The destination knows no merchant id, and the key is known.
 * 2. The records of both merchants have the same ids.
 * 3. The pages are the first ones in their destination.
 */
import type { PaymentsError } from "@payments/core"
import { Effect } from "effect"
import { type BoundMerchant, OtherMerchant, type OwnerClaim, SinkError } from "../port/Sink.ts"
import {
  findEvidence,
  fingerprintOf,
  type GuardedScan,
  hasAny,
  isKnown,
  maxBufferedRecords,
  probe
} from "./Evidence.ts"
import { charactersIn, type PageBatch, recordsIn } from "./PageBatch.ts"
import { addMerchants, type Fingerprint, idsDecide, isOwn, maxMerchants, noteCertain } from "./SourceGuard.ts"

/** The maximum total length of the buffered texts. If they are longer, the guard decides before it has 1,000 records. */
const maxBufferedCharacters = 4 * 1024 * 1024

/** A list with so many ids on pages without a known one has no merchant ids: nearly each record has its own. */
const leastOwnIds = 10

export interface MerchantGuard {
  /**
   * Returns how many of these pages, from the first one on, may be committed. Returns 0 if the decision needs more pages, unless
   * `mustDecide` is true. Fails if the pages belong to another merchant.
   */
  readonly admit: (
    pages: ReadonlyArray<PageBatch>,
    mustDecide: boolean
  ) => Effect.Effect<number, PaymentsError | SinkError>
  /** Returns the key and merchant ids of admitted pages that the destination is not bound to yet, or undefined if none. */
  readonly claim: (pages: ReadonlyArray<PageBatch>) => Effect.Effect<OwnerClaim | undefined>
  readonly noteCommit: (records: number) => void
}

/** Admits all pages, for a destination that stores nothing. */
export const admitAll: MerchantGuard = {
  admit: (pages) => Effect.succeed(pages.length),
  claim: () => Effect.undefined,
  noteCommit: () => {}
}

export const makeGuard = (scan: GuardedScan): MerchantGuard => {
  const guard = new GuardState(scan)
  const claimOf = makeClaims(scan.preview.owner)
  return {
    admit: (pages, mustDecide) => admit(guard, pages, mustDecide),
    claim: (pages) => {
      const [first] = pages
      return Effect.map(first === undefined ? Effect.undefined : keyOf(guard, first), (key) => {
        const claim = claimOf(key, pages, guard.isEmpty)
        if (claim !== undefined) guard.isEmpty = false
        return claim
      })
    },
    noteCommit: (records) => {
      const { kind, list: { label, name }, source: { committed } } = scan
      const id = `${name} ${kind}`
      committed.set(id, { label, records: (committed.get(id)?.records ?? 0) + records })
    }
  }
}

/** What a guard knows besides the shared knowledge about its source. */
export class GuardState {
  readonly scan: GuardedScan
  /** The keys that were judged. Without merchant ids, all their pages may be committed. */
  readonly admitted = new Set<Fingerprint>()
  /** The keys that read no merchant ids, although the destination knows some. */
  readonly blind = new Set<Fingerprint>()
  /** Pages that show no merchant id, but a record that the destination has, and the pages before them. */
  readonly proven = new WeakSet<PageBatch>()
  /** Pages whose ids were looked up, and whose records the destination did not have. */
  readonly lookedUp = new WeakSet<PageBatch>()
  /** The fingerprints of the keys, by the function that all pages of a key share, so that no page waits for a promise. */
  readonly fingerprints = new WeakMap<PageBatch["keyFingerprint"], { readonly fingerprint: Fingerprint }>()
  /** The merchant of the destination, when it was last read. */
  owner: BoundMerchant | undefined
  isEmpty = false

  constructor(scan: GuardedScan) {
    this.scan = scan
  }
}

/** Successive pages of one key. */
interface KeyPages {
  readonly key: Fingerprint
  readonly pages: ReadonlyArray<PageBatch>
  readonly first: PageBatch
  readonly mustDecide: boolean
}

const admit = Effect.fnUntraced(function*(
  guard: GuardState,
  pages: ReadonlyArray<PageBatch>,
  mustDecide: boolean
): Effect.fn.Return<number, PaymentsError | SinkError> {
  const { limit, rebind, source } = guard.scan
  const [first] = pages
  if (first === undefined) return 0
  const key = yield* keyOf(guard, first)
  let end = 1
  for (const page of pages.slice(1)) {
    if (page.keyFingerprint !== first.keyFingerprint && (yield* keyOf(guard, page)) !== key) break
    end++
  }
  const group = pages.slice(0, end)
  if (rebind) {
    addMerchants(source, group.flatMap(({ merchants }) => merchants))
    return end
  }
  if (source.foreign.has(key)) return yield* refuse(guard, key, "merchantId")
  const count = guard.owner === undefined ? 0 : admitOwn(guard, key, group)
  if (count > 0) return count
  // It must decide if no more pages of this key follow, or if the next page would exceed the buffer.
  const isFull = end < pages.length || group.at(-1)?.next === null ||
    recordsIn(group) + limit > maxBufferedRecords || charactersIn(group) > maxBufferedCharacters
  return yield* judge(guard, { key, pages: group, first, mustDecide: mustDecide || isFull })
})

const keyOf = ({ fingerprints, scan }: GuardState, page: PageBatch): Effect.Effect<Fingerprint> => {
  const known = fingerprints.get(page.keyFingerprint)
  return known !== undefined
    ? Effect.succeed(known.fingerprint)
    : Effect.tap(
      fingerprintOf(page, scan.preview.owner.salt),
      (fingerprint) => Effect.sync(() => fingerprints.set(page.keyFingerprint, { fingerprint }))
    )
}

/**
 * Returns how many pages, from the first one on, are certain to belong to the source's merchant. Notes what they show about the
 * merchant. Its cost is a lookup per page.
 */
export const admitOwn = (guard: GuardState, key: Fingerprint, pages: ReadonlyArray<PageBatch>): number => {
  const { admitted, scan: { source } } = guard
  for (let index = 0; idsDecide(source) && index < pages.length; index++) {
    const page = pages[index]
    if (page === undefined || !isOwn(source, page.merchants)) continue
    noteCertain(source, key, page.requested)
    admitted.add(key)
    // An account may have several merchants. All ids on the page belong to it, so an earlier page with them does, too.
    if (addMerchants(source, page.merchants)) index = -1
  }
  let count = 0
  for (const page of pages) {
    const isAdmitted = !idsDecide(source)
      ? admitted.has(key)
      : page.merchants.length > 0
      ? isOwn(source, page.merchants)
      : isOwnWithoutIds(guard, page, key)
    if (!isAdmitted) break
    // The first ids bind the destination. The pages after them are compared with them.
    if (source.known.size === 0) addMerchants(source, page.merchants)
    count++
  }
  return count
}

/** Whether a page without a merchant id was read before the source's data was requested, and received. */
const isOwnWithoutIds = ({ admitted, blind, proven, scan }: GuardState, page: PageBatch, key: Fingerprint): boolean =>
  proven.has(page) || page.received < (scan.source.certain.get(key) ?? 0) ||
  // An empty page writes nothing. Only at the end of a full scan, it decides which rows are missing.
  (admitted.has(key) &&
    (blind.has(key) || (page.records.length === 0 && (scan.kind !== "full" || scan.part !== undefined))))

/** What shows whose pages these are, if no known merchant id does. */
export const evidenceFor = (
  { blind, scan }: GuardState,
  { first, key }: Pick<KeyPages, "first" | "key">
): "ids" | "samples" | "key" => {
  if (!idsDecide(scan.source)) return "key"
  if (first.merchants.length > 0) return "ids"
  return blind.has(key) ? "key" : "samples"
}

/** Decides about pages of one key that {@link admitOwn} does not admit. */
const judge = Effect.fnUntraced(function*(
  guard: GuardState,
  group: KeyPages
): Effect.fn.Return<number, PaymentsError | SinkError> {
  const { admitted, blind, scan: { source } } = guard
  const { key, mustDecide, pages } = group
  let owner = yield* ownerFor(guard, key)
  let count = admitOwn(guard, key, pages)
  if (count > 0) return count
  const evidence = evidenceFor(guard, group)
  if (evidence === "ids") {
    if (!mustDecide) return 0
    // Another program may have bound the destination to more merchants.
    owner = yield* readOwner(guard)
    count = admitOwn(guard, key, pages)
    if (count > 0) return count
    if (!haveOwnIds(pages)) return yield* refuse(guard, key, "merchantId")
    addMerchants(source, pages.flatMap(({ merchants }) => merchants))
  } else if (evidence === "samples") {
    if (yield* judgeBySamples(guard, group, owner)) return admitOwn(guard, key, pages)
    if (!blind.has(key)) return 0
  }
  if (!admitted.has(key)) {
    if (!(yield* judgeByKey(guard, group, owner))) return 0
    admitted.add(key)
    source.accepted.add(key)
  }
  return admitOwn(guard, key, pages)
})

/**
 * Returns the merchant of the destination. If the key changed during the scan, it is read again, because earlier batches are known
 * now. It is also read again if the destination was empty, because other scans may have committed.
 */
const ownerFor = (guard: GuardState, key: Fingerprint): Effect.Effect<BoundMerchant, SinkError> => {
  const { admitted, owner, scan: { preview } } = guard
  if (owner !== undefined && admitted.has(key)) return Effect.succeed(owner)
  return admitted.size === 0 && preview.owner.filled.length > 0 ? noteOwner(guard, preview.owner) : readOwner(guard)
}

const readOwner = (guard: GuardState) => Effect.flatMap(guard.scan.inspect.owner, (read) => noteOwner(guard, read))

/** Fails if another program has bound the destination, which was empty for this one. */
const noteOwner = (guard: GuardState, read: BoundMerchant): Effect.Effect<BoundMerchant, SinkError> => {
  const { location, source } = guard.scan
  const { merchants } = read
  if (source.known.size > 0 && merchants.length > 0 && !isOwn(source, merchants)) {
    return Effect.fail(new SinkError({ location, reason: new OtherMerchant({ by: "race" }) }))
  }
  addMerchants(source, merchants)
  guard.owner = read
  guard.isEmpty = read.filled.length === 0
  return Effect.succeed(read)
}

/** Decides by the key, and by the records that the destination has. Returns false if it needs more pages. */
const judgeByKey = Effect.fnUntraced(function*(
  guard: GuardState,
  { first, key, mustDecide, pages }: KeyPages,
  owner: BoundMerchant
): Effect.fn.Return<boolean, PaymentsError | SinkError> {
  const { admitted, isEmpty, lookedUp, scan } = guard
  if (isEmpty || (yield* isKnown(scan, owner, { key, page: first }))) return true
  const newPages = pages.filter((page) => !lookedUp.has(page))
  for (const page of newPages) lookedUp.add(page)
  if (owner.filled.includes(scan.list.name) && (yield* hasAny(scan, scan.list.name, newPages))) return true
  if (!mustDecide) return false
  const evidence = yield* scan.source.mutex.withPermits(1)(
    findEvidence(scan, owner, { key, isFirst: admitted.size === 0 })
  )
  return evidence === "known" || (yield* refuse(guard, key, evidence === "other" ? "merchantId" : "key"))
})

/**
 * Decides about pages without merchant ids, if the destination knows some. A record that the destination has decides,
 * or the first pages of other lists. Returns false if it needs more pages, or if the key reads no merchant ids.
 */
const judgeBySamples = Effect.fnUntraced(function*(
  guard: GuardState,
  { first, key, mustDecide, pages }: KeyPages,
  owner: BoundMerchant
): Effect.fn.Return<boolean, PaymentsError | SinkError> {
  const { admitted, blind, proven, scan } = guard
  const { kind, list, source } = scan
  const last = pages.at(-1) ?? first
  // A pass reads few pages, most of which have a record that the destination has. A full scan waits for the pages of other
  // lists first, which show it without a lookup.
  if (
    (kind !== "full" || (mustDecide && admitted.has(key))) && (yield* isKnown(scan, owner, { key, page: last })) &&
    (yield* hasAny(scan, list.name, [last]))
  ) {
    for (const page of pages) proven.add(page)
    return true
  }
  if (!mustDecide) return false
  return yield* source.mutex.withPermits(1)(Effect.gen(function*() {
    if (pages.every((page) => isOwnWithoutIds(guard, page, key))) return true
    const requested = source.next()
    const evidence = yield* probe(scan, key)
    if (evidence === "other") return yield* refuse(guard, key, "merchantId")
    if (evidence === "none") {
      blind.add(key)
      return false
    }
    noteCertain(source, key, requested)
    admitted.add(key)
    return true
  }))
})

/** Fails, and ends all scans and passes of the source that read with this key. */
const refuse = ({ scan: { location, source } }: GuardState, key: Fingerprint, by: OtherMerchant["by"]) => {
  if (by === "merchantId") source.foreign.add(key)
  return Effect.fail(new SinkError({ location, reason: new OtherMerchant({ by, committed: source.committed }) }))
}

/** Whether nearly each record has its own id, so that the ids are not those of merchants. */
const haveOwnIds = (pages: ReadonlyArray<PageBatch>): boolean => {
  const ids = new Set(pages.flatMap(({ merchants }) => merchants))
  return ids.size >= leastOwnIds && ids.size > recordsIn(pages) / 2
}

/** Makes the function that returns what the next commit has to bind, so that each key and merchant id is bound once. */
const makeClaims = ({ bound, keys, merchants: found, salt }: BoundMerchant) => {
  const boundKeys = new Set(keys.filter((key) => key.salt === salt).map(({ fingerprint }) => fingerprint))
  const boundMerchants = new Set(bound ? found : [])
  /** Merchant ids in rows that an earlier version of this program wrote. It did not bind them, so the first batch does. */
  let unbound = bound ? [] : found
  return (fingerprint: Fingerprint, pages: ReadonlyArray<PageBatch>, isFirst: boolean): OwnerClaim | undefined => {
    const merchants = [...new Set([...unbound, ...pages.flatMap((page) => page.merchants)])]
      .filter((merchant) => !boundMerchants.has(merchant))
      .slice(0, Math.max(0, maxMerchants - boundMerchants.size))
    const isNewKey = fingerprint !== undefined && !boundKeys.has(fingerprint)
    if (!isNewKey && merchants.length === 0) return undefined
    unbound = []
    for (const merchant of merchants) boundMerchants.add(merchant)
    if (isNewKey) boundKeys.add(fingerprint)
    return { key: isNewKey ? { salt, fingerprint } : undefined, merchants, isFirst }
  }
}
