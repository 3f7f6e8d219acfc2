/**
 * Reads changes, and divides them into batches that are ready to be sent. A batch whose boundary is stored may have been
 * sent before, so it stays the same one. Only a batch that was refused is divided again.
 */
import { type Lists, Monotonic } from "@payments/core"
import { DateTime, Effect } from "effect"
import { randomUUID } from "node:crypto"
import type { ChangeRange } from "../port/Generations.ts"
import type { SinkError } from "../port/Sink.ts"
import { type Handoff, type HandoffAside, type HandoffBatch, untried } from "../store/HandoffStore.ts"
import type { ChangeRow, Maintenance } from "../store/Store.ts"
import type { Asides } from "./Asides.ts"
import { type BatchLimits, type BatchStart, bodyOf, chooseBatch, isSent, messageId, type Shape } from "./Body.ts"

/** Where the changes are, and which of them are sent. */
export interface ChangeSource {
  readonly maintenance: Maintenance
  readonly consumer: string
  readonly lists: ReadonlyArray<Lists.AnyList>
  readonly shape: Shape
  readonly limits: BatchLimits
  readonly selection: string
  readonly scannedAt: ScannedAt
  readonly asides: Asides
}

/** A batch with the text to send. */
export interface ReadyBatch {
  readonly batch: HandoffBatch
  /** Undefined if none of its changes is sent any more, because the settings have changed. */
  readonly message: { readonly id: string; readonly body: Uint8Array } | undefined
  /** The id of its first record. */
  readonly firstId: string
  /** When its changes were read, in monotonic milliseconds. An erasure that was stored later is not in the text. */
  readonly readAt: number
}

export interface Prepared {
  readonly ready: ReadonlyArray<ReadyBatch>
  /** Every change up to this number is in one of the batches, is set aside, or is not sent. */
  readonly through: number
  /** Changes up to there that have to be set aside, because an earlier one of their record is. */
  readonly held: ReadonlyArray<HandoffAside>
  /** Whether the next change can be neither sent nor set aside. */
  readonly isFull: boolean
  /** Of the batches after these, none that begins before this number has a stored boundary. */
  readonly repeatsFrom: number
  /** What was read after `through`. Undefined: nothing, or it must be read again. */
  readonly kept: KeptChanges | undefined
}

/** Changes that were read, and are in no batch yet. */
interface KeptChanges {
  readonly rows: ReadonlyArray<ChangeRow>
  /** Every change up to this number was read. Undefined: there may be more after the last one of these. */
  readonly wholeTo: number | undefined
  /** Whether only so few were read because they are large. */
  readonly isCut: boolean
  readonly readAt: number
}

/** Changes that were read longer ago are read again, so that their batches can be sent before they are too old. */
const keptMs = 100

/** The most changes that are read at a time. */
const readAtOnce = 1000

/** If the next changes are larger, only so many of them are read at a time: their texts are in memory. */
const large = { bytes: 4_000_000, count: 8 }

/** The batches whose changes are read at a time. */
const batchesAtOnce = 4

/** How many more changes are read than these batches probably have. */
const readMore = 8

interface Wanted
  extends Pick<ChangeRange, "last">, Pick<HandoffBatch, "generation" | "after">, Pick<Prepared, "kept" | "repeatsFrom">
{
  readonly mostChanges: Handoff["mostChanges"]
  /** The most batches to prepare, and the changes of the last accepted batch. */
  readonly count: number
  readonly previous: number | undefined
}

