/**
 * Keeps the data of two merchants apart, on every page. A destination is bound to the merchant ids in its records and to
 * fingerprints of the keys that read them. A page with merchant ids is committed only if one of them is known. A page without
 * is committed only after the same key has read a known merchant id with a later request, or if it, or a later page of its
 * list, has a record that the destination has. Until then at most 1,000 records are buffered. If the key reads no merchant
 * ids, the key decides.
 *
 * The guard cannot detect another merchant in three cases: the destination knows no merchant id, and the key is known; the
 * records of both merchants have the same ids; the pages are the first ones in their destination.
 */
import { Lists, type PaymentsApi, type PaymentsError, type Position, RetryPolicy } from "@payments/core"
import { Effect, Semaphore } from "effect"
import {
  type CommittedRecords,
  OtherMerchant,
  type Owner,
  type OwnerClaim,
  type ScanKind,
  type ScanPreview,
  type Sink,
  SinkError
} from "../port/Sink.ts"
import { unchanged } from "../rule/OpenPersonal.ts"
import { charactersIn, merchantsOf, type PageBatch, pageReader, recordsIn, toBatchRecords } from "./PageBatch.ts"

/** The maximum number of buffered records. It may be exceeded if the service returns larger pages than requested. */
export const maxBufferedRecords = 1000

/** The maximum total length of the buffered texts. If they are longer, the guard decides before it has 1,000 records. */
const maxBufferedCharacters = 4 * 1024 * 1024

/**
 * A merchant id is a part of the record's payment URL. If a destination has this many different ids, that part does not
 * identify a merchant, so the guard ignores the ids.
 */
const maxMerchants = 1000

/** The records of a request that only shows whose data a key reads. */
const probeLimit = 10

/** A list with so many ids on pages without a known one has no merchant ids: nearly each record has its own. */
const leastOwnIds = 10

/** Whether the records of a list have merchant ids. */
const hasMerchants = (name: Lists.ListName): boolean => Lists.byName[name].merchantIdIn !== undefined

const listsWithMerchants = Lists.all.map(({ name }) => name).filter(hasMerchants)

/** The fingerprint of a key, or undefined if pages are read without a key. */
type Fingerprint = string | undefined

/** Whether records show a merchant id that the destination knows, only unknown ones, or none. */
type Evidence = "known" | "other" | "none"

/**
 * What all lists, scans and passes of one source share, while its destination is open: the merchant ids that belong to it, and
 * until when each key is certain to read its data. So another merchant in one list ends all of them.
 */
export interface SourceGuard {
  /** Returns the number of a request or an answer, in their order. */
  readonly next: () => number
  /** The merchant ids that belong to the source. */
  readonly known: Set<string>
  /** The keys that were accepted. */
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

/** The scan or pass that a guard decides about. */
export interface GuardedScan {
  readonly name: Lists.ListName
  readonly kind: ScanKind
  /** Records per page. */
  readonly limit: number
  /** Whether it reads the whole list. */
  readonly isWhole: boolean
  readonly api: PaymentsApi["Service"]
  readonly location: string
  readonly inspect: NonNullable<Sink["Service"]["inspect"]>
  readonly preview: Pick<ScanPreview, "owner" | "resumeAt">
  /** Whether the user has allowed data of another merchant, so that the guard admits all pages. */
  readonly rebind: boolean
  readonly source: SourceGuard
}

/** Decides about the pages of one scan or pass. */
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
  /** Notes that these pages are committed. */
  readonly noteCommit: (records: number) => void
}

/** Admits all pages, for a destination that stores nothing. */
export const admitAll: MerchantGuard = {
  admit: (pages) => Effect.succeed(pages.length),
  claim: () => Effect.undefined,
  noteCommit: () => {}
}

