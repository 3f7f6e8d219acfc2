/**
 * The names that have changed. A renamed flag, environment variable or setting of the sources file keeps working for one minor
 * version, with a warning. This is the only list of such names; the parsers read it.
 */
import { ConfigProvider, Context } from "effect"

/** A name that has changed. */
export interface Renamed {
  /** The old name, such as `--patience`, `PAYMENTS_PATIENCE`, `patience` or `payments sources`. */
  readonly from: string
  /** The new name, in the same form. */
  readonly to: string
  /** The first version that no longer accepts the old name. */
  readonly until: string
}

/** All names that have changed and still work. */
export class RenamedNames extends Context.Reference<{
  /** Flags of any command of the two programs. */
  readonly flags: ReadonlyArray<Renamed>
  /** Environment variables. */
  readonly variables: ReadonlyArray<Renamed>
  /** Settings of `[defaults]` and of each source in the sources file. */
  readonly settings: ReadonlyArray<Renamed>
  /** Commands, with the name of their program. */
  readonly commands?: ReadonlyArray<Renamed>
}>("@payments/program/RenamedNames", {
  defaultValue: () => ({
    flags: [{ from: "--settlement-cycle", to: "--settlement-time", until: "0.3.0" }],
    variables: [],
    settings: [],
    commands: renamedCommands
  })
}) {}

/** The commands and questions that have changed their names. */
export const renamedCommands: ReadonlyArray<Renamed> = [
  { from: "payments sources", to: "payments config", until: "0.3.0" },
  { from: "payments source list", to: "payments config", until: "0.3.0" },
  { from: "payments query settled-by-cycle", to: "payments query settled-by-time", until: "0.3.0" }
]

/** Returns the warning about the use of an old name. */
export const warningOf = ({ from, to, until }: Renamed): string =>
  `${from} is now called ${to}. Version ${until} no longer accepts the old name.`

/** Replaces old flags in the arguments before `--`. Returns a warning for each of them. */
export const withCurrentFlags = (args: ReadonlyArray<string>, flags: ReadonlyArray<Renamed>) => {
  const used = new Set<Renamed>()
  const end = args.indexOf("--")
  const current = args.map((word, index) => {
    const renamed = end >= 0 && index > end
      ? undefined
      : flags.find(({ from }) => word === from || word.startsWith(`${from}=`))
    if (renamed === undefined) return word
    used.add(renamed)
    return renamed.to + word.slice(renamed.from.length)
  })
  return { args: current, warnings: [...used].map(warningOf) }
}

/** The flags that may stand before a command, with a value. */
const flagsBefore = new Set(["--source", "--config", "--log-level"])

/** Replaces an old command of this program. Returns a warning if there is one. */
export const withCurrentCommand = (
  program: string,
  args: ReadonlyArray<string>,
  commands: ReadonlyArray<Renamed> = renamedCommands
) => {
  const places = args.flatMap((word, index) =>
    word.startsWith("-") || flagsBefore.has(args[index - 1] ?? "") ? [] : [index]
  )
  for (const renamed of commands) {
    const [name, ...words] = renamed.from.split(" ")
    if (name !== program || !words.every((word, index) => args[places[index] ?? -1] === word)) continue
    const [first, ...others] = places.slice(0, words.length)
    const current = args.flatMap((word, index) =>
      index === first ? renamed.to.split(" ").slice(1) : others.includes(index) ? [] : [word]
    )
    return { args: current, warnings: [warningOf(renamed)] }
  }
  return { args, warnings: [] }
}

/** Returns a warning for each old variable among the names of the environment's variables. */
export const warningsOfVariables = (
  names: ReadonlyArray<string>,
  variables: ReadonlyArray<Renamed>
): ReadonlyArray<string> =>
  variables.filter(({ from }) => names.includes(from)).map((renamed) =>
    names.includes(renamed.to)
      ? `${renamed.from} has no effect, because its new name ${renamed.to} is set too.`
      : warningOf(renamed)
  )

/** Reads a variable that is not set from its old name. */
export const withOldVariables = (
  provider: ConfigProvider.ConfigProvider,
  variables: ReadonlyArray<Renamed>
): ConfigProvider.ConfigProvider =>
  variables.length === 0
    ? provider
    : ConfigProvider.orElse(
      provider,
      ConfigProvider.mapInput(provider, (path) => {
        const renamed = path.length === 1 ? variables.find(({ to }) => to === path[0]) : undefined
        return renamed === undefined ? path : [renamed.from]
      })
    )
