/**
 * The totals of a running scan: its counts, and the sums and digest for its certificate. They are committed with every
 * checkpoint, so that a resumed scan continues from them. Databases store them in the column `totals`.
 */
import { Effect, Option, Schema } from "effect"
import type { Certificate } from "../port/Certificate.ts"
import { Counts } from "../port/Counts.ts"
import { type Batch, Damaged, type Places, type ScanProgress, SinkError } from "../port/Sink.ts"
import type { Column } from "./Columns.ts"
import { Contents, noContents } from "./Contents.ts"

const noPlaces: Places = { known: 0, fresh: 0, freshAtStart: 0, freshAtEnd: 0 }

export const ScanTotals = Schema.Struct({
  counts: Counts,
  /** The exact sums of the amount columns over the seen rows, by column. */
  sums: Schema.Record(Schema.String, Schema.BigIntFromString),
  /** The sum, modulo 2^128, of the first 128 bits of the seen rows' content hashes. It does not depend on their order. */
  digest: Schema.BigIntFromString,
  /** The number of records with each undocumented field, by its path. A path that does not look like a name is `(other)`. */
  undocumented: Schema.Record(Schema.String, Schema.Int),
  /** The number of texts in which characters were replaced because a typed column cannot store them. `raw` is exact. */
  replaced: Schema.Int,
  /** {@inheritDoc Places} Versions before 0.1.0 have not stored it. */
  places: Schema.Struct({
    known: Schema.Int,
    fresh: Schema.Int,
    freshAtStart: Schema.Int,
    freshAtEnd: Schema.Int
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(noPlaces))),
  /** What the records look like. Versions before 0.1.0 have not stored it. */
  contents: Contents.pipe(Schema.withDecodingDefaultKey(Effect.succeed(noContents)))
})
export interface ScanTotals extends Schema.Schema.Type<typeof ScanTotals> {}

export const none: ScanTotals = {
  counts: {
    pages: 0,
    records: 0,
    repeats: 0,
    inserted: 0,
    updated: 0,
    unchanged: 0,
    returned: 0,
    quarantined: 0,
    withoutId: 0
  },
  sums: {},
  digest: 0n,
  undocumented: {},
  replaced: 0,
  places: noPlaces,
  contents: noContents
}

const Json = Schema.fromJsonString(ScanTotals)

export const toJson: (totals: ScanTotals) => string = Schema.encodeSync(Json)
export const fromJson: (text: string) => Option.Option<ScanTotals> = Schema.decodeOption(Json)

/** Returns what a stored scan says of the records; nothing if there is no scan, or if its totals cannot be read. */
export const contentsOf = (scan: { readonly totals: string } | undefined): Contents =>
  scan === undefined ? noContents : Option.match(fromJson(scan.totals), {
    onNone: () => noContents,
    onSome: ({ contents }) => contents
  })

/**
 * Returns the first row number that was unused when a scan was complete; 0 if there is no scan, or if it knew records that have no
 * row.
 */
export const rowsAfter = (scan: { readonly firstRow: number; readonly totals: string } | undefined): number =>
  scan === undefined ? 0 : Option.match(fromJson(scan.totals), {
    onNone: () => 0,
    onSome: ({ counts }) => counts.withoutId > 0 ? 0 : scan.firstRow + counts.inserted
  })

/** Fails if the text is invalid. */
export const ofScan = (
  { location }: { readonly location: string },
  { scan, totals }: { readonly scan: number; readonly totals: string }
): Effect.Effect<ScanTotals, SinkError> =>
  Effect.fromOption(
    fromJson(totals),
    () => new SinkError({ location, reason: new Damaged({ problem: `the totals of scan ${scan} cannot be read` }) })
  )

/** Whether the scan has written rows, in any of its runs. */
export const hasWritten = ({ counts: { inserted, returned, updated } }: ScanTotals): boolean =>
  inserted + returned + updated > 0

/** Whether the scan was restarted after it had written rows. Row counts survive a restart; record counts are reset. */
export const hasRestarted = ({ counts: { inserted, withoutId, records, unchanged, updated } }: ScanTotals): boolean =>
  inserted + updated + unchanged + withoutId > records

/** More paths are counted as `(other)`, because a service may invent any number of field names. */
const maxPaths = 100
const otherPaths = "(other)"

export const countPath = (counts: Map<string, number>, path: string, records: number): void => {
  const name = counts.has(path) || counts.size < maxPaths ? path : otherPaths
  counts.set(name, (counts.get(name) ?? 0) + records)
}

export const addPaths = (
  counts: { readonly [path: string]: number },
  batch: ReadonlyMap<string, number>
): { readonly [path: string]: number } => {
  if (batch.size === 0) return counts
  const sum = new Map(Object.entries(counts))
  for (const [path, records] of batch) countPath(sum, path, records)
  return Object.fromEntries(sum)
}