/** Makes the guard of one scan or pass. */
export const makeGuard = (scan: GuardedScan): MerchantGuard => {
  const { inspect, kind, name, preview, source } = scan
  const { salt } = preview.owner
  /** The keys that were judged. Without merchant ids, all their pages may be committed. */
  const admitted = new Set<Fingerprint>()
  /** The keys that read no merchant ids, although the destination knows some. */
  const blind = new Set<Fingerprint>()
  /** Pages that show no merchant id, but a record that the destination has, and the pages before them. */
  const proven = new WeakSet<PageBatch>()
  const boundKeys = new Set(preview.owner.keys.filter((key) => key.salt === salt).map(({ fingerprint }) => fingerprint))
  const boundMerchants = new Set(preview.owner.bound ? preview.owner.merchants : [])
  /** Merchant ids in rows that an earlier version of this program wrote. It did not bind them, so the first batch does. */
  let unbound = preview.owner.bound ? [] : preview.owner.merchants
  let owner: Owner | undefined
  let isEmpty = false
  /** Pages whose ids were looked up, and whose records the destination did not have. */
  const lookedUp = new WeakSet<PageBatch>()

  /** The fingerprints of the keys, by the function that all pages of a key share, so that no page waits for a promise. */
  const fingerprints = new WeakMap<PageBatch["keyFingerprint"], { readonly fingerprint: Fingerprint }>()
  const keyOf = (page: PageBatch): Effect.Effect<Fingerprint> => {
    const known = fingerprints.get(page.keyFingerprint)
    return known !== undefined
      ? Effect.succeed(known.fingerprint)
      : Effect.tap(
        fingerprintOf(page, salt),
        (fingerprint) => Effect.sync(() => fingerprints.set(page.keyFingerprint, { fingerprint }))
      )
  }

  /** Notes whose data the destination has. Fails if another program has bound the destination that was empty for this one. */
  const noteOwner = (read: Owner): Effect.Effect<Owner, SinkError> => {
    const { merchants } = read
    if (source.known.size > 0 && merchants.length > 0 && !merchants.some((merchant) => source.known.has(merchant))) {
      return Effect.fail(new SinkError({ location: scan.location, reason: new OtherMerchant({ by: "race" }) }))
    }
    for (const merchant of merchants) source.known.add(merchant)
    owner = read
    isEmpty = read.filled.length === 0
    return Effect.succeed(read)
  }
  const readOwner = Effect.flatMap(inspect.owner, noteOwner)

  /** Whether merchant ids decide. Too many ids do not identify a merchant. */
  const hasKnown = () => source.known.size > 0 && source.known.size < maxMerchants
  const isOwn = ({ merchants }: PageBatch) => merchants.some((merchant) => source.known.has(merchant))

  /** Returns how many pages, from the first one on, belong to the source's merchant. Its cost is a lookup per page. */
  const ownPages = (group: ReadonlyArray<PageBatch>, key: Fingerprint): number => {
    for (let index = 0; hasKnown() && index < group.length; index++) {
      const page = group[index]
      if (page === undefined || !isOwn(page)) continue
      source.certain.set(key, Math.max(source.certain.get(key) ?? 0, page.requested))
      source.accepted.add(key)
      admitted.add(key)
      // An account may have several merchants. All ids on the page belong to it, so an earlier page with them does, too.
      const before = source.known.size
      for (const merchant of page.merchants) source.known.add(merchant)
      if (source.known.size > before) index = -1
    }
    let count = 0
    for (const page of group) {
      if (hasKnown() && page.merchants.length > 0) {
        if (!isOwn(page)) break
      } else if (hasKnown() ? !isOwnWithoutIds(page, key) : !admitted.has(key)) break
      // The first ids bind the destination. The pages after them are compared with them.
      if (source.known.size === 0) { for (const merchant of page.merchants) source.known.add(merchant) }
      count++
    }
    return count
  }

  /** Whether a page without a merchant id was read before the source's data was requested, and received. */
  const isOwnWithoutIds = (page: PageBatch, key: Fingerprint): boolean =>
    proven.has(page) || page.received < (source.certain.get(key) ?? 0) ||
    // An empty page writes nothing. Only at the end of a full scan, it decides which rows are missing.
    (admitted.has(key) && (blind.has(key) || (page.records.length === 0 && (kind !== "full" || !scan.isWhole))))

  /** Decides by the key, and by the records that the destination has. Returns false if it needs more pages. */
  const judgeKey = Effect.fnUntraced(function*(
    group: ReadonlyArray<PageBatch>,
    key: Fingerprint,
    known: Owner,
    mustDecide: boolean
  ): Effect.fn.Return<boolean, PaymentsError | SinkError> {
    if (isEmpty || (yield* isKnown(known, source, key, group[0]))) return true
    const newPages = group.filter((page) => !lookedUp.has(page))
    for (const page of newPages) lookedUp.add(page)
    if (known.filled.includes(name) && (yield* hasAny(inspect, name, newPages))) return true
    if (!mustDecide) return false
    const evidence = yield* source.mutex.withPermits(1)(findEvidence(scan, known, key, admitted.size === 0))
    return evidence === "known" || (yield* refuse(scan, key, evidence === "other" ? "merchantId" : "key"))
  })

  /**
   * Decides about pages without merchant ids, although the destination knows some. Returns false if it needs more pages, or if
   * the key reads no merchant ids.
   */
  const judgeWithoutIds = Effect.fnUntraced(function*(
    group: ReadonlyArray<PageBatch>,
    last: PageBatch,
    key: Fingerprint,
    known: Owner,
    mustDecide: boolean
  ): Effect.fn.Return<boolean, PaymentsError | SinkError> {
    // A pass reads few pages, most of which have a record that the destination has. A full scan waits for the pages of other
    // lists first, which show it without a lookup.
    if (
      (kind !== "full" || (mustDecide && admitted.has(key))) && (yield* isKnown(known, source, key, last)) &&
      (yield* hasAny(inspect, name, [last]))
    ) {
      for (const page of group) proven.add(page)
      return true
    }
    if (!mustDecide) return false
    return yield* source.mutex.withPermits(1)(Effect.gen(function*() {
      if (group.every((page) => isOwnWithoutIds(page, key))) return true
      const requested = source.next()
      const evidence = yield* probe(scan, key)
      if (evidence === "other") return yield* refuse(scan, key, "merchantId")
      if (evidence === "none") {
        blind.add(key)
        return false
      }
      source.certain.set(key, Math.max(source.certain.get(key) ?? 0, requested))
      source.accepted.add(key)
      admitted.add(key)
      return true
    }))
  })

  /** Decides about pages of one key. */
  const judge = Effect.fnUntraced(function*(
    group: ReadonlyArray<PageBatch>,
    first: PageBatch,
    key: Fingerprint,
    mustDecide: boolean
  ): Effect.fn.Return<number, PaymentsError | SinkError> {
    // Read the owner again if the key changed during the scan, because earlier batches are known now, or if the destination
    // was empty, because other scans may have committed.
    let known = owner !== undefined && admitted.has(key)
      ? owner
      : admitted.size === 0 && preview.owner.filled.length > 0
      ? yield* noteOwner(preview.owner)
      : yield* readOwner
    let count = ownPages(group, key)
    if (count > 0) return count
    if (hasKnown() && first.merchants.length > 0) {
      if (!mustDecide) return 0
      // Another program may have bound the destination to more merchants.
      known = yield* readOwner
      count = ownPages(group, key)
      if (count > 0) return count
      if (!haveOwnIds(group)) return yield* refuse(scan, key, "merchantId")
      for (const { merchants } of group) for (const merchant of merchants) source.known.add(merchant)
    } else if (hasKnown() && !blind.has(key)) {
      if (yield* judgeWithoutIds(group, group.at(-1) ?? first, key, known, mustDecide)) return ownPages(group, key)
      if (!blind.has(key)) return 0
    }
    if (!admitted.has(key)) {
      if (!(yield* judgeKey(group, key, known, mustDecide))) return 0
      admitted.add(key)
      source.accepted.add(key)
    }
    return ownPages(group, key)
  })

  return {
    admit: Effect.fnUntraced(function*(pages, mustDecide) {
      const [first] = pages
      if (first === undefined) return 0
      const key = yield* keyOf(first)
      let end = 1
      for (const page of pages.slice(1)) {
        if (page.keyFingerprint !== first.keyFingerprint && (yield* keyOf(page)) !== key) break
        end++
      }
      if (scan.rebind) {
        const found = pages.slice(0, end).flatMap(({ merchants }) => merchants)
        for (const merchant of found) source.known.add(merchant)
        return end
      }
      if (source.foreign.has(key)) return yield* refuse(scan, key, "merchantId")
      const group = pages.slice(0, end)
      const count = owner === undefined ? 0 : ownPages(group, key)
      if (count > 0) return count
      // It must decide if no more pages of this key follow, or if the next page would exceed the buffer.
      const isFull = end < pages.length || group.at(-1)?.checkpoint === null ||
        recordsIn(group) + scan.limit > maxBufferedRecords || charactersIn(group) > maxBufferedCharacters
      return yield* judge(group, first, key, mustDecide || isFull)
    }),
    claim: Effect.fnUntraced(function*(pages) {
      const [first] = pages
      const fingerprint = first === undefined ? undefined : yield* keyOf(first)
      const merchants = [...new Set([...unbound, ...pages.flatMap((page) => page.merchants)])]
        .filter((merchant) => !boundMerchants.has(merchant))
        .slice(0, Math.max(0, maxMerchants - boundMerchants.size))
      const isNewKey = fingerprint !== undefined && !boundKeys.has(fingerprint)
      if (!isNewKey && merchants.length === 0) return undefined
      const claim: OwnerClaim = { key: isNewKey ? { salt, fingerprint } : undefined, merchants, isFirst: isEmpty }
      unbound = []
      isEmpty = false
      for (const merchant of merchants) boundMerchants.add(merchant)
      if (isNewKey) boundKeys.add(fingerprint)
      return claim
    }),
    noteCommit: (records) => {
      const id = `${name} ${kind}`
      const { label } = Lists.byName[name]
      source.committed.set(id, { label, records: (source.committed.get(id)?.records ?? 0) + records })
    }
  }
}

