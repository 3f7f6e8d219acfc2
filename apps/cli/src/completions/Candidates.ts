/**
 * The words that can follow an unfinished command. They come from the commands themselves, so a new command or flag needs no
 * change here. {@link valuesOf} adds the values of flags that take text.
 */
import { Effect } from "effect"
import type { Completions } from "effect/cli"
import { type Candidate, type Context, filesOf, none, type Values, valuesOf } from "./Values.ts"

export interface CommandTree {
  readonly root: Completions.CommandDescriptor
  /** The flags that every command accepts. */
  readonly globalFlags: ReadonlyArray<Completions.FlagDescriptor>
}

/** Where in the command the cursor is. */
interface Place {
  readonly command: Completions.CommandDescriptor
  readonly context: Context
  readonly flag: Completions.FlagDescriptor | undefined
  readonly hasOnlyOperands: boolean
}

/** Returns what the last of the words can be. The first word is the program. */
export const candidatesFor = Effect.fnUntraced(function*(words: ReadonlyArray<string>, tree: CommandTree) {
  const word = words.at(-1) ?? ""
  const place = placeOf(words.slice(1, -1), tree)
  if (place.flag !== undefined) return startingWith(word, "", yield* flagValues(place.flag, place.context, word))
  const [, name, value] = place.hasOnlyOperands ? [] : /^--([^=]+)=(.*)$/s.exec(word) ?? []
  if (name !== undefined && value !== undefined) {
    const flag = flagsAt(place.command, tree).find((one) => one.name === name)
    return flag === undefined
      ? none
      : startingWith(value, `--${name}=`, yield* flagValues(flag, place.context, value))
  }
  if (word.startsWith("-") && !place.hasOnlyOperands) return startingWith(word, "", flagNames(place, tree))
  const operands = startingWith(word, "", yield* operandValues(place, word))
  const { candidates, files } = operands
  if (candidates.length > 0 || files !== undefined || word !== "" || place.hasOnlyOperands) return operands
  const isUnknown = place.context.operands.length > 0 && place.command.arguments.length === 0
  return isUnknown ? none : flagNames(place, tree)
})

/** Finds the command of the complete words, and what the next word means. */
const placeOf = (words: ReadonlyArray<string>, tree: CommandTree): Place => {
  let command = tree.root
  let flag: Completions.FlagDescriptor | undefined
  let hasOnlyOperands = false
  const path: Array<string> = []
  const operands: Array<string> = []
  const flags = new Map<string, string>()
  for (const word of words) {
    if (flag !== undefined) {
      flags.set(flag.name, word)
      flag = undefined
    } else if (!hasOnlyOperands && word === "--") hasOnlyOperands = true
    else if (!hasOnlyOperands && word.startsWith("-")) {
      const [name = "", value] = word.replace(/^--?/, "").split(/=(.*)/s)
      const known = flagsAt(command, tree).find((one) => one.name === name || one.aliases.includes(name))
      flags.set(known?.name ?? name, value ?? "")
      if (value === undefined && known !== undefined && known.type._tag !== "Boolean") flag = known
    } else {
      const sub = operands.length === 0 ? command.subcommands.find(({ name }) => name === word) : undefined
      if (sub === undefined) operands.push(word)
      else {
        command = sub
        path.push(word)
      }
    }
  }
  return { command, context: { path, operands, flags }, flag, hasOnlyOperands }
}

const flagsAt = (command: Completions.CommandDescriptor, { globalFlags }: CommandTree) => [
  ...command.flags,
  ...globalFlags
]

/** Returns the flags that are not given yet, and those that may be given several times. */
const flagNames = ({ command, context }: Place, tree: CommandTree): Values => ({
  candidates: flagsAt(command, tree)
    .filter(({ description, name }) => !context.flags.has(name) || description?.includes("several times") === true)
    .map(({ description, name }) => ({ value: `--${name}`, description }))
})

const flagValues = (flag: Completions.FlagDescriptor, context: Context, word: string) =>
  typeValues(flag.type) ?? valuesOf(`--${flag.name}`, context, word)

const operandValues = Effect.fnUntraced(function*({ command, context }: Place, word: string) {
  const { length } = context.operands
  const argument = command.arguments[length] ?? command.arguments.findLast(({ variadic }) => variadic)
  const subcommands = length > 0
    ? []
    : command.subcommands.map(({ description, name }) => ({ value: name, description }))
  const values = argument === undefined
    ? none
    : yield* typeValues(argument.type) ?? valuesOf([...context.path, argument.name].join(" "), context, word)
  return { ...values, candidates: [...subcommands, ...values.candidates] }
})

/** Returns the values of a type; undefined for text. */
const typeValues = (type: Completions.FlagType): Effect.Effect<Values> | undefined => {
  if (type._tag === "Choice") return Effect.succeed({ candidates: type.values.map((value) => ({ value })) })
  if (type._tag === "Path") return Effect.succeed(filesOf(""))
  return type._tag === "String" ? undefined : Effect.succeed(none)
}

/** Returns the values that begin with the word, each with the text before it. */
const startingWith = (word: string, before: string, { candidates, files, ...rest }: Values): Values => ({
  ...rest,
  candidates: candidates.filter(({ value }) => value.startsWith(word)).map((candidate): Candidate => ({
    ...candidate,
    value: `${before}${candidate.value}`
  })),
  ...(files === undefined ? {} : { files: { prefix: `${before}${files.prefix}` } })
})