/** Prepares the next batches after a number. */
export const prepare = Effect.fnUntraced(function*(
  source: ChangeSource,
  { after, count, generation, kept, last, mostChanges, previous, repeatsFrom }: Wanted
): Effect.fn.Return<Prepared, SinkError> {
  if (after >= last) return { ready: [], through: after, held: [], isFull: false, repeatsFrom, kept: undefined }
  const { consumer, limits, maintenance, selection, shape } = source
  const changes = Math.min(limits.changes, mostChanges ?? limits.changes)
  const unsent = yield* readNext(source, { after, kept, last, changes, previous })
  const { rows: found, wholeTo } = unsent
  const { held, isFull, rows, sent } = source.asides.divide(
    found,
    found.filter((row) => isSent(shape, row)),
    generation
  )
  // If other lists or kinds were sent before, the query reads all their boundaries up to the first one of these.
  const isRepeated = (found.at(-1)?.seq ?? 0) >= repeatsFrom
  // A stored batch that begins before this has changes that are set aside now. It is not sent again.
  const from = (sent[0]?.seq ?? after + 1) - 1
  const stored = isRepeated
    ? yield* maintenance.handoffBatches(consumer, { generation, after: from, selection, count })
    : []
  const isWhole = wholeTo === last && !isFull
  const ready: Array<ReadyBatch> = []
  let [index, through] = [0, after]
  while (index < sent.length && ready.length < count) {
    const first = sent[index]
    if (first === undefined) break
    // Boundaries behind the last one that was read are not known yet.
    if (ready.length > 0 && stored.length === count && first.seq > (stored.at(-1)?.first ?? 0)) break
    const known = stored.find((one) => one.first === first.seq)
    const isKnown = known !== undefined && known.last <= last && known.changes <= (mostChanges ?? known.changes) &&
      // Changes that have to be set aside are only seen among those that were read.
      (source.asides.isEmpty || isWhole || known.last <= (rows.at(-1)?.seq ?? 0))
    // A batch ends before the next stored one, which may have been sent.
    const end = stored.find((one) => one.first > first.seq)?.first ?? Infinity
    const next = sent.slice(index, index + changes + 1).filter(({ seq }) => seq < end)
    const chosen = isKnown
      ? { batch: { ...known, after: through }, texts: undefined }
      : chooseBatch(shape, next, yield* startOf(source, first, { generation, after: through }), { ...limits, changes })
    if (chosen === undefined) break
    const { batch, texts } = chosen
    const isRead = batch.last < (rows.at(-1)?.seq ?? 0) || isWhole
    // More of its changes may follow.
    if (!isRead && ready.length > 0) break
    const ownEnd = sent.findIndex(({ seq }) => seq > batch.last)
    const own = sent.slice(index, ownEnd < 0 ? sent.length : ownEnd)
    const one = isRead || !isKnown
      ? readyOf(source, batch, { rows: own, readAt: unsent.readAt, texts })
      : yield* read(source, batch)
    ready.push(one)
    index += own.length
    through = batch.last
  }
  const hasMore = index < sent.length
  // All changes up to `last` had been committed before the rows were read.
  if (!hasMore) through = Math.max(through, rows.at(-1)?.seq ?? 0, isWhole ? last : 0)
  const next = stored.find(({ first }) => first > through)?.first ?? (stored.length < count ? Infinity : through + 1)
  return {
    ready,
    repeatsFrom: isRepeated ? next : repeatsFrom,
    through,
    isFull: isFull && !hasMore,
    kept: isFull ? undefined : { ...unsent, rows: found.filter(({ seq }) => seq > through) },
    held: yield* heldOf(source, held, { generation, through })
  }
})

/** Returns the next changes. Reads them, unless those that were kept are probably more than a batch. */
const readNext = Effect.fnUntraced(function*(
  { lists, maintenance, shape }: ChangeSource,
  { after, changes, kept, last, previous }: Pick<Wanted, "after" | "kept" | "last" | "previous"> & {
    /** The most changes of a batch. */
    readonly changes: number
  }
): Effect.fn.Return<KeptChanges, SinkError> {
  const readAt = yield* Monotonic.millis
  if (kept !== undefined && readAt - kept.readAt < keptMs) {
    const ofBatch = Math.max(previous ?? changes, readMore)
    const isEnough = kept.wholeTo === last || (kept.isCut && kept.rows.length > 0) ||
      kept.rows.filter((row) => isSent(shape, row)).length > ofBatch
    if (isEnough) return kept
  }
  // Batches are often limited by their size, and then more changes would be read in vain.
  const likely = previous === undefined ? changes : batchesAtOnce * previous
  const most = shape.kinds === undefined ? Math.min(readAtOnce, likely + readMore) : readAtOnce
  const rows = yield* maintenance.changes(after, most, lists, { large })
  const isCut = rows.length === large.count
  return { rows, wholeTo: rows.length < most && !isCut ? last : undefined, isCut, readAt }
})

