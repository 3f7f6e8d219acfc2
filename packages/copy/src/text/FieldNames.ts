/**
 * Filters the names of undocumented fields before they are stored or shown. A service may use values as names, such as a document
 * number or a person's name. Logs are stored and copied, so they get fewer names than a terminal.
 */

/** Whether a text contains a key, a cursor or a filter value, as `PaymentsApi.isSecret` does. */
export type IsSecret = (text: string) => boolean

/** How often each undocumented field occurs, by its path. Hidden names are counted under `(other)`. */
export interface Undocumented {
  readonly [path: string]: number
}

/** Returns the names that a terminal may show: all except those that contain a secret. */
export const namesForTerminal = (undocumented: Undocumented, isSecret: IsSecret): Undocumented =>
  hideNames(undocumented, (path) => !isSecret(path))

/** Returns the names that logs and metrics may contain: those that look like identifiers, and not like numbers or secrets. */
export const namesForLogs = (undocumented: Undocumented, isSecret: IsSecret): Undocumented =>
  hideNames(undocumented, (path) => path.split(".").every(looksLikeIdentifier) && !isSecret(path))

const other = "(other)"

/** The name of all values that {@link storedCode} hides. */
export const otherCode = other

/** Hides a name that may be a value, such as an address or a long number, before a destination stores it. */
export const storedName = (name: string): string =>
  /^[A-Za-z_]\w{0,63}$/.test(name) && !/\d{4}/.test(name) ? name : other

/**
 * Hides a value that may be more than a kind or a state, before a destination stores it: what is neither a code such as
 * `AUTHENTICATION_FAILED` nor words such as `on_hold` and `bankAccount`. Names of people and identifiers look otherwise.
 */
export const storedCode = (value: string): string =>
  value.length <= 40 && /^(?:[A-Z][A-Z0-9_]*|[a-z]+(?:[A-Z_-][a-z]*)*\d{0,2})$/.test(value) && !/\d{4}/.test(value)
    ? value
    : other

const hideNames = (undocumented: Undocumented, isShown: (path: string) => boolean): Undocumented => {
  // A service may use names that every object inherits, such as `constructor`, so the counts are in a map.
  const shown = new Map<string, number>()
  for (const [path, times] of Object.entries(undocumented)) {
    const name = path !== other && isShown(path) ? path : other
    shown.set(name, (shown.get(name) ?? 0) + times)
  }
  return Object.fromEntries(shown)
}

/** Whether the name looks like those in the document: `camelCase`, or `snake_case`, with few digits. */
const looksLikeIdentifier = (name: string): boolean =>
  /^[a-z](?:_?[A-Za-z0-9])*$/.test(name) && name.length <= 40 && !/\d{4}/.test(name)

const mostFields = 5

/** Returns the first of the fields that logs may contain, and how many more there are. */
export const fieldsText = (paths: ReadonlyArray<string>): string => {
  const named = paths.filter((path) => path.split(".").every(looksLikeIdentifier)).slice(0, mostFields)
  const more = paths.length - named.length
  if (named.length === 0) return more === 1 ? "1 field" : `${more} fields`
  return `${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`
}
