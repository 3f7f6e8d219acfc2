/** The messages between a sink in a worker thread and its client. Messages are copied, so they cannot contain `Redacted`. */
import { Lists } from "@payments/core"
import { Redacted } from "effect"
import type { StoredDestination } from "../destination/DestinationUrl.ts"
import { type ErrorMessage } from "../port/ErrorMessage.ts"
import type { ListFreshness, Overview } from "../port/ListFreshness.ts"
import {
  type Batch,
  type Owner,
  type OwnerClaim,
  type PassKind,
  type PersonalState,
  type Problem,
  type ScanPreview,
  type ScanProgress,
  type ScanRequest,
  type Session
} from "../port/Sink.ts"

/** The parameters of each type of request. */
export interface SinkRequests {
  /** Opens a sink, whose number is the number of this request. */
  readonly open: { readonly destination: DestinationMessage }
  readonly lock: { readonly sink: number; readonly list: Lists.ListName; readonly onLocked: "refuse" | "wait" }
  readonly preview: { readonly sink: number; readonly list: Lists.ListName; readonly request: ScanRequest }
  readonly owner: { readonly sink: number }
  readonly personal: { readonly sink: number }
  readonly hasAny: { readonly sink: number; readonly list: Lists.ListName; readonly ids: ReadonlyArray<string> }
  readonly freshness: {
    readonly sink: number
    readonly lists: ReadonlyArray<Lists.ListName>
    readonly source: string | undefined
  }
  readonly overview: { readonly sink: number; readonly list: Lists.ListName }
  readonly begin: { readonly sink: number; readonly list: Lists.ListName; readonly request: ScanRequest }
  readonly beginPass: {
    readonly sink: number
    readonly list: Lists.ListName
    readonly kind: PassKind
    readonly request: ScanRequest
  }
  readonly isQuiet: { readonly session: number }
  readonly endPass: { readonly session: number }
  readonly headProblem: { readonly sink: number; readonly list: Lists.ListName }
  readonly stopHead: { readonly sink: number; readonly list: Lists.ListName; readonly problem: string }
  readonly resumeHead: { readonly sink: number; readonly list: Lists.ListName }
  readonly publish: { readonly sink: number; readonly list: Lists.ListName }
  readonly commit: { readonly session: number; readonly batch: BatchMessage }
  readonly restart: { readonly session: number }
  readonly giveUp: { readonly session: number }
  /** Closes the sink, the lock or the session that an earlier request opened. */
  readonly close: { readonly opened: number }
}

/** The result of each type of request. */
export interface SinkResponses {
  /** The location of the destination, for messages. */
  readonly open: string
  readonly lock: void
  readonly preview: ScanPreview
  readonly owner: Owner
  readonly personal: PersonalState
  readonly hasAny: boolean
  readonly freshness: ReadonlyArray<ListFreshness>
  readonly overview: Overview
  /** The number of the session is the number of the request. */
  readonly begin: Pick<Session, "scan" | "start" | "resumeAt"> & { readonly progress: ScanProgress }
  readonly beginPass: { readonly isLoaded: boolean; readonly progress: ScanProgress }
  readonly isQuiet: boolean
  readonly endPass: void
  readonly headProblem: string | undefined
  readonly stopHead: void
  readonly resumeHead: void
  readonly publish: void
  readonly commit: ScanProgress
  readonly restart: ScanProgress
  readonly giveUp: void
  readonly close: void
}

/** A message to the thread: a request, or the cancellation of an earlier request with the same number. */
export type SinkRequest =
  | {
    [Type in keyof SinkRequests]: {
      readonly id: number
      readonly type: Type
      readonly parameters: SinkRequests[Type]
    }
  }[keyof SinkRequests]
  | { readonly id: number; readonly type: "cancel" }

/** A message from the thread: the response to the request with the same number. */
export type SinkResponse =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: ErrorMessage }
  | { readonly id: number; readonly defect: string }

/** A batch. Its records are in parallel arrays, which are copied faster than objects. */
export interface BatchMessage {
  readonly pages: number
  readonly ids: ReadonlyArray<string | undefined>
  readonly texts: ReadonlyArray<string> | PackedTexts
  /** The amounts of all records, one record after the other. */
  readonly amounts: Float64Array
  /** The problems of records, by the record's index. */
  readonly problems: ReadonlyArray<readonly [index: number, problem: Problem]>
  readonly undocumented: Batch["undocumented"]
  readonly checkpoint: string | null
  readonly owner: OwnerClaim | undefined
}

