/**
 * Chooses the changes of a batch, and writes what is sent. The bytes depend only on the stored boundary, the settings of
 * the consumer and the stored texts, so each attempt sends the same bytes with the same id. An erasure changes stored
 * texts, because what is erased must not be sent again. The id is made from the bytes too, so it then is another one: the
 * same id always means the same bytes.
 *
 * Records are embedded as their exact texts. A receiver has to parse integers beyond 2^53 exactly.
 */
import { Lists } from "@payments/core"
import { createHmac } from "node:crypto"
import { type TextAfter, textAfter } from "../personal/Redaction.ts"
import { erasureRule } from "../rule/Rule.ts"
import type { HandoffBatch } from "../store/HandoffStore.ts"
import type { ChangeRow } from "../store/Store.ts"

/** What of the changes is sent to a consumer. */
export interface Shape {
  /** The name of the source in the settings. */
  readonly source: string
  /** Whether only the number, kind and id of each change are sent. */
  readonly isThin: boolean
  /** The kinds of changes to send. Undefined: all. */
  readonly kinds?: ReadonlySet<ChangeRow["kind"]> | undefined
}

/** The limits of a batch. A batch has at least one change, however large it is. */
export interface BatchLimits {
  readonly changes: number
  /** The size of the whole body. */
  readonly bytes: number
}

/** 100 changes and 20 kB: the specification recommends smaller bodies than 20 kB ("Payload size"). */
export const batchLimits: BatchLimits = { changes: 100, bytes: 20_000 }

/** The version of the body. A test compares it with the schema. */
export const bodyVersion = 1

const erasures: ReadonlyMap<string, TextAfter> = new Map(
  Lists.all.map((list) => [list.label, textAfter(list, erasureRule)])
)

/**
 * Whether a redaction (scan 0) wrote the change, and its text has nothing left that an erasure removes. After an erasure
 * that is so. After a rewrite it is so where the rule keeps no personal data, and then the consumer must not keep it either.
 */
export const isErasure = ({ after, id, kind, list, scan }: ChangeRow): boolean =>
  scan === 0 && kind !== "missing" && after !== undefined && erasures.get(list)?.(after, id) === after

/** Whether a change is sent. Erasures always are: a consumer that got a record has to erase it. */
export const isSent = ({ kinds }: Shape, row: ChangeRow): boolean =>
  kinds === undefined || kinds.has(row.kind) || isErasure(row)

/** The lists and kinds of changes that are sent, as a stored batch names them. */
export const selectionOf = ({ kinds }: Shape, lists: ReadonlyArray<Pick<Lists.AnyList, "label">>): string =>
  [lists.map(({ label }) => label), ...kinds === undefined ? [] : [[...kinds]]]
    .map((names) => names.toSorted().join(",")).join(" ")

const changeText = ({ isThin }: Shape, row: ChangeRow): string => {
  const start = `{"seq":${row.seq}`
  const isErased = isErasure(row)
  const name = `"change":${JSON.stringify(isErased ? "erased" : row.kind)},"id":${JSON.stringify(row.id)}`
  return isThin || isErased
    ? `${start},${name}}`
    : `${start},"at":${JSON.stringify(row.at)},${name},"fields":${JSON.stringify(row.fields)},"before":${
      row.before ?? "null"
    },"after":${row.after ?? "null"}}`
}

/** The members around the changes. The two names `type` and `timestamp` are those of the specification. */
const envelope = ({ source }: Shape, batch: Omit<HandoffBatch, "after" | "changes" | "selection" | "nonce">) => ({
  start: `{"type":"payments.changes","timestamp":${JSON.stringify(batch.storedAt)},"source":${
    JSON.stringify(source)
  },"list":${JSON.stringify(batch.list)},"generation":${
    JSON.stringify(batch.generation)
  },"first":${batch.first},"last":${batch.last},"copy":${copyText(batch)},"changes":[`,
  end: `],"schemaVersion":${bodyVersion}}`
})

/** The age of the copy is that of the batch's boundary, which is the same in each attempt. */
const copyText = ({ scannedAt, storedAt }: Pick<HandoffBatch, "scannedAt" | "storedAt">): string => {
  if (scannedAt === undefined) return `{"scannedAt":null,"ageSeconds":null}`
  const seconds = Math.max(0, Math.floor((Date.parse(storedAt) - Date.parse(scannedAt)) / 1000))
  return `{"scannedAt":${JSON.stringify(scannedAt)},"ageSeconds":${seconds}}`
}

/** Writes the body of a batch from its changes. `texts`: what is written for each of them. */
export const bodyOf = (
  shape: Shape,
  batch: HandoffBatch,
  rows: ReadonlyArray<ChangeRow>,
  texts: ReadonlyArray<string> = rows.map((row) => changeText(shape, row))
): Uint8Array => {
  const { end, start } = envelope(shape, batch)
  return Buffer.from(`${start}${texts.join(",")}${end}`)
}

/** Returns the id of a webhook. The nonce keeps an id in a receiver's log from being compared with guessed bodies. */
export const messageId = ({ nonce }: Pick<HandoffBatch, "nonce">, body: Uint8Array): string =>
  `msg_${createHmac("sha256", nonce).update(body).digest("base64url").slice(0, 32)}`

/** What is the same for the next batch whatever its size. */
export type BatchStart = Pick<HandoffBatch, "generation" | "after" | "selection" | "nonce" | "storedAt" | "scannedAt">

/**
 * Chooses the next batch from the changes after a position, in their order: as many of one list as the limits allow. Returns
 * it with what is written for each of its changes, or undefined if none of them is sent.
 */
export const chooseBatch = (
  shape: Shape,
  rows: ReadonlyArray<ChangeRow>,
  start: BatchStart,
  limits: BatchLimits
): { readonly batch: HandoffBatch; readonly texts: ReadonlyArray<string> } | undefined => {
  const sent = rows.filter((row) => isSent(shape, row))
  const [first] = sent
  if (first === undefined) return undefined
  const batch = { ...start, first: first.seq, list: first.list }
  // No number of a batch is longer than the last one of all.
  const around = envelope(shape, { ...batch, last: sent.at(-1)?.seq ?? first.seq })
  let [bytes, last] = [Buffer.byteLength(around.start + around.end), first.seq]
  const texts: Array<string> = []
  for (const row of sent) {
    if (row.list !== first.list || texts.length === limits.changes) break
    const text = changeText(shape, row)
    bytes += Buffer.byteLength(text) + (texts.length === 0 ? 0 : 1)
    if (texts.length > 0 && bytes > limits.bytes) break
    texts.push(text)
    last = row.seq
  }
  return { batch: { ...batch, last, changes: texts.length }, texts }
}