export const withPages = (totals: ScanTotals, batch: Pick<Batch, "pages" | "undocumented">): ScanTotals => ({
  ...totals,
  counts: { ...totals.counts, pages: totals.counts.pages + batch.pages },
  undocumented: addPaths(totals.undocumented, batch.undocumented)
})

/** What a scan finds in addition to its totals, most of it at its end. */
export type Findings = Pick<
  ScanProgress,
  "missing" | "heldBack" | "heldBackBy" | "accepted" | "unseen" | "skipped" | "unchecked" | "behindHead" | "drift"
>
export const noFindings: Findings = {
  missing: 0,
  heldBack: 0,
  heldBackBy: undefined,
  unseen: 0,
  skipped: 0,
  unchecked: 0,
  behindHead: 0,
  drift: []
}

export const progressOf = (
  { counts, places, replaced, undocumented }: ScanTotals,
  findings: Findings = noFindings
): ScanProgress => ({ ...counts, ...findings, places, undocumented, replaced })

const modulus = 2n ** 128n
/** A content hash is added as four numbers (lanes) of 8 hex digits, the highest first. These are their positions. */
const laneStarts = [0, 8, 16, 24] as const
/** The number of hashes after which the lanes are added to the digest. So many additions of 32-bit numbers are exact. */
const maxPending = 2 ** 20

/** Computes the sums and the digest of a certificate. Adds numbers while the result is exact, because bigints are slower. */
export class RunningTotals {
  readonly #sums: ReadonlyArray<{ readonly index: number; readonly name: string; pending: number; sum: bigint }>
  readonly #lanes = [0, 0, 0, 0]
  #pending = 0
  #digest: bigint

  /** If a scan began before a column was added, its totals never get a sum of the column: the first records lack it. */
  constructor(
    amounts: ReadonlyArray<Column>,
    { counts, digest, sums }: Pick<ScanTotals, "counts" | "digest" | "sums"> = none
  ) {
    this.#sums = amounts.flatMap(({ name }, index) =>
      counts.records === 0 || Object.hasOwn(sums, name) ? [{ index, name, pending: 0, sum: sums[name] ?? 0n }] : []
    )
    this.#digest = digest
  }

  /** Adds the row of a record: the hash of its text, and its amounts as `amountsOf` gives them. */
  add(hash: string, amounts: ReadonlyArray<number>): void {
    this.#count(hash, amounts, 1)
  }

  remove(hash: string, amounts: ReadonlyArray<number>): void {
    this.#count(hash, amounts, -1)
  }

  get digest(): bigint {
    this.#flush()
    return this.#digest
  }

  get sums(): ScanTotals["sums"] {
    return Object.fromEntries(this.#sums.map(({ name, pending, sum }) => [name, sum + BigInt(pending)]))
  }

  #count(hash: string, amounts: ReadonlyArray<number>, sign: 1 | -1): void {
    for (let lane = 0; lane < laneStarts.length; lane++) {
      const start = laneStarts[lane] ?? 0
      this.#lanes[lane] = (this.#lanes[lane] ?? 0) + sign * Number.parseInt(hash.slice(start, start + 8), 16)
    }
    if (++this.#pending === maxPending) this.#flush()
    for (const total of this.#sums) {
      const value = amounts[total.index] ?? Number.NaN
      if (Number.isNaN(value)) continue
      const next = total.pending + sign * value
      if (Number.isSafeInteger(next)) total.pending = next
      else {
        total.sum += BigInt(total.pending) + BigInt(sign * value)
        total.pending = 0
      }
    }
  }

  /** Adds the lanes to the digest, and resets them. */
  #flush(): void {
    const sum = this.#lanes.reduce((total, lane) => total * 2n ** 32n + BigInt(lane), 0n)
    this.#digest = (((this.#digest + sum) % modulus) + modulus) % modulus
    this.#lanes.fill(0)
    this.#pending = 0
  }
}

export const digestText = (digest: bigint): string => digest.toString(16).padStart(32, "0")

/** Makes the certificate of a scan that reached the null cursor. */
export const certify = (
  scan: { readonly scan: number; readonly startedAt: string },
  totals: ScanTotals,
  distinct: number,
  completedAt: string
): Certificate => ({
  scan: scan.scan,
  startedAt: scan.startedAt,
  completedAt,
  end: "null cursor",
  pages: totals.counts.pages,
  records: totals.counts.records,
  distinct,
  repeats: totals.counts.repeats,
  quarantined: totals.counts.quarantined,
  withoutId: totals.counts.withoutId,
  sums: Object.fromEntries(Object.entries(totals.sums).map(([column, sum]) => [column, String(sum)])),
  digest: digestText(totals.digest)
})