/**
 * The concatenated texts of a large batch as UTF-8. The buffer is transferred: a copy would take several times its size until
 * the next garbage collection.
 */
export interface PackedTexts {
  readonly utf8: Uint8Array<ArrayBuffer>
  /** The length of each text in characters. */
  readonly lengths: ReadonlyArray<number>
}

/** Returns the buffers to transfer with a batch. */
export const transferred = ({ texts }: BatchMessage): ReadonlyArray<ArrayBuffer> =>
  "utf8" in texts ? [texts.utf8.buffer] : []

/** Whether the batch is so large that garbage should be collected after it. */
export const isLarge = ({ texts }: BatchMessage): boolean => "utf8" in texts

/** The length of a large batch in characters: four times the batch of an ordinary service. */
const largeBatch = 4 * 1024 * 1024

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const packed = (texts: ReadonlyArray<string>): BatchMessage["texts"] => {
  // UTF-8 cannot encode lone surrogates.
  if (texts.reduce((sum, { length }) => sum + length, 0) < largeBatch || !texts.every((text) => text.isWellFormed())) {
    return texts
  }
  const utf8 = new Uint8Array(texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0))
  let at = 0
  for (const text of texts) at += encoder.encodeInto(text, utf8.subarray(at)).written
  return { utf8, lengths: texts.map(({ length }) => length) }
}

const unpacked = (texts: BatchMessage["texts"]): ReadonlyArray<string> => {
  if (!("utf8" in texts)) return texts
  const all = decoder.decode(texts.utf8)
  // Detaching the buffer frees its memory at once.
  texts.utf8.buffer.transfer(0)
  let at = 0
  return texts.lengths.map((length) => all.slice(at, at += length))
}

/** Encodes a batch as a message. */
export const fromBatch = ({ checkpoint, owner, pages, records, undocumented }: Batch): BatchMessage => {
  const columns = records[0]?.amounts.length ?? 0
  const amounts = new Float64Array(records.length * columns)
  let at = 0
  for (const record of records) for (const amount of record.amounts) amounts[at++] = amount
  return {
    pages,
    ids: records.map(({ id }) => id),
    texts: packed(records.map(({ text }) => text)),
    amounts,
    problems: records.flatMap(({ problem }, index) => problem === undefined ? [] : [[index, problem] as const]),
    undocumented,
    checkpoint,
    owner
  }
}

/** Decodes a batch. */
export const toBatch = (message: BatchMessage): Batch => {
  const { amounts, checkpoint, ids, owner, pages, undocumented } = message
  const problems = new Map(message.problems)
  const columns = ids.length === 0 ? 0 : amounts.length / ids.length
  const records = unpacked(message.texts).map((text, index) => {
    const own: Array<number> = []
    for (let at = index * columns; at < (index + 1) * columns; at++) own.push(amounts[at] ?? Number.NaN)
    return { id: ids[index], text, amounts: own, problem: problems.get(index) }
  })
  return { pages, records, undocumented, checkpoint, owner }
}

/** A destination with its password as plain text, which can be copied. */
export type DestinationMessage =
  | Exclude<StoredDestination, { readonly _tag: "Postgres" }>
  | (Omit<Postgres, "url"> & { readonly url: Omit<Postgres["url"], "password">; readonly password: string | undefined })
type Postgres = Extract<StoredDestination, { readonly _tag: "Postgres" }>

/** Encodes a destination as a message. */
export const fromDestination = (destination: StoredDestination): DestinationMessage => {
  if (destination._tag !== "Postgres") return destination
  const { password, ...url } = destination.url
  return { ...destination, url, password: password === undefined ? undefined : Redacted.value(password) }
}

/** Decodes a destination. */
export const toDestination = (message: DestinationMessage): StoredDestination => {
  if (message._tag !== "Postgres") return message
  const { password, url, ...destination } = message
  return { ...destination, url: { ...url, password: password === undefined ? undefined : Redacted.make(password) } }
}

/** Returns the list with that name. */
export const listOf = (name: Lists.ListName): Lists.AnyList => Lists.byName[name]
