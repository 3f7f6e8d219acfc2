/** What the SQL of SQLite and that of PostgreSQL say differently in statements that only read. */
import type { ExcerptColumn } from "./QueryMessages.ts"

/** The SQL of a database. */
export interface Dialect {
  readonly exactSum: (column: string) => string
  /** Returns the condition that a text contains another one, without regard to case. */
  readonly contains: (text: string, part: string) => string
  /** Returns a text with which a column is compared, so that the order is that of the bytes. */
  readonly inByteOrder: (text: string) => string
  /** Returns a column in the form that it has in an SQLite file. */
  readonly forExcerpt: (column: ExcerptColumn) => string
}

/** SQLite's, with the functions of `SqliteQuery.ts`. */
export const sqliteDialect: Dialect = {
  // With `exact_sum`, Node would keep some 90 bytes for each value until the statement ends. A question about ten
  // million records would then need more memory than a query may.
  exactSum: (column) => `from_halves(sum(${column} >> 32), sum(${column} & ${2 ** 32 - 1}))`,
  // `lower` folds the case of ASCII letters only. It is much faster than `folded`, so it folds the texts of only ASCII.
  contains: (text, part) =>
    `instr(CASE WHEN length(${text}) = octet_length(${text}) THEN lower(${text}) ELSE folded(${text}) END, folded(${part})) > 0`,
  inByteOrder: (text) => text,
  forExcerpt: ({ name }) => `"${name}"`
}

export const postgresDialect: Dialect = {
  exactSum: (column) => `sum(${column})`,
  contains: (text, part) => `strpos(lower(${text}), lower(${part})) > 0`,
  // PostgreSQL compares in the order of its locale unless the statement says otherwise.
  inByteOrder: (text) => `${text} COLLATE "C"`,
  forExcerpt: ({ kind, name }) =>
    kind === "json"
      ? `"${name}"::text`
      : kind === "time"
      ? `to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`
      : `"${name}"`
}
