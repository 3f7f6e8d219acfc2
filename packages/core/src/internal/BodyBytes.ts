/**
 * The bytes of a body or file as they come, copied into one buffer: a body in a million chunks takes the memory of its bytes,
 * and one whose length was announced takes it once.
 */

const smallestBuffer = 64 * 1024

/** Gathers chunks. */
export class BodyBytes {
  readonly #largest: number
  /** The first chunk, until a second one comes: a body of one chunk is not copied. */
  #first: Uint8Array | undefined
  #buffer = new Uint8Array(0)
  #size = 0

  /** No more than `largest` bytes are set aside for bytes that were announced. */
  constructor(largest: number) {
    this.#largest = largest
  }

  /** Bytes that were added. */
  get size(): number {
    return this.#size
  }

  /** `announced` is the length of the whole body, as far as it is known. */
  add(chunk: Uint8Array, announced = 0): void {
    const size = this.#size + chunk.length
    if (this.#size === 0) this.#first = chunk
    else {
      if (this.#first !== undefined || size > this.#buffer.length) this.#grow(size, announced)
      this.#buffer.set(chunk, this.#size)
    }
    this.#size = size
  }

  /** All of the bytes, which are no longer kept here. */
  take(): Uint8Array {
    const bytes = this.#first ?? this.#buffer.subarray(0, this.#size)
    this.drop()
    return bytes
  }

  /** Forgets the bytes. */
  drop(): void {
    this.#first = undefined
    this.#buffer = new Uint8Array(0)
    this.#size = 0
  }

  #grow(least: number, announced: number): void {
    const first = this.#first
    if (first === undefined) {
      // Transferring moves large buffers instead of copying them, where the platform can.
      this.#buffer = new Uint8Array(
        this.#buffer.buffer.transfer(Math.max(least, Math.floor(this.#buffer.length * 1.5)))
      )
      return
    }
    // Memory that is set aside and not written to takes no room yet.
    this.#buffer = new Uint8Array(Math.max(least, Math.min(announced, this.#largest), smallestBuffer))
    this.#buffer.set(first)
    this.#first = undefined
  }
}

/** The length that a `content-length` announces; 0 where there is none. */
export const announcedLength = (headers: Readonly<Record<string, string | undefined>>): number => {
  const length = Number(headers["content-length"])
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}
