/** Counts the characters that a function reads, so that tests can compare counts instead of times. */

/**
 * Returns how many characters `charCodeAt`, `indexOf` and `slice` read or copied while `run` ran. Characters that other
 * methods and regular expressions read are not counted.
 */
export const charactersRead = (run: () => unknown): number => {
  const original = Object.getOwnPropertyDescriptors(String.prototype)
  const [charCodeAt, indexOf, slice] = [original.charCodeAt.value, original.indexOf.value, original.slice.value]
  let count = 0
  const replacements = {
    charCodeAt(this: string, index: number) {
      count++
      return charCodeAt?.call(this, index)
    },
    indexOf(this: string, searched: string, from = 0) {
      const found = indexOf?.call(this, searched, from) ?? -1
      count += (found === -1 ? this.length : found) - from + 1
      return found
    },
    slice(this: string, from?: number, to?: number) {
      const part = slice?.call(this, from, to) ?? ""
      count += part.length
      return part
    }
  }
  // Literals use the methods of the prototype, so the prototype must be changed. `run` is synchronous, so no other code
  // runs until the methods are restored.
  // oxlint-disable-next-line no-extend-native
  for (const [name, value] of Object.entries(replacements)) Object.defineProperty(String.prototype, name, { value })
  try {
    run()
  } finally {
    // oxlint-disable-next-line no-extend-native
    Object.defineProperties(String.prototype, original)
  }
  return count
}
