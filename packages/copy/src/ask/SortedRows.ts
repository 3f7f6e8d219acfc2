/** Reads rows that are sorted by id in chunks, and joins two such sequences in bounded memory. */
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"

/** A sequence of rows, sorted by the bytes of their ids. */
export class SortedRows<A extends { readonly id: string }> {
  readonly #read: (after: string | undefined) => Effect.Effect<ReadonlyArray<A>, SinkError>
  #chunk: ReadonlyArray<A> = []
  #next = 0
  #last: string | undefined
  #isEnd = false

  /** `read` returns the next rows after an id, and none only at the end. */
  constructor(read: (after: string | undefined) => Effect.Effect<ReadonlyArray<A>, SinkError>) {
    this.#read = read
  }

  /** Whether {@link current} is known without {@link load}. */
  get isLoaded(): boolean {
    return this.#next < this.#chunk.length || this.#isEnd
  }

  /** The next row; undefined at the end, and before {@link load}. */
  get current(): A | undefined {
    return this.#chunk[this.#next]
  }

  /** Reads the next chunk if no row is left of the last one. */
  get load(): Effect.Effect<void, SinkError> {
    if (this.isLoaded) return Effect.void
    return Effect.map(this.#read(this.#last), (rows) => {
      this.#chunk = rows
      this.#next = 0
      this.#last = rows.at(-1)?.id ?? this.#last
      this.#isEnd = rows.length === 0
    })
  }

  advance(): void {
    this.#next++
  }

  /** Returns the loaded rows and goes behind them. */
  takeChunk(): ReadonlyArray<A> {
    const rows = this.#chunk.slice(this.#next)
    this.#next = this.#chunk.length
    return rows
  }
}

/**
 * Joins the loaded rows of two sequences by id, and calls `use` for each id. Returns true at the end of both, and false
 * if one of them has to be loaded first.
 */
export const advanceBoth = <A extends { readonly id: string }, B extends { readonly id: string }>(
  left: SortedRows<A>,
  right: SortedRows<B>,
  use: (left: A | undefined, right: B | undefined) => void
): boolean => {
  while (left.isLoaded && right.isLoaded) {
    const a = left.current
    const b = right.current
    if (a === undefined && b === undefined) return true
    const order = a === undefined ? 1 : b === undefined ? -1 : compareBytes(a.id, b.id)
    if (order <= 0) left.advance()
    if (order >= 0) right.advance()
    use(order <= 0 ? a : undefined, order >= 0 ? b : undefined)
  }
  return false
}

/**
 * Compares two texts as databases compare the bytes of their UTF-8 form. JavaScript compares UTF-16 units, which puts
 * the surrogates of characters beyond U+FFFF before U+E000 to U+FFFF.
 */
export const compareBytes = (left: string, right: string): number => {
  if (left === right) return 0
  const length = Math.min(left.length, right.length)
  for (let at = 0; at < length; at++) {
    const [a, b] = [left.charCodeAt(at), right.charCodeAt(at)]
    if (a !== b) return rankOf(a) - rankOf(b)
  }
  return left.length - right.length
}

/** Moves surrogates (U+D800 to U+DFFF) behind all other units. */
const rankOf = (unit: number): number => unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit
