/** A set of row numbers, in pieces that are stored separately. The set of a million rows has 122 pieces of 1 KiB. */

const pieceRows = 8192
const pieceBytes = pieceRows / 8

export const pieceOf = (row: number): number => Math.floor(row / pieceRows)

/** A piece has a bit for each row from `index × 8192` on, starting with the lowest bit of the first byte. */
export interface Piece {
  readonly index: number
  readonly bits: Uint8Array
}

/** A set of row numbers from 0 on. If several pieces have the same index, the set has the rows of all of them. */
export class RowSet {
  readonly #pieces = new Map<number, Uint8Array>()
  readonly #changed = new Set<number>()
  /** The rows that were added since {@link mark}. */
  #added: Array<number> = []
  #size = 0

  constructor(pieces: Iterable<Piece> = []) {
    for (const { bits, index } of pieces) {
      const piece = this.#pieces.get(index) ?? new Uint8Array(pieceBytes)
      for (let byte = 0; byte < pieceBytes; byte++) piece[byte] = (piece[byte] ?? 0) | (bits[byte] ?? 0)
      this.#pieces.set(index, piece)
    }
    for (const piece of this.#pieces.values()) for (const byte of piece) this.#size += ones(byte)
  }

  get size(): number {
    return this.#size
  }

  /** -1 if the set is empty. */
  get highest(): number {
    for (const index of [...this.#pieces.keys()].toSorted((left, right) => right - left)) {
      const byte = this.#pieces.get(index)?.findLastIndex((bits) => bits !== 0) ?? -1
      if (byte >= 0) return index * pieceRows + byte * 8 + 31 - Math.clz32(this.#pieces.get(index)?.[byte] ?? 0)
    }
    return -1
  }

  has(row: number): boolean {
    const piece = this.#pieces.get(pieceOf(row))
    return piece !== undefined && ((piece[(row % pieceRows) >> 3] ?? 0) & (1 << (row & 7))) !== 0
  }

  /** Returns whether the set did not have the row. */
  add(row: number): boolean {
    const index = pieceOf(row)
    let piece = this.#pieces.get(index)
    if (piece === undefined) this.#pieces.set(index, piece = new Uint8Array(pieceBytes))
    const byte = (row % pieceRows) >> 3
    const bits = piece[byte] ?? 0
    const bit = 1 << (row & 7)
    if ((bits & bit) !== 0) return false
    piece[byte] = bits | bit
    this.#size++
    this.#changed.add(index)
    this.#added.push(row)
    return true
  }

  /** Sets the state to which {@link undo} returns. */
  mark(): void {
    this.#added = []
  }

  /** Removes the rows that were added since the last {@link mark}. */
  undo(): void {
    for (const row of this.#added) {
      const piece = this.#pieces.get(pieceOf(row))
      const byte = (row % pieceRows) >> 3
      if (piece !== undefined) piece[byte] = (piece[byte] ?? 0) & ~(1 << (row & 7))
      this.#size--
    }
    this.#added = []
  }

  intersects(other: RowSet): boolean {
    for (const [index, piece] of this.#pieces) {
      const otherPiece = other.#pieces.get(index)
      if (otherPiece !== undefined && piece.some((byte, at) => (byte & (otherPiece[at] ?? 0)) !== 0)) return true
    }
    return false
  }

  clear(): void {
    this.#pieces.clear()
    this.#changed.clear()
    this.#added = []
    this.#size = 0
  }

  /** Returns the pieces that have changed since {@link markStored}. */
  changed(): ReadonlyArray<Piece> {
    return [...this.#changed].map((index) => ({ index, bits: this.#pieces.get(index) ?? new Uint8Array(pieceBytes) }))
  }

  /** Marks all pieces as stored, so that {@link changed} returns none of them again until it changes. */
  markStored(): void {
    this.#changed.clear()
  }

  /** Yields the rows below `end` that none of these sets has, in order. */
  static *inNone(sets: ReadonlyArray<RowSet>, end: number): Generator<number> {
    for (let index = 0; index * pieceRows < end; index++) {
      const pieces = sets.map((set) => set.#pieces.get(index)).filter((piece) => piece !== undefined)
      for (let byte = 0; byte < pieceBytes; byte++) {
        let union = 0
        for (const piece of pieces) union |= piece[byte] ?? 0
        if (union === 0xff) continue
        for (let bit = 0; bit < 8; bit++) {
          const row = index * pieceRows + byte * 8 + bit
          if ((union & (1 << bit)) === 0 && row < end) yield row
        }
      }
    }
  }
}

const ones = (byte: number): number => {
  let count = 0
  for (let rest = byte; rest !== 0; rest &= rest - 1) count++
  return count
}
