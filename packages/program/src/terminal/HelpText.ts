/** The help of a command, as text for people. */
import { Option } from "effect"
import { CliOutput, type HelpDoc } from "effect/cli"
import { fitted } from "./HelpWidth.ts"

/** `width` is that of the terminal; infinite for a pipe. */
export const helpFormatter = (colors: boolean, width: number): CliOutput.Formatter => {
  const formatter = CliOutput.defaultFormatter({ colors, globalFlags: "summary" })
  return {
    ...formatter,
    formatVersion: (_name, version) => version,
    formatHelpDoc: (doc) => {
      const text = formatter.formatHelpDoc({
        ...doc,
        flags: doc.flags.map(readable),
        // The library's own script cannot complete names that change. `payments completions` prints one that can.
        ...(doc.globalFlags === undefined
          ? {}
          : { globalFlags: doc.globalFlags.filter(({ name }) => name !== "completions").map(readable) })
      })
      return fitted(text.replace(examplesHeading, "$1\n\n$2").replaceAll(groupHeading, "$1$2"), width)
    }
  }
}

// oxlint-disable-next-line no-control-regex -- colours are control sequences
const examplesHeading = /([^\n])\n((?:\u001b\[\d+m)?EXAMPLES)/

/** The heading of a group of commands, which the library ends with a colon. */
// oxlint-disable-next-line no-control-regex -- colours are control sequences
const groupHeading = /^((?:\u001b\[\d+m)?[A-Z ]+):((?:\u001b\[\d+m)?)$/gm

/** Longer choices stand in the description. */
const mostChoices = 30

/** How help names the types of flags, if not as the library does. */
const typeNames: { readonly [type: string]: string } = { choice: "NAME", string: "TEXT" }

/** Returns the flag with its choices as its type, as in `--format table|json`. */
export const readable = (flag: HelpDoc.FlagDoc): HelpDoc.FlagDoc => {
  const given = Option.getOrElse(flag.description, () => "")
  const [, text = given, list] = /^(.*?) ?\(choices: ([^)]*)\)$/s.exec(given) ?? []
  const choices = list?.split(", ").join("|") ?? ""
  const isShort = flag.type === "choice" && choices.length <= mostChoices
  return {
    ...flag,
    type: isShort ? choices : typeNames[flag.type] ?? flag.type,
    description: Option.some(isShort || list === undefined ? text : `${text}: ${list}`)
  }
}
