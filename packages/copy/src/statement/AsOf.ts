/**
 * A statement over the rows as they were after a change. It sees tables of the same names: those of the lists with the
 * rows of that time, and `changes` up to that change. Nothing else in a destination has a history.
 */
import { QueryError } from "./Statement.ts"

export interface AsOf {
  /** The number of the change. */
  readonly seq: number
  /** The lists that the statement may use. */
  readonly lists: ReadonlyArray<ListAsOf>
}

export interface ListAsOf {
  /** The list's name, as on the command line. */
  readonly list: string
  /** The first row number that was not used when the point was checked. */
  readonly nextRow: number
  /** How many rows of the list had been removed then, because they had been missing for long. */
  readonly removed: number
}

/** Another program has removed changes or rows since the point was checked. */
export const removedMeanwhile = (): QueryError =>
  new QueryError({ problem: "Changes or rows were removed meanwhile. Run the same command again." })

/** Says that a statement reads tables or views without a history. */
export const withoutHistory = (names: ReadonlyArray<string>): QueryError =>
  new QueryError({
    problem: `Only the tables of the lists and changes have a history, under their names without a schema. So ${
      names.join(", ")
    } cannot be read as of an earlier point.`
  })
