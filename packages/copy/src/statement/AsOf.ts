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
  /**
   * The parameters of the statement, if it uses only rows that have one of them in a text column. The columns of all other
   * rows may then be null.
   */
  readonly searched?: ReadonlyArray<string> | undefined
}

export interface ListAsOf {
  /** The list's name, as on the command line. */
  readonly list: string
  /** The first row number that was not used when the point was checked. */
  readonly nextRow: number
  /** How many rows of the list had been removed then, because they had been missing for long. */
  readonly removed: number
}

/**
 * The texts that are searched, if a JSON text that has one of them spells it as it is, or has a `\u`. Undefined if every
 * row has to be read.
 */
export const plainTexts = ({ searched }: Pick<AsOf, "searched">): ReadonlyArray<string> | undefined =>
  searched?.every((text) => !text.includes("/") && JSON.stringify(text) === `"${text}"`) === true ? searched : undefined

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
