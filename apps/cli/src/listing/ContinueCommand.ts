/** The commands that continue a listing or a search. */
import { printable } from "@payments/copy"
import { allOf, type Next, shellWord } from "@payments/program"
import { String } from "effect"

/** The flags of a listing as they were typed, without those that say where it starts. */
export interface TypedFlags {
  /** Flags whose values may be personal data: filters, conditions, a query. */
  readonly personal: ReadonlyArray<readonly [flag: string, text: string]>
  readonly others: ReadonlyArray<readonly [flag: string, text: string | undefined]>
}

/** Whether the text can be part of a command on a terminal. */
export const isPrintable = (text: string): boolean => printable(text) === text

/**
 * Returns the command, with the start `start`. If `showsPersonal` is false, it lacks the values that may be personal data, and
 * names their flags. A name of a file (`@FILE`) is not personal.
 */
export const continueCommand = (
  label: string,
  { others, personal }: TypedFlags,
  start: ReadonlyArray<readonly [flag: string, text: string]>,
  showsPersonal: boolean
): Next => {
  const isShown = ([, text]: TypedFlags["personal"][number]) =>
    isPrintable(text) && (showsPersonal || /^@(?!@)/.test(text))
  const command = `payments ${label} list${flagsText([...personal.filter(isShown), ...others, ...start])}`
  const hidden = new Set(personal.filter((flag) => !isShown(flag)).map(([flag]) => `--${flag}`))
  return hidden.size === 0 ? command : { command, arguments: [...hidden] }
}

/** Returns the command for people, with the names of the arguments to add. */
export const nextText = (next: Next): string =>
  typeof next === "string"
    ? next
    : `${next.command}, with the same ${allOf(next.arguments)}`

/** Flags as a command gets them, by their names in camel case. */
export type GivenFlags<Name extends string> = { readonly [N in Name]?: string | boolean | undefined }

/** Returns a value of a flag; a destination without the password of its database, which PGPASSWORD can give. */
const withoutPassword = (destination: string): string =>
  /^postgres(?:ql)?:/i.test(destination)
    ? destination.replace(/^(\w+:\/\/[^:/?#]*):[^/?#]*@/, "$1@").replace(/([?&])password=[^&#]*&?/g, "$1")
      .replace(/[?&]$/, "")
    : destination

/** Returns those of the named flags that are set, without the password of a database. A flag without a value has no text. */
export const givenFlags = <Name extends string>(
  given: GivenFlags<Name>,
  names: ReadonlyArray<Name>
): TypedFlags["others"] =>
  names.map((name) => [String.camelToSnake(name).replaceAll("_", "-"), given[name]] as const)
    .filter(([, value]) => value !== undefined && value !== false)
    .map(([flag, value]) => [flag, value === true ? undefined : withoutPassword(`${value}`)])

/** Returns the flags as a shell reads them, with a space before each. */
export const flagsText = (flags: TypedFlags["others"]): string =>
  flags.map(([flag, text]) => {
    if (text === undefined) return ` --${flag}`
    // A value that starts with - would be read as a flag.
    return ` --${flag}${text.startsWith("-") ? "=" : " "}${shellWord(text)}`
  }).join("")
