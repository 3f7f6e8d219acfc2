/**
 * Keeps the data of two merchants apart. A destination is bound to the merchant ids that its records show and to the keys
 * that it was filled with. Pages of a scan are committed only once they, or other pages that the same key reads, show what
 * the destination knows. Until then at most 1,000 records wait, and nothing is written.
 *
 * What this cannot notice: another merchant behind a known key where no list is read whose records show one, records of two merchants that
 * have the same ids, and a list that is the first one in its destination.
 */
import { Lists, type Page, type PaymentsApi, type PaymentsError, type Position, RetryPolicy } from "@payments/core"
import { Deferred, Duration, Effect, Option, Semaphore } from "effect"
import { layoutOf } from "./engine/Columns.ts"
import { merchantsOf, type ReadPage, toBatchRecords } from "./ReadPage.ts"
import { OtherMerchant, type Owner, type OwnerClaim, type ScanPreview, type Sink, SinkError } from "./Sink.ts"

/** Records that wait for a decision at most; more only where the service sends larger pages than it was asked for. */
export const mostWaiting = 1000

/** Of those records' texts: larger pages are judged before there are as many records. */
const mostCharacters = 4 * 1024 * 1024

/** With as many different ids, that part of an address is no merchant's: then it shows nothing. */
const mostMerchants = 1000

/** How long the other lists of a run wait for the first page of a list whose records show merchant ids. */
const longestWait = Duration.seconds(10)

/** Whether the records of a list show merchant ids. */
const showsMerchants = (name: Lists.ListName): boolean => Lists.byName[name].merchantIdIn !== undefined

/** What the lists of one run know of each other. */
export interface Run {
  /** Fingerprints that were accepted in this run. */
  readonly accepted: Set<Fingerprint>
  /** What the first records that can show merchant ids showed; undefined where the run has no such list beside others. */
  readonly verdict: Deferred.Deferred<Verdict> | undefined
  /** One list at a time looks at others. */
  readonly turn: Semaphore.Semaphore
}

/** Undefined where pages are read without a key. */
type Fingerprint = string | undefined

/** What records showed to a key: merchant ids that are known, others alone, or none. */
interface Verdict {
  readonly shown: "known" | "other" | "none"
  readonly key: Fingerprint
}

const noVerdict: Verdict = { shown: "none", key: undefined }

/** A run of these lists. */
export const makeRun = (names: ReadonlyArray<Lists.ListName>): Run => ({
  accepted: new Set(),
  verdict: names.some(showsMerchants) && names.length > 1 ? Deferred.makeUnsafe() : undefined,
  turn: Semaphore.makeUnsafe(1)
})

/** Ends the wait of the other lists, when a list whose records show merchant ids has ended. */
export const endList = ({ verdict }: Run, name: Lists.ListName): Effect.Effect<void> =>
  verdict === undefined || !showsMerchants(name) ? Effect.void : Effect.asVoid(Deferred.succeed(verdict, noVerdict))

/** What a guard decides about. */
export interface Guarded {
  readonly name: Lists.ListName
  /** Records per page. */
  readonly limit: number
  /** Whether all of the list is read. */
  readonly isWhole: boolean
  readonly api: PaymentsApi["Service"]
  readonly location: string
  readonly inspect: NonNullable<Sink["Service"]["inspect"]>
  readonly preview: ScanPreview
  readonly rebind: boolean
  readonly run: Run
}

/** Decides about the pages of one scan. */
export interface Guard {
  /**
   * How many of these pages, from the first one on, may be committed. 0 where more of them are needed to decide. Fails
   * where they are another merchant's.
   */
  readonly admit: (pages: ReadonlyArray<ReadPage>) => Effect.Effect<number, PaymentsError | SinkError>
  /** What the destination is bound to by pages that may be committed; undefined where it is bound to all of it already. */
  readonly claim: (pages: ReadonlyArray<ReadPage>) => Effect.Effect<OwnerClaim | undefined>
}

