/** A value as it is printed, to the digit: numbers are text, so that none is rounded. */

/** Null, text, or a value that JSON writes without quotes. CSV and tables write it as in JSON unless given. */
export type Cell = null | string | {
  readonly json: string
  readonly csv?: string | null
  readonly table?: string
}
