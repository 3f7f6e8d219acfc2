/** The schemas of tables of settings, which only the sources file needs. */
import { Record, Schema, Struct } from "effect"

/** None of the settings has to be set. */
export const optional = Struct.map(Schema.optionalKey)

/** Settings of a table. */
interface Rows {
  readonly [name: string]: {
    readonly meaning: string
    readonly type: { readonly schema: (description: string) => Schema.Top }
  }
}

type SchemasOf<R extends Rows> = { readonly [Name in keyof R]: ReturnType<R[Name]["type"]["schema"]> }

/** The schemas of the settings of a table. */
export const schemasOf = <const R extends Rows>(rows: R): SchemasOf<R> =>
  // `Record.map` loses the type of each row.
  Record.map(rows, ({ meaning, type }) => type.schema(meaning)) as SchemasOf<R>

/** Tables of settings by name, each of which has these rows. */
export const tablesOf = <const R extends Rows>(name: RegExp, rows: R) => ({
  schema: (description: string) =>
    Schema.Record(
      Schema.String.check(Schema.isPattern(name)),
      Schema.Struct(schemasOf(rows)).mapFields(optional)
    ).annotate({ description })
})
