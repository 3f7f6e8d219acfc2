/**
 * RFC 4180: a header, CRLF, UTF-8. The typed columns come first, then `raw`, `first_seen_at`, `changed_at` and
 * `missing_since`. Null is an empty field, empty text is `""`.
 */
import type { Lists } from "@payments/core"
import { csvText, type Field } from "../../Csv.ts"
import { type Column, layoutOf } from "../../engine/Columns.ts"
import type { FullRow } from "../../engine/Store.ts"
import type { Encoder, Format } from "./Format.ts"

const bytes = new TextEncoder()

/** An encoder of the list. Unless formulas are kept, they are escaped in text; `raw` begins with a brace. */
export const encoder = (list: Lists.AnyList, formulas: Format["formulas"]): Encoder => {
  const { columns } = layoutOf(list)
  let begun = false
  const first = () => begun ? "" : (begun = true, csvText([columnNames(columns)], formulas))
  return {
    write: (rows) => bytes.encode(first() + csvText(rows.map((row) => fieldsOf(columns, row)), formulas)),
    end: () => bytes.encode(first())
  }
}

/** The header. */
export const columnNames = (columns: ReadonlyArray<Column>): ReadonlyArray<string> => [
  ...columns.map(({ name }) => name),
  "raw",
  "first_seen_at",
  "changed_at",
  "missing_since"
]

/** The fields of a row, in the order of the header. */
export const fieldsOf = (
  columns: ReadonlyArray<Column>,
  { cells, changedAt, firstSeenAt, missingSince, raw }: FullRow
): ReadonlyArray<Field> => [
  ...columns.map((column) => fieldOf(column, cells[column.name])),
  raw,
  firstSeenAt,
  changedAt,
  missingSince
]

const fieldOf = ({ kind }: Column, cell: unknown): Field =>
  kind === "boolean" && cell !== null ? String(Boolean(cell)) : cell as Field // what our own columns hold
