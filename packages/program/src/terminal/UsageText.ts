/**
 * The messages for an invalid command line. No message repeats a value, which may be a filter value or a key. A message
 * repeats a flag or a command only if it looks like a name.
 */
import { nearest } from "@payments/copy"
import { type CliError, CliOutput } from "effect/cli"

const { formatCliError } = CliOutput.defaultFormatter({ colors: false })

/**
 * Whether the text looks like a mistyped flag. Text with a digit or a capital letter may be a value that starts with
 * `-`.
 */
const looksLikeFlag = (text: string): boolean => /^-{1,2}[a-z]+(-[a-z]+)*$/.test(text) && text.length <= 40

/** `expected` is the text of a check of Effect's schemas. */
const expectation = (expected: string): string =>
  expected.replace(/^(Expected:? )?(Schema validation failed: )?(Expected )?/, "").replaceAll(
    /"([\w-]+)"( \| )?/g,
    "$1, "
  )
    .replace(/, $/, "")

const choicesIn = (expected: string): ReadonlyArray<string> =>
  Array.from(expected.matchAll(/"([\w-]+)"/g), ([, choice = ""]) => choice)

const didYouMean = (suggestions: ReadonlyArray<string>): string =>
  suggestions.length === 0 ? "" : ` Did you mean ${suggestions.join(" or ")}?`

/** The positions among the words of the command line, or "" if they cannot be identified. */
const positionsOf = (values: ReadonlyArray<string>, args: ReadonlyArray<string>): string => {
  const positions = values.map((value) => args.lastIndexOf(value) + 1)
  return positions.includes(0) || new Set(positions).size < positions.length
    ? ""
    : ` (${positions.length === 1 ? "word" : "words"} ${positions.join(", ")} of the command line)`
}

/**
 * Drops an error about an unknown command if the word may be the value of an unrecognized flag before it. A word that
 * resembles a command keeps its error.
 */
export const withoutFlagValues = (
  errors: ReadonlyArray<CliError.CliError>,
  args: ReadonlyArray<string>
): ReadonlyArray<CliError.CliError> => {
  const flags = new Set(errors.flatMap((error) => error._tag === "UnrecognizedOption" ? [error.option] : []))
  return errors.filter((error) =>
    error._tag !== "UnknownSubcommand" || error.suggestions.length > 0 ||
    !args.some((word, index) => word === error.subcommand && flags.has(args[index - 1] ?? ""))
  )
}

/**
 * One line about an invalid command line. `args` are its words. `subcommandsOf` returns the subcommands of a command.
 */
export const usageText = (
  error: CliError.CliError,
  args: ReadonlyArray<string>,
  subcommandsOf: (commandPath: ReadonlyArray<string>) => ReadonlyArray<string>
): string => {
  switch (error._tag) {
    case "UnrecognizedOption":
      return looksLikeFlag(error.option)
        ? `Unrecognized flag: ${error.option}.${didYouMean(error.suggestions)}`
        : `Unrecognized flag${positionsOf([error.option], args)}. Write a value that starts with - as --FLAG=VALUE.`
    case "UnknownSubcommand": {
      const parent = error.parent === undefined ? "" : ` of ${error.parent.join(" ")}`
      // If the text resembles a command, it is a typing error and not a value.
      return error.suggestions.length > 0
        ? `Unknown command${parent}: ${error.subcommand}.${didYouMean(error.suggestions)}`
        : `Unknown command${parent}${positionsOf([error.subcommand], args)}.${
          didYouMean(nearest(error.subcommand, subcommandsOf(error.parent ?? [])))
        }`
    }
    case "UnexpectedArgument":
      return `Unexpected ${error.arguments.length === 1 ? "argument" : "arguments"}${
        positionsOf(error.arguments, args)
      }. Write a value after its flag, and put a value with spaces in quotes.`
    case "InvalidValue": {
      const name = error.kind === "flag" ? `--${error.option}` : error.option.toUpperCase()
      const times = /^(\d+) occurrences$/.exec(error.value)?.[1]
      if (times !== undefined && /^at (most|least) \d+ values?$/.test(error.expected)) {
        return `${name} is given ${times} times. Expected: ${error.expected}`
      }
      // The parser reads a value that starts with - as another flag.
      return error.value === ""
        ? `Missing value for ${name}. Expected: ${
          error.expected === "string"
            ? `text; --${error.option}=VALUE if it starts with -`
            : expectation(error.expected)
        }`
        : `Invalid value for ${name}. Expected: ${expectation(error.expected)}.${
          didYouMean(nearest(error.value, choicesIn(error.expected)))
        }`
    }
    default:
      return formatCliError(error)
  }
}
