/**
 * CSV as RFC 4180 defines it, in UTF-8, with a header and CRLF. The typed columns come first, then `raw`,
 * `first_seen_at`, `changed_at` and `missing_since`. Null is an empty field, and empty text is `""`.
 */
import type { Lists } from "@payments/core"
import { type Column, layoutOf } from "../../plan/Columns.ts"
import type { FullRow } from "../../store/Store.ts"
import { csvText, type Field } from "../../text/Csv.ts"
import type { Encoder, Format } from "./Format.ts"

const utf8 = new TextEncoder()

/** `raw` needs no escape, because it starts with a brace. */
export const encoder = (list: Lists.AnyList, formulas: Format["formulas"]): Encoder => {
  const { columns } = layoutOf(list)
  let hasHeader = false
  const header = () => hasHeader ? "" : (hasHeader = true, csvText([columnNames(columns)], formulas))
  return {
    write: (rows) => utf8.encode(header() + csvText(rows.map((row) => fieldsOf(columns, row)), formulas)),
    end: () => utf8.encode(header())
  }
}

export const columnNames = (columns: ReadonlyArray<Column>): ReadonlyArray<string> => [
  ...columns.map(({ name }) => name),
  "raw",
  "first_seen_at",
  "changed_at",
  "missing_since"
]

/** Returns the fields of a row, in the order of the header. */
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
  kind === "boolean" && cell !== null ? String(Boolean(cell)) : cell as Field // the type of a stored cell
