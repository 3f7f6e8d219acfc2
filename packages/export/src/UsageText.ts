/**
 * The messages for a wrong command line. Nothing that was typed as a value is repeated, since it may be a filter's value or a
 * key: a flag or a command is repeated only where it looks like a name.
 */
import { type CliError, CliOutput } from "effect/cli"

const { formatCliError } = CliOutput.defaultFormatter({ colors: false })

/** A flag as a person types it by mistake. What holds a digit or a capital letter may be a value that begins with `-`. */
const looksLikeFlag = (text: string): boolean => /^-{1,2}[a-z]+(-[a-z]+)*$/.test(text) && text.length <= 40

/** The checks of Effect's own schemas say it in their own words. */
const expectation = (expected: string): string =>
  expected.replace(/^(Expected:? )?(Schema validation failed: )?(Expected )?/, "").replaceAll(
    /"([\w-]+)"( \| )?/g,
    "$1, "
  )
    .replace(/, $/, "")

const meant = (suggestions: ReadonlyArray<string>): string =>
  suggestions.length === 0 ? "" : ` Did you mean ${suggestions.join(" or ")}?`

/** The `position`th words of a command line, if they are all there. */
const positionsOf = (values: ReadonlyArray<string>, args: ReadonlyArray<string>): string => {
  const positions = values.map((value) => args.lastIndexOf(value) + 1)
  return positions.includes(0) || new Set(positions).size < positions.length
    ? ""
    : ` (${positions.length === 1 ? "word" : "words"} ${positions.join(", ")} of the command line)`
}

/** One line about a wrong command line. `args` is what was typed. */
export const usageText = (error: CliError.CliError, args: ReadonlyArray<string>): string => {
  switch (error._tag) {
    case "UnrecognizedOption":
      return looksLikeFlag(error.option)
        ? `Unrecognized flag: ${error.option}.${meant(error.suggestions)}`
        : `Unrecognized flag${positionsOf([error.option], args)}. A value that begins with - is given as --FLAG=VALUE.`
    case "UnknownSubcommand": {
      const parent = error.parent === undefined ? "" : ` of ${error.parent.join(" ")}`
      // Close to a command, it is a typing error, not a value.
      return error.suggestions.length > 0
        ? `Unknown command${parent}: ${error.subcommand}.${meant(error.suggestions)}`
        : `Unknown command${parent}${positionsOf([error.subcommand], args)}.`
    }
    case "UnexpectedArgument":
      return `Unexpected ${error.arguments.length === 1 ? "argument" : "arguments"}${
        positionsOf(error.arguments, args)
      }. A value stands behind its flag; one with spaces needs quotes.`
    case "InvalidValue": {
      const name = error.kind === "flag" ? `--${error.option}` : error.option.toUpperCase()
      const times = /^(\d+) occurrences$/.exec(error.value)?.[1]
      if (times !== undefined && /^at (most|least) \d+ values?$/.test(error.expected)) {
        return `${name} is given ${times} times. Expected: ${error.expected}`
      }
      // What begins with - was read as a flag of its own.
      return error.value === ""
        ? `Missing value for ${name}. Expected: ${
          error.expected === "string"
            ? `text; --${error.option}=VALUE if it begins with -`
            : expectation(error.expected)
        }`
        : `Invalid value for ${name}. Expected: ${expectation(error.expected)}`
    }
    default:
      return formatCliError(error)
  }
}
