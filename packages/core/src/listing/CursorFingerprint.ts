/**
 * Fingerprints of cursors and pages: 128 bits that identify a cursor and from which the cursor cannot be read. Each
 * listing has its own random key, so that no server can choose two cursors with the same fingerprint. Among a million
 * cursors, two have the same fingerprint by chance in one of 10^26 listings. A fingerprint takes a fraction of a
 * microsecond; `crypto.subtle.digest` would take a round trip to another thread.
 */

export interface Fingerprints {
  readonly fingerprintCursor: (cursor: string) => string
  /** Returns the fingerprint of a page's ids. It does not depend on their order. */
  readonly fingerprintIds: (ids: ReadonlyArray<string>) => string
}

/** Creates the fingerprints of one listing, with a key of their own. */
export const makeFingerprints = (): Fingerprints => {
  let keys: Int32Array | undefined
  const hash = (text: string): Lanes => {
    // Not before the first request: Node takes 3 ms to load its Web Crypto.
    keys ??= crypto.getRandomValues(new Int32Array(4))
    let [a = 0, b = 0, c = 0, d = 0] = keys
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      a = Math.imul(a ^ unit, 0x9e3779b1)
      b = Math.imul(b ^ unit, 0x85ebca77)
      c = Math.imul(c ^ unit, 0xc2b2ae3d)
      d = Math.imul(d ^ unit, 0x27d4eb2f)
      // Mix the lanes. Without this, each lane would be an independent 32-bit hash.
      a ^= d >>> 15
      b ^= a >>> 13
      c ^= b >>> 16
      d ^= c >>> 14
    }
    return [a, b, c, d]
  }
  return {
    fingerprintCursor: (cursor) => toText([...hash(cursor), cursor.length]),
    fingerprintIds: (ids) => {
      // Addition makes the result independent of the order.
      let [a, b, c, d] = [0, 0, 0, 0]
      for (const id of ids) {
        const lanes = hash(id)
        a = (a + lanes[0]) | 0
        b = (b + lanes[1]) | 0
        c = (c + lanes[2]) | 0
        d = (d + lanes[3]) | 0
      }
      return toText([a, b, c, d, ids.length])
    }
  }
}

/** Four 32-bit hashes. */
type Lanes = readonly [number, number, number, number]

const toText = (numbers: ReadonlyArray<number>): string =>
  String.fromCharCode(...numbers.flatMap((number) => [number & 0xffff, number >>> 16]))
