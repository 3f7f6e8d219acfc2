/**
 * The names of fields that the document does not show. A service may use values as names, such as a document number or a
 * person's name. Logs are kept and copied, so they get fewer names than a terminal.
 */

/** Whether a text holds a key, a cursor or a filter value, as `PaymentsApi.isSecret` knows. */
export type IsSecret = (text: string) => boolean

/** As counted, with other names as `(other)`. */
export interface Undocumented {
  readonly [path: string]: number
}

/** The names as a terminal may show them: all but those that hold a secret. */
export const namesForTerminal = (undocumented: Undocumented, isSecret: IsSecret): Undocumented =>
  only(undocumented, (path) => !isSecret(path))

/** The names as logs and metrics may hold them: those that look like identifiers, and not like numbers or secrets. */
export const namesForLogs = (undocumented: Undocumented, isSecret: IsSecret): Undocumented =>
  only(undocumented, (path) => path.split(".").every(looksLikeIdentifier) && !isSecret(path))

const other = "(other)"

const only = (undocumented: Undocumented, isShown: (path: string) => boolean): Undocumented => {
  const shown: { [path: string]: number } = {}
  for (const [path, times] of Object.entries(undocumented)) {
    const name = path !== other && isShown(path) ? path : other
    shown[name] = (shown[name] ?? 0) + times
  }
  return shown
}

/** As the document's own names are: `camelCase`, also `snake_case`, with few digits. */
const looksLikeIdentifier = (name: string): boolean =>
  /^[a-z](?:_?[A-Za-z0-9])*$/.test(name) && name.length <= 40 && !/\d{4}/.test(name)