/** Fails, and ends all scans and passes of the source that read with this key. */
const refuse = ({ location, source }: GuardedScan, key: Fingerprint, by: OtherMerchant["by"]) => {
  if (by === "merchantId") source.foreign.add(key)
  return Effect.fail(new SinkError({ location, reason: new OtherMerchant({ by, committed: source.committed }) }))
}

/** Whether nearly each record has its own id, so that the ids are not those of merchants. */
const haveOwnIds = (group: ReadonlyArray<PageBatch>): boolean => {
  const ids = new Set(group.flatMap(({ merchants }) => merchants))
  return ids.size >= leastOwnIds && ids.size > recordsIn(group) / 2
}

const fingerprintOf = (page: Pick<PageBatch, "keyFingerprint">, salt: string): Effect.Effect<Fingerprint> =>
  Effect.promise(() => page.keyFingerprint(salt))

/**
 * Whether the key may read for this destination: the destination knows it, the source has accepted it, or the pages were read
 * without a key. Programs that filled an empty destination at the same time may have chosen different salts.
 */
const isKnown = Effect.fnUntraced(function*(
  owner: Owner,
  source: SourceGuard,
  key: Fingerprint,
  page: PageBatch | undefined
) {
  if (key === undefined || page === undefined || source.accepted.has(key)) return true
  for (const salt of new Set(owner.keys.map((known) => known.salt))) {
    const fingerprint = yield* fingerprintOf(page, salt)
    if (owner.keys.some((known) => known.salt === salt && known.fingerprint === fingerprint)) return true
  }
  return false
})

