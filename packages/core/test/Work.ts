/** Counts the characters that a function reads, so that tests can compare work instead of time. */

/** Returns how many characters string methods read or copied while `run` ran. Regular expressions do not count. */
export const workOf = (run: () => unknown): number => {
  const original = Object.getOwnPropertyDescriptors(String.prototype)
  const [charCodeAt, indexOf, slice] = [original.charCodeAt.value, original.indexOf.value, original.slice.value]
  let work = 0
  const replacements = {
    charCodeAt(this: string, index: number) {
      work++
      return charCodeAt?.call(this, index)
    },
    indexOf(this: string, searched: string, from = 0) {
      const found = indexOf?.call(this, searched, from) ?? -1
      work += (found === -1 ? this.length : found) - from + 1
      return found
    },
    slice(this: string, from?: number, to?: number) {
      const part = slice?.call(this, from, to) ?? ""
      work += part.length
      return part
    }
  }
  // String methods can only be counted on the prototype. Nothing else runs at the same time.
  // oxlint-disable-next-line no-extend-native
  for (const [name, value] of Object.entries(replacements)) Object.defineProperty(String.prototype, name, { value })
  try {
    run()
  } finally {
    // oxlint-disable-next-line no-extend-native
    Object.defineProperties(String.prototype, original)
  }
  return work
}
