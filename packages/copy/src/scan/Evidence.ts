/** Reads what shows whose data a key reads: the destination's known keys, its records, and the first pages of other lists. */
import { Lists, type PaymentsApi, type PaymentsError, type Position, RetryPolicy } from "@payments/core"
import { Effect } from "effect"
import type { BoundMerchant, Part, ScanKind, ScanPreview, Sink, SinkError } from "../port/Sink.ts"
import { unchanged } from "../rule/OpenPersonal.ts"
import { merchantsOf, type PageBatch, pageReader, toBatchRecords } from "./PageBatch.ts"
import { type Fingerprint, idsDecide, isOwn, type SourceGuard } from "./SourceGuard.ts"

export interface GuardedScan {
  readonly api: PaymentsApi["Service"]
  readonly list: Lists.AnyList
  readonly kind: ScanKind
  /** Undefined for the whole list. */
  readonly part: Part | undefined
  /** Records per page. */
  readonly limit: number
  readonly location: string
  readonly inspect: NonNullable<Sink["Service"]["inspect"]>
  readonly preview: Pick<ScanPreview, "owner" | "resumeAt">
  /** Whether the user has allowed data of another merchant, so that the guard admits all pages. */
  readonly rebind: boolean
  readonly source: SourceGuard
}

/** What records show: a merchant id that the destination knows, only unknown ones, or none. */
export type Evidence = "known" | "other" | "none"

type EvidenceEffect = Effect.Effect<Evidence, PaymentsError | SinkError>

/** The maximum number of records that are read of a list, or buffered, until the guard decides. */
export const maxBufferedRecords = 1000

/** The records of a request that only shows whose data a key reads. */
const probeLimit = 10

const listsWithMerchants = Lists.all.filter(({ merchantIdIn }) => merchantIdIn !== undefined).map(({ name }) => name)

export const fingerprintOf = (page: Pick<PageBatch, "keyFingerprint">, salt: string): Effect.Effect<Fingerprint> =>
  Effect.promise(() => page.keyFingerprint(salt))

/**
 * Whether the key may read for this destination: the destination knows it, the source has accepted it, or the pages were read
 * without a key. Programs that filled an empty destination at the same time may have chosen different salts.
 */
export const isKnown = Effect.fnUntraced(function*(
  { source }: GuardedScan,
  owner: BoundMerchant,
  { key, page }: { readonly key: Fingerprint; readonly page: PageBatch }
) {
  if (key === undefined || source.accepted.has(key)) return true
  for (const salt of new Set(owner.keys.map((known) => known.salt))) {
    const fingerprint = yield* fingerprintOf(page, salt)
    if (owner.keys.some((known) => known.salt === salt && known.fingerprint === fingerprint)) return true
  }
  return false
})

/** Whether the destination has one of the records in the list. */
export const hasAny = (
  { inspect }: GuardedScan,
  name: Lists.ListName,
  pages: ReadonlyArray<Pick<PageBatch, "records">>
): Effect.Effect<boolean, SinkError> => {
  const ids = new Set(pages.flatMap(({ records }) => records.flatMap(({ id }) => id === undefined ? [] : [id])))
  return ids.size === 0 ? Effect.succeed(false) : inspect.hasAny(Lists.byName[name], [...ids])
}

/** Reads the first records of the lists with merchant ids, and returns the first evidence. Most often it is one small request. */
export const probe = Effect.fnUntraced(function*(
  scan: GuardedScan,
  key: Fingerprint
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  for (const name of listsWithMerchants) {
    for (const maxRecords of [probeLimit, maxBufferedRecords]) {
      const evidence = yield* evidenceIn(scan, { name, key, maxRecords })
      if (evidence === "known" || (evidence === "other" && maxRecords === maxBufferedRecords)) return evidence
    }
  }
  return "none"
})

/**
 * Reads the first pages of the lists that the destination has, and returns the first evidence. Lists whose records have
 * merchant ids come first, because these ids are the strongest evidence. If the destination has no rows of any list that
 * this key reads, the evidence may come from a list that another key of this client reads.
 */
export const findEvidence = Effect.fnUntraced(function*(
  scan: GuardedScan,
  owner: BoundMerchant,
  { isFirst, key }: { readonly key: Fingerprint; readonly isFirst: boolean }
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  const { list: { baseAddress, name }, part, preview, source } = scan
  // Another list, or another part of this one, has found evidence meanwhile.
  if (source.accepted.has(key)) return "known"
  const hasReadOwnStart = part === undefined && isFirst && preview.resumeAt === undefined
  // Lists of the same address have the same key (§5).
  const own = owner.filled.some((other) => Lists.byName[other].baseAddress === baseAddress) ? key : undefined
  for (const other of [...listsWithMerchants, name, ...Lists.all.map((list) => list.name)]) {
    if (!owner.filled.includes(other) || (other === name && hasReadOwnStart)) continue
    const evidence = yield* evidenceIn(scan, { name: other, key: own, maxRecords: maxBufferedRecords })
    if (evidence !== "none") return evidence
  }
  return "none"
})

/** A list that the key may not read gives no evidence. After a temporary error, the scan retries. */
const ifReadable = (evidence: EvidenceEffect): EvidenceEffect =>
  Effect.catchIf(
    evidence,
    (error) => error._tag === "PaymentsError" && !RetryPolicy.isRetryable(error.reason),
    () => Effect.succeed("none" as const)
  )

/**
 * Returns the evidence in the first records of a list. If a key is given and another key read one of the pages, there is none.
 */
const evidenceIn = Effect.fnUntraced(function*(
  scan: GuardedScan,
  { key, maxRecords, name }: {
    readonly name: Lists.ListName
    readonly key: Fingerprint
    readonly maxRecords: number
  }
): Effect.fn.Return<Evidence, PaymentsError | SinkError> {
  const { api, preview, source } = scan
  const read = pageReader(api, name)
  const limit = Math.min(Lists.pageLimit.default, maxRecords)
  let hasOther = false
  let position: Position.Position | undefined
  for (let records = 0; records < maxRecords;) {
    const page = yield* read({ limit, position, onBadRecord: "quarantine" })
    if (key !== undefined && (yield* fingerprintOf(page, preview.owner.salt)) !== key) return "none"
    const found = idsDecide(source) ? merchantsOf(Lists.byName[name], page) : []
    if (isOwn(source, found)) return "known"
    if (found.length > 0) hasOther = true
    else if (yield* hasAny(scan, name, [{ records: toBatchRecords(Lists.byName[name], page, unchanged) }])) {
      return "known"
    }
    // Count an empty page as one record, so that the loop ends.
    records += Math.max(1, page.records().length)
    if (page.next === null) break
    position = page.next
  }
  return hasOther ? "other" : "none"
}, ifReadable)
