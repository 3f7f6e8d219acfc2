/** The flags that name a destination, and the destination that a command reads or writes. */
import { Destination } from "@payments/copy"
import { Effect } from "effect"
import { usage } from "../outcome/ProgramError.ts"
import { textFlag } from "../settings/Flags.ts"
import { setting, valueGiven, variableText } from "../settings/Setting.ts"
import { allSettings } from "../settings/SettingTable.ts"
import { chosenBoundTo, ChosenSource } from "../sources/ChosenSource.ts"
import type { LoadedSource } from "../sources/LoadSources.ts"
import type { Source } from "../sources/Source.ts"

/** `--to`, the destination of an export. `more` is help text about further kinds of destination. */
export const toFlag = (more = "") =>
  textFlag(
    "to",
    "DESTINATION",
    `${Destination.forms("options")}${more} (PAYMENTS_TO)`
  )
/** `--from`, the destination that a command reads. */
export const fromFlag = textFlag(
  "from",
  "DESTINATION",
  `where an export wrote: ${Destination.forms("plain")} (PAYMENTS_TO)`
)

/**
 * Returns the destination that a flag, or without the flag PAYMENTS_TO, names. Only PAYMENTS_TO may contain a password,
 * because every user of the machine can read the arguments.
 */
export const destinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }) {
    const text = yield* setting(flag, "PAYMENTS_TO", {
      expected: "a destination",
      parse: (given) => given === "" ? undefined : given
    })
    if (text === undefined) return yield* usage(`There is no destination: give --${flag.name} or set PAYMENTS_TO.`)
    const [name, from] = flag.text === undefined
      ? ["PAYMENTS_TO", "environment"] as const
      : [`--${flag.name}`, "argument"] as const
    return yield* Effect.mapError(
      Destination.parse(text, from),
      ({ problem }) => new Destination.DestinationError({ problem: `${name}: ${problem}` })
    )
  }
)

/** {@inheritDoc destinationOf} Stdout, which stores nothing, fails with the text `refusal`. */
export const storedDestinationOf = Effect.fnUntraced(
  function*(flag: { readonly name: string; readonly text: string | undefined }, refusal: string) {
    const destination = yield* destinationOf(flag)
    return Destination.isStored(destination) ? destination : yield* usage(refusal)
  }
)

/** Returns the source whose destination a command reads. Undefined if `--from` or PAYMENTS_TO names the destination. */
export const sourceOfDestination = (from: string | undefined) =>
  from === undefined ? Effect.flatMap(ChosenSource, ({ forDestination }) => forDestination) : Effect.undefined

/** Returns the sources whose destinations a command shows. Empty if `--from` or PAYMENTS_TO names the destination. */
export const sourcesOfDestinations = (from: string | undefined) =>
  from === undefined ? Effect.flatMap(ChosenSource, ({ forDestinations }) => forDestinations) : Effect.succeed([])

/**
 * Returns the settings about open records of the source whose destination a command reads, by list. If `--from` or PAYMENTS_TO
 * names the destination, they are those of the environment.
 */
export const openSettingsOf = (source: Pick<Source, "finalStates" | "maxOpen"> | undefined) =>
  source === undefined
    ? Effect.all({
      finalStates: valueGiven(allSettings.source.final_states),
      maxOpen: valueGiven(allSettings.source.max_open)
    })
    : Effect.succeed({ finalStates: source.finalStates, maxOpen: source.maxOpen })

/**
 * Returns the stored destination that a flag, by default `--from`, names. Without the flag, it is that of the chosen
 * source or PAYMENTS_TO. The environment with PAYMENTS_TO may describe a source, too. Opening the copy of another
 * source then fails.
 */
export const fromDestination = Effect.fnUntraced(function*(text: string | undefined, name = "from") {
  const source = yield* sourceOfDestination(text)
  if (source !== undefined) return yield* copyOf(source, name)
  const destination = yield* storedDestinationOf(
    { name, text },
    "An export to - (stdout) stores nothing. Name a database or a folder of files."
  )
  if (text !== undefined) return destination
  // A command that reads a copy needs no valid settings of a service.
  const boundTo = yield* Effect.orElseSucceed(chosenBoundTo("forDestination"), () => undefined)
  return { ...destination, boundTo } satisfies Destination.StoredDestination
})

/** Returns the destination as {@link fromDestination} does, or undefined if none is named. */
export const fromDestinationIfAny = Effect.fnUntraced(function*(text: string | undefined) {
  const source = yield* sourceOfDestination(text)
  if (source !== undefined) return source.to === undefined ? undefined : yield* copyOf(source, "from")
  return text === undefined && (yield* variableText("PAYMENTS_TO")) === undefined
    ? undefined
    : yield* fromDestination(text)
})

/** Returns the destination that `--to` names, or without it the destination of the chosen source or PAYMENTS_TO. */
export const toDestination = Effect.fnUntraced(function*(text: string | undefined) {
  const source = text === undefined ? yield* (yield* ChosenSource).forService : undefined
  const destination: Destination.Destination = source === undefined
    ? yield* destinationOf({ name: "to", text })
    : yield* destinationIn(source, "to")
  return destination
})

/** Returns the destination of the source to read or maintain. Opening it fails if it has the copy of another source. */
export const copyOf = Effect.fnUntraced(function*(source: LoadedSource, flag: string) {
  const { boundTo, to } = yield* Effect.all({ boundTo: source.boundTo, to: destinationIn(source, flag) })
  const copy: Destination.StoredDestination = { ...to, boundTo }
  return copy
})

const destinationIn = ({ name, to }: Source, flag: string) =>
  to === undefined
    ? Effect.fail(usage(`The source ${name} has no destination: give --${flag}, or set to in the sources file.`))
    : Effect.succeed(to)
