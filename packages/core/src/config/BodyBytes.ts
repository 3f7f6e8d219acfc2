/**
 * Collects the chunks of a body or file in one buffer, so that the memory depends on the number of bytes, not of
 * chunks. If the length is announced, the buffer is allocated once.
 */

const smallestBuffer = 64 * 1024

export class BodyBytes {
  readonly #largest: number
  /** The first chunk, until the second one arrives. A body of one chunk is not copied. */
  #first: Uint8Array | undefined
  #buffer = new Uint8Array(0)
  #size = 0

  /** `largest` is the most bytes that are allocated for an announced length before they arrive. */
  constructor(largest: number) {
    this.#largest = largest
  }

  /** The number of bytes that were added. */
  get size(): number {
    return this.#size
  }

  /** Adds a chunk. `announced` is the length of the whole body according to its header, or 0 if there is none. */
  add(chunk: Uint8Array, announced = 0): void {
    const size = this.#size + chunk.length
    if (this.#size === 0) this.#first = chunk
    else {
      if (this.#first !== undefined || size > this.#buffer.length) this.#grow(size, announced)
      this.#buffer.set(chunk, this.#size)
    }
    this.#size = size
  }

  /** Returns all bytes and releases them. */
  finish(): Uint8Array {
    const bytes = this.#first ?? this.#buffer.subarray(0, this.#size)
    this.drop()
    return bytes
  }

  drop(): void {
    this.#first = undefined
    this.#buffer = new Uint8Array(0)
    this.#size = 0
  }

  #grow(least: number, announced: number): void {
    const first = this.#first
    if (first === undefined) {
      // `transfer` moves a large buffer without copying it, if the platform supports that.
      this.#buffer = new Uint8Array(
        this.#buffer.buffer.transfer(Math.max(least, Math.floor(this.#buffer.length * 1.5)))
      )
      return
    }
    // The operating system provides a page of memory at the first write to it, so an unused rest costs nothing.
    this.#buffer = new Uint8Array(Math.max(least, Math.min(announced, this.#largest), smallestBuffer))
    this.#buffer.set(first)
    this.#first = undefined
  }
}

/** Returns the length in `content-length`, or 0 if there is none. */
export const announcedLength = (headers: Readonly<Record<string, string | undefined>>): number => {
  const length = Number(headers["content-length"])
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}
