/**
 * Keeps the data of two merchants apart. A destination is bound to the merchant ids in its records and to fingerprints of the
 * keys that read them. The pages of a scan are committed only after they, or other pages that the same key reads, contain a
 * merchant id or a record that the destination knows. Until then at most 1,000 records are buffered, and nothing is written.
 *
 * The guard cannot detect another merchant in three cases: a known key reads only lists whose records have no merchant ids;
 * the records of both merchants have the same ids; the list is the first one in its destination.
 */
import { Lists, type Page, type PaymentsApi, type PaymentsError, type Position, RetryPolicy } from "@payments/core"
import { Deferred, Duration, Effect, Option, Semaphore } from "effect"
import { unchanged } from "./personal/OpenPersonal.ts"
import { merchantsOf, type ReadPage, toBatchRecords } from "./ReadPage.ts"
import { OtherMerchant, type Owner, type OwnerClaim, type ScanPreview, type Sink, SinkError } from "./Sink.ts"

/** The maximum number of buffered records. It may be exceeded if the service returns larger pages than requested. */
export const maxBufferedRecords = 1000

/** The maximum total length of the buffered texts. If they are longer, the guard decides before it has 1,000 records. */
const maxBufferedCharacters = 4 * 1024 * 1024

/**
 * A merchant id is a part of the record's payment URL. If a destination has this many different ids, that part does not
 * identify a merchant, so the guard ignores the ids.
 */
const maxMerchants = 1000

/** How long the other lists of a run wait for the first page of a list whose records have merchant ids. */
const verdictTimeout = Duration.seconds(10)

/** Whether the records of a list have merchant ids. */
const hasMerchants = (name: Lists.ListName): boolean => Lists.byName[name].merchantIdIn !== undefined

/** State that the lists of one run share. */
export interface GuardedRun {
  /** The keys that were accepted in this run. */
  readonly accepted: Set<Fingerprint>
  /** The verdict of the first pages with merchant ids. Undefined if the run has one list only, or no list with such ids. */
  readonly verdict: Deferred.Deferred<Verdict> | undefined
  /** Only one list at a time reads other lists for evidence. The next one may use the evidence that it found. */
  readonly mutex: Semaphore.Semaphore
}

/** The fingerprint of a key, or undefined if pages are read without a key. */
type Fingerprint = string | undefined

/** Whether records show a merchant id that the destination knows, only unknown ones, or none. */
type Evidence = "known" | "other" | "none"

/** The evidence in the pages that a key read. */
interface Verdict {
  readonly evidence: Evidence
  readonly key: Fingerprint
}

const noVerdict: Verdict = { evidence: "none", key: undefined }

/** Makes the shared state for a run of these lists. */
export const makeRun = (names: ReadonlyArray<Lists.ListName>): GuardedRun => ({
  accepted: new Set(),
  verdict: names.some(hasMerchants) && names.length > 1 ? Deferred.makeUnsafe() : undefined,
  mutex: Semaphore.makeUnsafe(1)
})

/** Ends the wait of the other lists when a list whose records have merchant ids has ended. */
export const endList = ({ verdict }: GuardedRun, name: Lists.ListName): Effect.Effect<void> =>
  verdict === undefined || !hasMerchants(name) ? Effect.void : Effect.asVoid(Deferred.succeed(verdict, noVerdict))

/** The scan that a guard decides about. */
export interface GuardedScan {
  readonly name: Lists.ListName
  /** Records per page. */
  readonly limit: number
  /** Whether the scan reads the whole list. */
  readonly isWhole: boolean
  readonly api: PaymentsApi["Service"]
  readonly location: string
  readonly inspect: NonNullable<Sink["Service"]["inspect"]>
  readonly preview: Pick<ScanPreview, "owner" | "resumeAt">
  /** Whether the user has allowed data of another merchant, so that the guard admits all pages. */
  readonly rebind: boolean
  readonly run: GuardedRun
}

/** Decides about the pages of one scan. */
export interface MerchantGuard {
  /**
   * Returns how many of these pages, from the first one on, may be committed. Returns 0 if the decision needs more pages.
   * Fails if the pages belong to another merchant.
   */
  readonly admit: (pages: ReadonlyArray<ReadPage>) => Effect.Effect<number, PaymentsError | SinkError>
  /** Returns the key and merchant ids of admitted pages that the destination is not bound to yet, or undefined if none. */
  readonly claim: (pages: ReadonlyArray<ReadPage>) => Effect.Effect<OwnerClaim | undefined>
}

