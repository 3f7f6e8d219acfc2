/**
 * The records that `--sort` and `--query` keep until the listing ends. They are kept as UTF-8 outside of the JavaScript heap,
 * and their size is limited.
 */
import { fieldReader } from "../output/PrintedRecord.ts"
import { detached, type SortKey, sortOrder, type SortValue, sortValues } from "./SortKeys.ts"

/** The memory of a record besides its texts, in bytes. */
const overhead = 400

interface Collected {
  readonly bytes: Buffer
  readonly sortValues: ReadonlyArray<SortValue>
}

/** The records of a listing, in the order of the sort keys, or without keys in the order of the list. */
export class CollectedRecords {
  readonly #keys: ReadonlyArray<SortKey>
  readonly #mostBytes: number
  readonly #records: Array<Collected> = []
  readonly #identities = new Set<string>()
  #bytes = 0

  constructor(keys: ReadonlyArray<SortKey>, mostBytes: number) {
    this.#keys = keys
    this.#mostBytes = mostBytes
  }

  /** Whether the limit is reached: no more records should be read. */
  get isFull(): boolean {
    return this.#bytes >= this.#mostBytes
  }

  get count(): number {
    return this.#records.length
  }

  /** How many records are one of an earlier page again: the service returned them more than once. */
  get repeated(): number {
    return this.#records.length - this.#identities.size
  }

  /** Adds a record. Records with the same `key` are one record that was returned again. */
  add({ key, text }: { readonly key: string; readonly text: string }): void {
    this.#identities.add(detached(key))
    const bytes = Buffer.from(text)
    const values = this.#keys.length === 0 ? [] : sortValues(this.#keys, fieldReader(text))
    this.#records.push({ bytes, sortValues: values })
    this.#bytes += values.reduce(
      (size, value) => size + 2 * value.text.length,
      bytes.length + 2 * key.length + overhead
    )
  }

  /** Returns the exact texts in their order. The sort is stable. */
  *texts(): Generator<string> {
    const order = sortOrder(this.#keys)
    if (this.#keys.length > 0) this.#records.sort((one, other) => order(one.sortValues, other.sortValues))
    for (const { bytes } of this.#records) yield bytes.toString()
  }
}