const hasAny = (
  inspect: GuardedScan["inspect"],
  name: Lists.ListName,
  pages: ReadonlyArray<Pick<PageBatch, "records">>
): Effect.Effect<boolean, SinkError> => {
  const ids = new Set(pages.flatMap(({ records }) => records.flatMap(({ id }) => id === undefined ? [] : [id])))
  return ids.size === 0 ? Effect.succeed(false) : inspect.hasAny(Lists.byName[name], [...ids])
}

/** Reads the first records of the lists with merchant ids, and returns the first evidence. Most often it is one small request. */
const probe = Effect.fnUntraced(function*(
  scan: GuardedScan,
  key: Fingerprint
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  for (const list of listsWithMerchants) {
    for (const maxRecords of [probeLimit, maxBufferedRecords]) {
      const evidence = yield* ifReadable(evidenceIn(scan, list, key, maxRecords))
      if (evidence === "known" || (evidence === "other" && maxRecords === maxBufferedRecords)) return evidence
    }
  }
  return "none"
})

/** A list that the key may not read gives no evidence. After a temporary error, the scan retries. */
const ifReadable = (
  evidence: Effect.Effect<Evidence, PaymentsError | SinkError>
): Effect.Effect<Evidence, PaymentsError | SinkError> =>
  Effect.catchIf(
    evidence,
    (error) => error._tag === "PaymentsError" && !RetryPolicy.isRetryable(error.reason),
    () => Effect.succeed("none" as const)
  )