/** Makes the guard of one scan. */
export const makeGuard = (scan: GuardedScan): MerchantGuard => {
  const { inspect, name, preview, run } = scan
  const { salt } = preview.owner
  /** The keys whose pages may be committed. */
  const admitted = new Set<Fingerprint>()
  const boundKeys = new Set(preview.owner.keys.filter((key) => key.salt === salt).map(({ fingerprint }) => fingerprint))
  const boundMerchants = new Set(preview.owner.bound ? preview.owner.merchants : [])
  /** Merchant ids in rows that an earlier version of this program wrote. It did not bind them, so the first batch does. */
  let unbound = preview.owner.bound ? [] : preview.owner.merchants
  let isEmpty = false
  let hasAwaitedVerdict = false
  /** Pages whose ids were looked up, and whose records the destination did not have. */
  const lookedUp = new WeakSet<ReadPage>()

  const judge = Effect.fnUntraced(function*(
    group: ReadonlyArray<ReadPage>,
    key: Fingerprint,
    mustDecide: boolean
  ): Effect.fn.Return<"admit" | "more", PaymentsError | SinkError> {
    const isFirst = admitted.size === 0
    // Read the owner again if the key changed during the scan, because earlier batches are known now, or if the destination
    // was empty, because other scans may have committed.
    const owner = isFirst && preview.owner.filled.length > 0 ? preview.owner : yield* inspect.owner
    isEmpty = owner.filled.length === 0
    if (scan.rebind || isEmpty) return "admit"
    const merchants = knownMerchants(owner)
    if (hasMerchants(name)) {
      const found = group.flatMap((page) => page.merchants)
      if (found.some((merchant) => merchants.has(merchant))) return yield* decide({ evidence: "known", key })
      if (merchants.size > 0) {
        if (!mustDecide) return "more"
        if (found.length > 0) return yield* decide({ evidence: "other", key })
      }
      if (run.verdict !== undefined) yield* Deferred.succeed(run.verdict, noVerdict)
    } else if (merchants.size > 0 && run.verdict !== undefined && !hasAwaitedVerdict) {
      hasAwaitedVerdict = true
      const verdict = yield* Effect.timeoutOption(Deferred.await(run.verdict), verdictTimeout)
      if (Option.isSome(verdict) && verdict.value.key === key && verdict.value.evidence !== "none") {
        return yield* decide(verdict.value)
      }
    }
    if (yield* isKnown(owner, run, key, group[0])) return "admit"
    const newPages = group.filter((page) => !lookedUp.has(page))
    for (const page of newPages) lookedUp.add(page)
    if (owner.filled.includes(name) && (yield* hasAny(inspect, name, newPages))) return "admit"
    if (!mustDecide) return "more"
    const evidence = yield* run.mutex.withPermits(1)(findEvidence(scan, owner, key, isFirst))
    if (evidence === "known") return "admit"
    return yield* refuse(scan, evidence === "other" ? "merchantId" : "key")
  })

  /** Applies a verdict, which holds for all lists that the same key reads. */
  const decide = Effect.fnUntraced(function*(verdict: Verdict): Effect.fn.Return<"admit", SinkError> {
    if (run.verdict !== undefined) yield* Deferred.succeed(run.verdict, verdict)
    return verdict.evidence === "known" ? "admit" : yield* refuse(scan, "merchantId")
  })

  return {
    admit: Effect.fnUntraced(function*(pages) {
      const [first] = pages
      if (first === undefined) return 0
      const key = yield* fingerprintOf(first, salt)
      let count = 1
      for (const page of pages.slice(1)) {
        if ((yield* fingerprintOf(page, salt)) !== key) break
        count++
      }
      if (admitted.has(key)) return count
      const group = pages.slice(0, count)
      // It must decide if no more pages of this key follow, or if the next page would exceed the buffer.
      const mustDecide = count < pages.length || group.at(-1)?.next === null ||
        recordsIn(group) + scan.limit > maxBufferedRecords || charactersIn(group) > maxBufferedCharacters
      if ((yield* judge(group, key, mustDecide)) === "more") return 0
      admitted.add(key)
      run.accepted.add(key)
      return count
    }),
    claim: Effect.fnUntraced(function*(pages) {
      const [first] = pages
      const fingerprint = first === undefined ? undefined : yield* fingerprintOf(first, salt)
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
    })
  }
}

