/**
 * What is remembered of a cursor: 128 bits to know it again by, nothing to read it by. They are drawn with a key of their
 * own for every listing, so that no server can choose two cursors that look the same; by chance two of a million do in one
 * of 10^26 listings. It takes a fraction of a microsecond, where a digest of the platform is a round trip to another thread.
 */

/** Marks cursors of one listing. */
export const cursorMarks = (): (cursor: string) => string => {
  const [k0 = 0, k1 = 0, k2 = 0, k3 = 0] = crypto.getRandomValues(new Int32Array(4))
  return (cursor) => {
    let a = k0, b = k1, c = k2, d = k3
    for (let at = 0; at < cursor.length; at++) {
      const unit = cursor.charCodeAt(at)
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
    return String.fromCharCode(...[a, b, c, d, cursor.length].flatMap((part) => [part & 0xffff, part >>> 16]))
  }
}