/**
 * Reads the first pages of the lists that the destination has, and returns the first evidence. Lists whose records have
 * merchant ids come first, because these ids are the strongest evidence. If the destination has no rows of the scan's own
 * list, the evidence may come from a list that another key of this client reads.
 */
const findEvidence = Effect.fnUntraced(function*(
  scan: GuardedScan,
  owner: Owner,
  key: Fingerprint,
  isFirst: boolean
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  const { isWhole, name, preview, source } = scan
  // Another list, or another part of this one, has found evidence meanwhile.
  if (source.accepted.has(key)) return "known"
  const hasReadOwnStart = isWhole && isFirst && preview.resumeAt === undefined
  const names = Lists.all.map((list) => list.name)
  for (const other of [...listsWithMerchants, name, ...names]) {
    if (!owner.filled.includes(other) || (other === name && hasReadOwnStart)) continue
    const own = owner.filled.includes(name) ? key : undefined
    const evidence = yield* ifReadable(evidenceIn(scan, other, own, maxBufferedRecords))
    if (evidence !== "none") return evidence
  }
  return "none"
})

/**
 * Returns the evidence in the first records of a list. If a key is given and another key read one of the pages, there is none.
 */
const evidenceIn = Effect.fnUntraced(function*(
  { api, inspect, preview, source }: GuardedScan,
  name: Lists.ListName,
  key: Fingerprint,
  maxRecords: number
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  const read = pageReader(api, name)
  const limit = Math.min(Lists.pageLimit.default, maxRecords)
  let hasOther = false
  let position: Position.Position | undefined
  for (let records = 0; records < maxRecords;) {
    const page = yield* read({ limit, position, onBadRecord: "quarantine" })
    if (key !== undefined && (yield* fingerprintOf(page, preview.owner.salt)) !== key) return "none"
    const isCompared = source.known.size > 0 && source.known.size < maxMerchants
    const found = isCompared ? merchantsOf(Lists.byName[name], page) : []
    if (found.some((merchant) => source.known.has(merchant))) return "known"
    if (found.length > 0) hasOther = true
    else if (yield* hasAny(inspect, name, [{ records: toBatchRecords(Lists.byName[name], page, unchanged) }])) {
      return "known"
    }
    // Count an empty page as one record, so that the loop ends.
    records += Math.max(1, page.records().length)
    if (page.next === null) break
    position = page.next
  }
  return hasOther ? "other" : "none"
})
