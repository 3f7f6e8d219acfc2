/**
 * The names of 0.1.0 that have changed: a flag and some commands of `payments`. They work until version 0.3.0, with a
 * warning.
 */

const oldFlags: ReadonlyArray<readonly [from: string, to: string]> = [["--settlement-cycle", "--settlement-time"]]

const oldCommands: ReadonlyArray<readonly [from: string, to: string]> = [
  ["sources", "config"],
  ["source list", "config"],
  ["query settled-by-cycle", "query settled-by-time"]
]

const warningOf = (from: string, to: string): string =>
  `${from} is now called ${to}. Version 0.3.0 no longer accepts the old name.`

/** The flags that may stand before a command, with a value. */
const flagsBefore = new Set(["--source", "--config", "--log-level"])

/** Replaces the old names in the arguments of `payments`. Returns a warning for each of them. */
export const withCurrentNames = (given: ReadonlyArray<string>) => {
  const warnings = new Set<string>()
  const end = given.includes("--") ? given.indexOf("--") : given.length
  const args = given.map((word, index) => {
    const [from, to] = oldFlags.find(([flag]) => word === flag || word.startsWith(`${flag}=`)) ?? []
    if (index >= end || from === undefined || to === undefined) return word
    warnings.add(warningOf(from, to))
    return to + word.slice(from.length)
  })
  const operands = [...args.keys()].filter((index) =>
    !args[index]?.startsWith("-") && !flagsBefore.has(args[index - 1] ?? "")
  )
  const renamed = oldCommands.find(([from]) => from.split(" ").every((word, at) => args[operands[at] ?? -1] === word))
  if (renamed === undefined) return { args, warnings: [...warnings] }
  const [from, to] = renamed.map((words) => words.split(" "))
  const current = args.flatMap((word, index) => {
    const at = operands.indexOf(index)
    return at >= 0 && at < (from?.length ?? 0) ? to?.[at] ?? [] : [word]
  })
  return { args: current, warnings: [warningOf(`payments ${renamed[0]}`, `payments ${renamed[1]}`), ...warnings] }
}
