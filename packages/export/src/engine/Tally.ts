/**
 * What a scan has come to so far: its counts, and what its certificate is made of. Committed with every checkpoint, so
 * that a scan that was cut goes on counting where it stopped.
 */
import { Effect, Option, Schema } from "effect"
import { Damaged, SinkError } from "../Sink.ts"
import type { Column } from "./Columns.ts"
import { Counts } from "./Counts.ts"

/** What a scan has come to, as it is kept. */
export const Tally = Schema.Struct({
  counts: Counts,
  /** Exact sums of the amount fields over the rows that were seen, by column. */
  sums: Schema.Record(Schema.String, Schema.BigIntFromString),
  /** The content hashes of the rows that were seen, their first 128 bits added up modulo 2^128: the same whatever their order. */
  digest: Schema.BigIntFromString,
  /** Fields that the document does not show, by path where that looks like a name, and how many records had them. */
  undocumented: Schema.Record(Schema.String, Schema.Int),
  /** Text that a typed column could not hold and that only `raw` has whole. */
  replaced: Schema.Int
})
/** {@inheritDoc Tally} */
export interface Tally extends Schema.Schema.Type<typeof Tally> {}

/** Of a scan that has read nothing. */
export const none: Tally = {
  counts: {
    pages: 0,
    records: 0,
    repeats: 0,
    inserted: 0,
    updated: 0,
    unchanged: 0,
    returned: 0,
    quarantined: 0,
    nameless: 0
  },
  sums: {},
  digest: 0n,
  undocumented: {},
  replaced: 0
}

const Json = Schema.fromJsonString(Tally)

export const toJson: (tally: Tally) => string = Schema.encodeSync(Json)
/** None of any text that {@link toJson} did not write. */
export const fromJson: (text: string) => Option.Option<Tally> = Schema.decodeOption(Json)

/** A kept scan's. Fails where a destination was damaged, or edited. */
export const ofScan = (
  { location }: { readonly location: string },
  { scan, tally }: { readonly scan: number; readonly tally: string }
): Effect.Effect<Tally, SinkError> =>
  Option.match(fromJson(tally), {
    onNone: () =>
      Effect.fail(
        new SinkError({ location, reason: new Damaged({ problem: `the tally of scan ${scan} cannot be read` }) })
      ),
    onSome: Effect.succeed
  })

/** Whether the scan has written rows, in any of its runs. */
export const hasWritten = ({ counts: { inserted, returned, updated } }: Tally): boolean =>
  inserted + returned + updated > 0

/** Whether the scan has begun again after it had written rows: those stay counted, the records that they came from do not. */
export const hasRestarted = ({ counts: { inserted, nameless, records, unchanged, updated } }: Tally): boolean =>
  inserted + updated + unchanged + nameless > records

/** A service may invent field names without end: only so many are counted by name. */
const mostPaths = 100
const otherPaths = "(other)"

/** Counts more records that have the undocumented path. */
export const countPath = (counts: Map<string, number>, path: string, records: number): void => {
  const name = counts.has(path) || counts.size < mostPaths ? path : otherPaths
  counts.set(name, (counts.get(name) ?? 0) + records)
}

/** Adds the counts of a batch to those of a scan. */
export const addPaths = (
  counts: { readonly [path: string]: number },
  batch: ReadonlyMap<string, number>
): { readonly [path: string]: number } => {
  if (batch.size === 0) return counts
  const sum = new Map(Object.entries(counts))
  for (const [path, records] of batch) countPath(sum, path, records)
  return Object.fromEntries(sum)
}

const modulus = 2n ** 128n
/** A content hash counts as four numbers of 8 hex digits, the highest first. So many of each can be added up exactly. */
const laneStarts = [0, 8, 16, 24] as const
const mostPending = 2 ** 20

/** Adds up what a certificate says of the rows that were seen: in numbers for as long as they are exact. */
export class Totals {
  readonly #sums: ReadonlyArray<{ readonly index: number; readonly name: string; pending: number; sum: bigint }>
  readonly #lanes = [0, 0, 0, 0]
  #pending = 0
  #digest: bigint

  /** A tally that began before a column was added has no sum of it, and gets none: its first records were not summed. */
  constructor(
    amounts: ReadonlyArray<Column>,
    { counts, digest, sums }: Pick<Tally, "counts" | "digest" | "sums"> = none
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

  /** Undoes what {@link add} has done. */
  remove(hash: string, amounts: ReadonlyArray<number>): void {
    this.#count(hash, amounts, -1)
  }

  get digest(): bigint {
    this.#settle()
    return this.#digest
  }

  /** By column. */
  get sums(): Tally["sums"] {
    return Object.fromEntries(this.#sums.map(({ name, pending, sum }) => [name, sum + BigInt(pending)]))
  }

  #count(hash: string, amounts: ReadonlyArray<number>, sign: 1 | -1): void {
    for (let lane = 0; lane < laneStarts.length; lane++) {
      const start = laneStarts[lane] ?? 0
      this.#lanes[lane] = (this.#lanes[lane] ?? 0) + sign * Number.parseInt(hash.slice(start, start + 8), 16)
    }
    if (++this.#pending === mostPending) this.#settle()
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

  #settle(): void {
    const sum = this.#lanes.reduce((total, lane) => total * 2n ** 32n + BigInt(lane), 0n)
    this.#digest = (((this.#digest + sum) % modulus) + modulus) % modulus
    this.#lanes.fill(0)
    this.#pending = 0
  }
}

/** The digest as text. */
export const digestText = (digest: bigint): string => digest.toString(16).padStart(32, "0")
