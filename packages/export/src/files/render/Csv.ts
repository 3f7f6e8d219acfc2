/**
 * RFC 4180: a header, CRLF, UTF-8. The typed columns come first, then `raw`, `first_seen_at`, `changed_at` and
 * `missing_since`. Null is an empty field, empty text is `""`.
 */
import type { Lists } from "@payments/core"
import { type Options, stringify } from "csv-stringify/sync"
import { type Column, layoutOf } from "../../engine/Columns.ts"
import type { Encoder, Format } from "./Format.ts"

const bytes = new TextEncoder()

/**
 * An encoder of the list. Unless formulas are kept, text that begins with `=`, `+`, `-`, `@`, tab or CR gets a `'` before it
 * (https://owasp.org/www-community/attacks/CSV_Injection); numbers never do, and `raw` begins with a brace.
 */
export const encoder = (list: Lists.AnyList, formulas: Format["formulas"]): Encoder => {
  const { columns } = layoutOf(list)
  const options: Options = {
    record_delimiter: "\r\n",
    escape_formulas: formulas === "escape",
    // Empty text is not null.
    quoted_match: /^$/
  }
  const names = [...columns.map(({ name }) => name), "raw", "first_seen_at", "changed_at", "missing_since"]
  const header = stringify([names], options)
  let begun = false
  const first = () => begun ? "" : (begun = true, header)
  return {
    write: (rows) =>
      bytes.encode(
        first() + stringify(
          rows.map(({ cells, changedAt, firstSeenAt, missingSince, raw }) => [
            ...columns.map((column) => fieldOf(column, cells[column.name])),
            raw,
            firstSeenAt,
            changedAt,
            missingSince ?? null
          ]),
          options
        )
      ),
    end: () => bytes.encode(first())
  }
}

const fieldOf = ({ kind }: Column, cell: unknown): unknown =>
  kind === "boolean" && cell !== null ? String(Boolean(cell)) : cell