/** A guard of one scan. */
export const makeGuard = (guarded: Guarded): Guard => {
  const { inspect, name, preview, run } = guarded
  const { salt } = preview.owner
  /** The keys whose pages may be committed. */
  const admitted = new Set<Fingerprint>()
  const boundKeys = new Set(preview.owner.keys.filter((key) => key.salt === salt).map(({ fingerprint }) => fingerprint))
  const boundMerchants = new Set(preview.owner.bound ? preview.owner.merchants : [])
  /** Merchant ids of an earlier version's rows are bound with the first batch. */
  let found = preview.owner.bound ? [] : preview.owner.merchants
  let isEmpty = false
  let isAsked = false
  /** Pages whose ids were looked up. After a failure other pages come. */
  const looked = new WeakSet<ReadPage>()

  const judge = Effect.fnUntraced(function*(
    group: ReadonlyArray<ReadPage>,
    key: Fingerprint,
    isAll: boolean
  ): Effect.fn.Return<"admit" | "more", PaymentsError | SinkError> {
    const isFirst = admitted.size === 0
    // With another key in the middle of a scan, what was committed meanwhile counts too, and so does what others have
    // committed into an empty destination.
    const owner = isFirst && preview.owner.filled.length > 0 ? preview.owner : yield* inspect.owner
    isEmpty = owner.filled.length === 0
    if (guarded.rebind || isEmpty) return "admit"
    const merchants = knownMerchants(owner)
    if (showsMerchants(name)) {
      const shown = group.flatMap((page) => page.merchants)
      if (shown.some((merchant) => merchants.has(merchant))) return yield* decide({ shown: "known", key })
      if (merchants.size > 0) {
        if (!isAll) return "more"
        if (shown.length > 0) return yield* decide({ shown: "other", key })
      }
      if (run.verdict !== undefined) yield* Deferred.succeed(run.verdict, noVerdict)
    } else if (merchants.size > 0 && run.verdict !== undefined && !isAsked) {
      isAsked = true
      const verdict = yield* Effect.timeoutOption(Deferred.await(run.verdict), longestWait)
      if (Option.isSome(verdict) && verdict.value.key === key && verdict.value.shown !== "none") {
        return yield* decide(verdict.value)
      }
    }
    if (yield* isKnown(owner, run, key, group[0])) return "admit"
    const fresh = group.filter((page) => !looked.has(page))
    for (const page of fresh) looked.add(page)
    if (owner.filled.includes(name) && (yield* hasAny(inspect, name, fresh))) return "admit"
    if (!isAll) return "more"
    const evidence = yield* run.turn.withPermits(1)(lookAround(guarded, owner, key, isFirst))
    if (evidence === "known") return "admit"
    return yield* refuse(guarded, evidence === "other" ? "merchantId" : "key")
  })

  /** The first verdict decides for all lists that the same key reads. */
  const decide = Effect.fnUntraced(function*(verdict: Verdict): Effect.fn.Return<"admit", SinkError> {
    if (run.verdict !== undefined) yield* Deferred.succeed(run.verdict, verdict)
    return verdict.shown === "known" ? "admit" : yield* refuse(guarded, "merchantId")
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
      const isAll = count < pages.length || group.at(-1)?.next === null ||
        recordsIn(group) + guarded.limit > mostWaiting || charactersIn(group) > mostCharacters
      if ((yield* judge(group, key, isAll)) === "more") return 0
      admitted.add(key)
      run.accepted.add(key)
      return count
    }),
    claim: Effect.fnUntraced(function*(pages) {
      const [first] = pages
      const fingerprint = first === undefined ? undefined : yield* fingerprintOf(first, salt)
      const merchants = [...new Set([...found, ...pages.flatMap((page) => page.merchants)])]
        .filter((merchant) => !boundMerchants.has(merchant))
        .slice(0, Math.max(0, mostMerchants - boundMerchants.size))
      const isNew = fingerprint !== undefined && !boundKeys.has(fingerprint)
      if (!isNew && merchants.length === 0) return undefined
      const owner: OwnerClaim = { key: isNew ? { salt, fingerprint } : undefined, merchants, isFirst: isEmpty }
      found = []
      isEmpty = false
      for (const merchant of merchants) boundMerchants.add(merchant)
      if (isNew) boundKeys.add(fingerprint)
      return owner
    })
  }
}

const refuse = ({ location }: Guarded, by: OtherMerchant["by"]) =>
  new SinkError({ location, reason: new OtherMerchant({ by }) })

const knownMerchants = ({ merchants }: Owner): ReadonlySet<string> =>
  new Set(merchants.length < mostMerchants ? merchants : [])

