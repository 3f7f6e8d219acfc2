/** Suggestions for a mistyped name. */
import { distance } from "fastest-levenshtein"

const mostEdits = 2

/** The fewest letters of a beginning that suggests a name. */
const fewestLetters = 3

/**
 * Returns the names that a mistyped one probably means: those with the fewest edits, or those that share its beginning. Returns
 * none if no name is near.
 */
export const nearest = (typed: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const text = typed.toLowerCase()
  const edits = names.map((name) => ({ name, edits: distance(text, name.toLowerCase()) }))
  const fewest = Math.min(...edits.map((one) => one.edits))
  if (fewest <= Math.min(mostEdits, text.length - 1)) {
    return edits.filter((one) => one.edits === fewest).map(({ name }) => name)
  }
  const beginning = text.replace(/s$/, "")
  return beginning.length < fewestLetters ? [] : names.filter((name) => {
    const other = name.toLowerCase()
    return other.startsWith(beginning) || (other.length >= fewestLetters && text.startsWith(other))
  })
}
