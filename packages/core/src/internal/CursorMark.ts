/**
 * What is remembered of a cursor: 128 bits to know it again by, nothing to read it by. They are drawn with a key of their
 * own for every listing, so that no server can choose two cursors that look the same; by chance two of a million do in one
 * of 10^26 listings. It takes a fraction of a microsecond, where a digest of the platform is a round trip to another thread.
 */

/** The marks of one listing. */
export interface Marks {
  readonly markCursor: (cursor: string) => string
  /** Of the ids of a page, in whatever order they come. */
  readonly markRecords: (ids: ReadonlyArray<string>) => string
}

/** Marks the cursors and pages of one listing. */
export const cursorMarks = (): Marks => {
  const keys = crypto.getRandomValues(new Int32Array(4))
  const mark = (text: string): Lanes => {
    let [a = 0, b = 0, c = 0, d = 0] = keys
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      a = Math.imul(a ^ unit, 0x9e3779b1)
      b = Math.imul(b ^ unit, 0x85ebca77)
      c = Math.imul(c ^ unit, 0xc2b2ae3d)
      d = Math.imul(d ^ unit, 0x27d4eb2f)
      // Each part stirs the next one, so that none is a hash of its own.
      a ^= d >>> 15
      b ^= a >>> 13
      c ^= b >>> 16
      d ^= c >>> 14
    }
    return [a, b, c, d]
  }
  return {
    markCursor: (cursor) => textOf([...mark(cursor), cursor.length]),
    markRecords: (ids) => {
      let [a, b, c, d] = [0, 0, 0, 0]
      for (const id of ids) {
        const lanes = mark(id)
        a = (a + lanes[0]) | 0
        b = (b + lanes[1]) | 0
        c = (c + lanes[2]) | 0
        d = (d + lanes[3]) | 0
      }
      return textOf([a, b, c, d, ids.length])
    }
  }
}

type Lanes = readonly [number, number, number, number]

const textOf = (lanes: ReadonlyArray<number>): string =>
  String.fromCharCode(...lanes.flatMap((part) => [part & 0xffff, part >>> 16]))
