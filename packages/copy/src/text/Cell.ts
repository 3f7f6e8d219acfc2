/** The printed form of a value. Numbers are text, so that none is rounded. */

/** Null, text, or a value that JSON writes without quotes. CSV and tables use the JSON form unless `csv` or `table` is given. */
export type Cell = null | string | {
  readonly json: string
  readonly csv?: string | null
  readonly table?: string
}