const fingerprintOf = (page: Pick<ReadPage, "keyFingerprint">, salt: string): Effect.Effect<Fingerprint> =>
  Effect.promise(() => page.keyFingerprint(salt))

const recordsIn = (pages: ReadonlyArray<ReadPage>): number =>
  pages.reduce((sum, { records }) => sum + records.length, 0)

const charactersIn = (pages: ReadonlyArray<ReadPage>): number =>
  pages.reduce((sum, { characters }) => sum + characters, 0)

/** Whether the destination was filled with this key before. Programs that filled it side by side may have taken two salts. */
const isKnown = Effect.fnUntraced(function*(owner: Owner, run: Run, key: Fingerprint, page: ReadPage | undefined) {
  if (key === undefined || page === undefined || run.accepted.has(key)) return true
  for (const salt of new Set(owner.keys.map((known) => known.salt))) {
    const fingerprint = yield* fingerprintOf(page, salt)
    if (owner.keys.some((known) => known.salt === salt && known.fingerprint === fingerprint)) return true
  }
  return false
})

const hasAny = (
  inspect: Guarded["inspect"],
  name: Lists.ListName,
  pages: ReadonlyArray<Pick<ReadPage, "records">>
): Effect.Effect<boolean, SinkError> => {
  const ids = new Set(pages.flatMap(({ records }) => records.flatMap(({ id }) => id === undefined ? [] : [id])))
  return ids.size === 0 ? Effect.succeed(false) : inspect.hasAny(Lists.byName[name], [...ids])
}

/**
 * What the first pages of the lists in the destination show to the key, each from its start: first those lists whose records
 * show merchant ids, which say most. A list that is empty there takes the evidence of a list that another key of this client reads.
 */
const lookAround = Effect.fnUntraced(function*(
  guarded: Guarded,
  owner: Owner,
  key: Fingerprint,
  isFirst: boolean
): Effect.fn.Return<"known" | "other" | "none", PaymentsError | SinkError> {
  const { isWhole, name, preview, run } = guarded
  // Another list, or another part of this one, has found it meanwhile.
  if (run.accepted.has(key)) return "known"
  const hasLooked = isWhole && isFirst && preview.resumeAt === undefined
  const names = Lists.all.map((list) => list.name)
  for (const other of [...names.filter(showsMerchants), name, ...names]) {
    if (!owner.filled.includes(other) || (other === name && hasLooked)) continue
    const shown = yield* lookAt(guarded, other, owner, owner.filled.includes(name) ? key : undefined).pipe(
      // A list that this key may not read shows nothing. One that cannot be read now is asked for again later.
      Effect.catchIf(
        (error) => error._tag === "PaymentsError" && !RetryPolicy.isRetryable(error.reason),
        () => Effect.succeed("none" as const)
      )
    )
    if (shown !== "none") return shown
  }
  return "none"
})

/** What the first 1,000 records of a list show. Pages that are read with another key than the given one show nothing. */
const lookAt = Effect.fnUntraced(function*(
  { api, inspect, preview }: Guarded,
  name: Lists.ListName,
  owner: Owner,
  key: Fingerprint
): Effect.fn.Return<"known" | "other" | "none", PaymentsError | SinkError> {
  const read: (
    query: { readonly position: Position.Position | undefined; readonly onBadRecord: "quarantine" }
  ) => Effect.Effect<Page<{ readonly id: string }>, PaymentsError> = api[name].page
  const merchants = knownMerchants(owner)
  let shownOther = false
  let position: Position.Position | undefined
  for (let records = 0; records < mostWaiting;) {
    const page = yield* read({ position, onBadRecord: "quarantine" })
    if (key !== undefined && (yield* fingerprintOf(page, preview.owner.salt)) !== key) return "none"
    const shown = merchants.size > 0 ? merchantsOf(Lists.byName[name], page) : []
    if (shown.some((merchant) => merchants.has(merchant))) return "known"
    if (shown.length > 0) shownOther = true
    else if (yield* hasAny(inspect, name, [{ records: toBatchRecords(layoutOf(Lists.byName[name]), page) }])) {
      return "known"
    }
    // A list of empty pages ends too.
    records += Math.max(1, page.records().length)
    if (page.next === null) break
    position = page.next
  }
  return shownOther ? "other" : "none"
})