const refuse = ({ location }: GuardedScan, by: OtherMerchant["by"]) =>
  new SinkError({ location, reason: new OtherMerchant({ by }) })

const knownMerchants = ({ merchants }: Owner): ReadonlySet<string> =>
  new Set(merchants.length < maxMerchants ? merchants : [])

const fingerprintOf = (page: Pick<ReadPage, "keyFingerprint">, salt: string): Effect.Effect<Fingerprint> =>
  Effect.promise(() => page.keyFingerprint(salt))

const recordsIn = (pages: ReadonlyArray<ReadPage>): number =>
  pages.reduce((sum, { records }) => sum + records.length, 0)

const charactersIn = (pages: ReadonlyArray<ReadPage>): number =>
  pages.reduce((sum, { characters }) => sum + characters, 0)

/**
 * Whether the key may read for this destination: the destination knows it, the run has accepted it, or the pages were read
 * without a key. Programs that filled an empty destination at the same time may have chosen different salts.
 */
const isKnown = Effect.fnUntraced(function*(
  owner: Owner,
  run: GuardedRun,
  key: Fingerprint,
  page: ReadPage | undefined
) {
  if (key === undefined || page === undefined || run.accepted.has(key)) return true
  for (const salt of new Set(owner.keys.map((known) => known.salt))) {
    const fingerprint = yield* fingerprintOf(page, salt)
    if (owner.keys.some((known) => known.salt === salt && known.fingerprint === fingerprint)) return true
  }
  return false
})

const hasAny = (
  inspect: GuardedScan["inspect"],
  name: Lists.ListName,
  pages: ReadonlyArray<Pick<ReadPage, "records">>
): Effect.Effect<boolean, SinkError> => {
  const ids = new Set(pages.flatMap(({ records }) => records.flatMap(({ id }) => id === undefined ? [] : [id])))
  return ids.size === 0 ? Effect.succeed(false) : inspect.hasAny(Lists.byName[name], [...ids])
}

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
  const { isWhole, name, preview, run } = scan
  // Another list, or another part of this one, has found evidence meanwhile.
  if (run.accepted.has(key)) return "known"
  const hasReadOwnStart = isWhole && isFirst && preview.resumeAt === undefined
  const names = Lists.all.map((list) => list.name)
  for (const other of [...names.filter(hasMerchants), name, ...names]) {
    if (!owner.filled.includes(other) || (other === name && hasReadOwnStart)) continue
    const evidence = yield* evidenceIn(scan, other, owner, owner.filled.includes(name) ? key : undefined).pipe(
      // A list that this key may not read gives no evidence. After a temporary error, the scan retries.
      Effect.catchIf(
        (error) => error._tag === "PaymentsError" && !RetryPolicy.isRetryable(error.reason),
        () => Effect.succeed("none" as const)
      )
    )
    if (evidence !== "none") return evidence
  }
  return "none"
})

/**
 * Returns the evidence in the first 1,000 records of a list. If a key is given and another key read one of the pages, there
 * is none.
 */
const evidenceIn = Effect.fnUntraced(function*(
  { api, inspect, preview }: GuardedScan,
  name: Lists.ListName,
  owner: Owner,
  key: Fingerprint
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  const read: (
    query: { readonly position: Position.Position | undefined; readonly onBadRecord: "quarantine" }
  ) => Effect.Effect<Page<{ readonly id: string }>, PaymentsError> = api[name].page
  const merchants = knownMerchants(owner)
  let hasOther = false
  let position: Position.Position | undefined
  for (let records = 0; records < maxBufferedRecords;) {
    const page = yield* read({ position, onBadRecord: "quarantine" })
    if (key !== undefined && (yield* fingerprintOf(page, preview.owner.salt)) !== key) return "none"
    const found = merchants.size > 0 ? merchantsOf(Lists.byName[name], page) : []
    if (found.some((merchant) => merchants.has(merchant))) return "known"
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
