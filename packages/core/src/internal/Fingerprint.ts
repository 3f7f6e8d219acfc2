/**
 * What is remembered of a cursor or a page: enough to know it again, nothing to read it by. 64 bits: among a million, two
 * that are not the same look the same with a chance below one in ten million.
 */
export const fingerprint = (text: string): string => {
  let left = 0x9e3779b9
  let right = 0x7f4a7c15
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    left = Math.imul(left ^ code, 0x85ebca6b)
    left ^= left >>> 15
    right = Math.imul(right ^ code, 0xc2b2ae35)
    right ^= right >>> 13
  }
  left = Math.imul(left ^ (right >>> 16), 0x27d4eb2f) ^ text.length
  right = Math.imul(right ^ (left >>> 16), 0x165667b1)
  return String.fromCharCode(left >>> 16, left & 0xffff, right >>> 16, right & 0xffff)
}
