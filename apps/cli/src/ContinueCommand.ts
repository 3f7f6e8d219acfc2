/** The commands that continue a listing or a search. */
import { printable } from "@payments/export"

/** The flags of a listing as they were typed, without those that say where it starts. */
export interface TypedFlags {
  /** Flags whose values may be personal data: filters, conditions, a query. */
  readonly personal: ReadonlyArray<readonly [flag: string, text: string]>
  readonly others: ReadonlyArray<readonly [flag: string, text: string | undefined]>
}

/** Returns the text as one word of a shell's command. */
export const quoted = (text: string): string => /^[\w@,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** Whether the text can be part of a command on a terminal. */
export const isPrintable = (text: string): boolean => printable(text) === text

/**
 * Returns the command, with the start `start`. If `showsPersonal` is false, it has no value that may be personal data, and
 * says so. A name of a file (`@FILE`) is not personal.
 */
export const continueCommand = (
  label: string,
  { others, personal }: TypedFlags,
  start: ReadonlyArray<readonly [flag: string, text: string]>,
  showsPersonal: boolean
): string => {
  const shown = personal.filter(([, text]) => isPrintable(text) && (showsPersonal || /^@(?!@)/.test(text)))
  const flags = flagsText([...shown, ...others, ...start])
  return `payments ${label} list${flags}${shown.length < personal.length ? ", with the same filters" : ""}`
}

/** Returns the flags as a shell reads them, with a space before each. A flag without a text has no value. */
export const flagsText = (flags: ReadonlyArray<readonly [flag: string, text: string | undefined]>): string =>
  flags.map(([flag, text]) => {
    if (text === undefined) return ` --${flag}`
    // A value that starts with - would be read as a flag.
    return ` --${flag}${text.startsWith("-") ? "=" : " "}${quoted(text)}`
  }).join("")