/** The changes up to a number that have to be set aside. */
const heldOf = Effect.fnUntraced(function*(
  source: ChangeSource,
  held: ReadonlyArray<ChangeRow>,
  { generation, through }: Pick<Prepared, "through"> & Pick<HandoffBatch, "generation">
): Effect.fn.Return<ReadonlyArray<HandoffAside>, SinkError> {
  const asides = yield* Effect.forEach(held.filter(({ seq }) => seq <= through), (row) =>
    Effect.map(
      startOf(source, row, { generation, after: row.seq - 1 }),
      ({ nonce, scannedAt, selection, storedAt }): HandoffAside => ({
        generation,
        seq: row.seq,
        list: row.list,
        id: row.id,
        isRefused: false,
        ...untried,
        nonce,
        scannedAt,
        selection,
        storedAt
      })
    ))
  source.asides.count(asides)
  return asides
})

const startOf = Effect.fnUntraced(function*(
  { scannedAt, selection }: ChangeSource,
  { list }: ChangeRow,
  start: Pick<BatchStart, "generation" | "after">
): Effect.fn.Return<BatchStart, SinkError> {
  const storedAt = DateTime.formatIso(yield* DateTime.now)
  // Node draws the bytes of many of them at once.
  const nonce = yield* Effect.sync(() => randomUUID().replaceAll("-", ""))
  return { ...start, selection, nonce, storedAt, scannedAt: yield* scannedAt(list) }
})

const readyOf = (
  { shape }: ChangeSource,
  batch: HandoffBatch,
  { readAt, rows, texts }: {
    readonly rows: ReadonlyArray<ChangeRow>
    readonly readAt: number
    /** What is written for each row, if it is known. */
    readonly texts?: ReadonlyArray<string> | undefined
  }
): ReadyBatch => {
  const firstId = rows[0]?.id ?? ""
  if (rows.length === 0) return { batch, firstId, message: undefined, readAt }
  const body = bodyOf(shape, batch, rows, texts)
  return { batch, firstId, message: { id: messageId(batch, body), body }, readAt }
}

/** Reads the changes of a stored batch, without those that were set aside. */
export const read = Effect.fnUntraced(function*(
  source: ChangeSource,
  batch: HandoffBatch
): Effect.fn.Return<ReadyBatch, SinkError> {
  const lists = source.lists.filter(({ label }) => label === batch.list)
  const rows: Array<ChangeRow> = []
  const readAt = yield* Monotonic.millis
  for (let after = batch.first - 1; after < batch.last;) {
    const some = yield* source.maintenance.changes(after, Math.min(batch.last - after, readAtOnce), lists)
    rows.push(...some.filter((row) => isSent(source.shape, row) && !source.asides.isBlocked(row)))
    after = some.at(-1)?.seq ?? batch.last
  }
  return readyOf(source, batch, { rows, readAt })
})

/** Returns when the last complete scan of a list had begun, by the list's name. */
export type ScannedAt = (label: string) => Effect.Effect<string | undefined, SinkError>

/** Reads it once a second at most: it takes as long as all other questions for a batch. */
export const makeScannedAt = (
  { lists, maintenance }: Pick<ChangeSource, "lists" | "maintenance">
): ScannedAt => {
  const known = new Map<string, { readonly readAt: number; readonly scannedAt: string | undefined }>()
  return Effect.fnUntraced(function*(label) {
    const readAt = yield* Monotonic.millis
    const last = known.get(label)
    if (last !== undefined && readAt - last.readAt < 1000) return last.scannedAt
    const list = lists.find((one) => one.label === label)
    const scannedAt = list === undefined ? undefined : (yield* maintenance.state(list)).completeScan?.startedAt
    known.set(label, { readAt, scannedAt })
    return scannedAt
  })
}
