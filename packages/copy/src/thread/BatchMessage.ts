/**
 * A batch as a message between threads. Messages are copied: parallel arrays faster than objects. Large texts are not
 * copied at all.
 */
import type { Batch, Problem } from "../port/Sink.ts"

export interface BatchMessage extends Omit<Batch, "records"> {
  readonly ids: ReadonlyArray<string | undefined>
  readonly texts: ReadonlyArray<string> | PackedTexts
  /** The amounts of all records, one record after the other. */
  readonly amounts: Float64Array
  /** The problems of records, by the record's index. */
  readonly problems: ReadonlyArray<readonly [index: number, problem: Problem]>
}

/**
 * The concatenated texts of a large batch as UTF-8. The buffer is transferred: a copy would take several times its size
 * until the next garbage collection.
 */
export interface PackedTexts {
  readonly utf8: Uint8Array<ArrayBuffer>
  /** The length of each text in characters. */
  readonly lengths: ReadonlyArray<number>
}

/** Returns the buffers to transfer with a batch: those of a large one. Garbage should be collected after it. */
export const transferred = ({ texts }: BatchMessage): ReadonlyArray<ArrayBuffer> =>
  "utf8" in texts ? [texts.utf8.buffer] : []

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

export const fromBatch = ({ records, ...batch }: Batch): BatchMessage => {
  const columns = records[0]?.amounts.length ?? 0
  const amounts = new Float64Array(records.length * columns)
  let at = 0
  for (const record of records) for (const amount of record.amounts) amounts[at++] = amount
  return {
    ...batch,
    ids: records.map(({ id }) => id),
    texts: packed(records.map(({ text }) => text)),
    amounts,
    problems: records.flatMap(({ problem }, index) => problem === undefined ? [] : [[index, problem] as const])
  }
}

export const toBatch = ({ amounts, ids, problems: found, texts, ...batch }: BatchMessage): Batch => {
  const problems = new Map(found)
  const columns = ids.length === 0 ? 0 : amounts.length / ids.length
  const records = unpacked(texts).map((text, index) => {
    const own: Array<number> = []
    for (let at = index * columns; at < (index + 1) * columns; at++) own.push(amounts[at] ?? Number.NaN)
    return { id: ids[index], text, amounts: own, problem: problems.get(index) }
  })
  return { ...batch, records }
}
