/**
 * The rows of a list as they were after a change, as SQL. The first change after it says whether a row existed, and
 * whether it was missing. The first later change with a text before it says what the text was. Erasures and rewrites
 * (scan 0) mark no row missing and return none. They replace the texts of changes too, so no removed value comes back.
 *
 * No statement here has parameters: a view cannot have any, and a user's statement has its own.
 */
import type { Lists } from "@payments/core"
import { columnsOf } from "../plan/Columns.ts"
import type { AsOf, ListAsOf } from "../statement/AsOf.ts"
import { tableIn } from "./SqlDialect.ts"
import { either, join, quoted, raw, schema, sql, type Statement } from "./SqlStatement.ts"

/** The later changes of a list, by id, as a table that each database makes in its own way. */
export const laterTable = (table: string): string => `payments_later_${table}`

const literal = (value: number): Statement => raw(String(value))

const ofList = ({ label }: Lists.AnyList): Statement => raw(`list = '${label}'`)

/** Changes after which the row has another text. A record that only returned has the text that it had. */
const setsText = sql`(kind IN ('insert', 'update') OR kind = 'returned' AND ${
  either("fields", "fields::text")
} <> '[]')`

/** What the first later change says about a row, as a number. */
const marks = { insert: 0, missing: 1, returned: 2, update: 3 } as const

const everyKind: ReadonlySet<string> = new Set(Object.keys(marks))

/** SQL for the mark of a change. An erasure or a rewrite says nothing. */
export const markOf = raw(
  `CASE WHEN scan <> 0 THEN CASE kind ${
    Object.entries(marks).map(([kind, number]) => `WHEN '${kind}' THEN ${number}`).join(" ")
  } END END`
)

/** The changes of a list after the point. */
export const laterChanges = (list: Lists.AnyList, seq: number): Statement =>
  // The plus sign prevents SQLite from reading the index by list, because it would read the changes before too.
  sql`${schema}.changes AS l WHERE seq > ${literal(seq)} AND ${either("+", "")}${ofList(list)}`

/** The text before the point of a row that has had another one. */
export const textThen = sql`(SELECT before FROM ${schema}.changes AS b WHERE b.seq = c.text_seq)`

/** A column of the last change up to the point that meets a condition. */
const lastOf = (column: "at" | "rechecked", list: Lists.AnyList, seq: number, condition: Statement): Statement =>
  sql`(SELECT ${raw(column)} FROM ${schema}.changes AS e WHERE e.${ofList(list)} AND e.id = t.id AND e.seq <= ${
    literal(seq)
  } AND ${condition} ORDER BY e.seq DESC LIMIT 1)`

const lastTime = (list: Lists.AnyList, seq: number, condition: Statement): Statement =>
  sql`coalesce(${lastOf("at", list, seq, condition)}, t.first_seen_at)`

const marksMissing = raw("kind = 'missing' AND scan <> 0")

/** The kinds of the changes of a list after the point. */
export const laterKinds = (list: Lists.AnyList, seq: number): Statement =>
  sql`SELECT DISTINCT kind FROM ${laterChanges(list, seq)} AND scan <> 0`

/**
 * The rows with these columns. `valueThen` returns SQL for the value of a column in a text of before; undefined if the
 * value never changes. If the change that set a time was removed, it is the time when the record was first seen.
 */
export const rowsThen = (
  list: Lists.AnyList,
  { nextRow }: ListAsOf,
  { columns, areApart = false, kinds = everyKind, later, seq, valueThen }: {
    readonly seq: number
    readonly columns: ReadonlyArray<string>
    readonly later: string
    /** Whether PostgreSQL reads the rows without later changes apart, without an expression. */
    readonly areApart?: boolean
    /** Those of the later changes, if they are known. */
    readonly kinds?: ReadonlySet<string>
    readonly valueThen: (column: string) => { readonly value: Statement; readonly type: string } | undefined
  }
): Statement => {
  const expressionOf = (name: string): Statement => {
    const column = raw(`t.${quoted(name)}`)
    if (name === "missing_since" || name === "rechecked") {
      // Without an expression, PostgreSQL knows from its statistics how many rows are missing.
      if (!kinds.has("missing") && !kinds.has("returned")) return column
      const missing = name === "rechecked"
        ? lastOf("rechecked", list, seq, marksMissing)
        : lastTime(list, seq, marksMissing)
      const ofReturned = kinds.has("returned") ? sql`WHEN c.mark = ${literal(marks.returned)} THEN ${missing}` : raw("")
      return asType("TEXT", sql`CASE WHEN c.mark IS NULL THEN ${column} ${ofReturned} END`)
    }
    if (name === "changed_at") {
      const isSetLater = sql`EXISTS (SELECT 1 FROM ${schema}.changes AS s WHERE s.${ofList(list)} AND s.id = t.id
        AND s.seq > ${literal(seq)} AND ${setsText})`
      return asType(
        "TEXT",
        sql`CASE WHEN c.is_later AND ${isSetLater} THEN ${lastTime(list, seq, setsText)} ELSE ${column} END`
      )
    }
    const then = valueThen(name)
    return then === undefined
      ? column
      : asType(then.type, sql`CASE WHEN c.text_seq IS NULL THEN ${column} ELSE ${then.value} END`)
  }
  const selected = join(columns.map((name) => sql`${expressionOf(name)} AS ${raw(quoted(name))}`))
  const unchanged = join(columns.map((name) => raw(`t.${quoted(name)}`)))
  const existed = sql`c.mark IS ${either("NOT", "DISTINCT FROM")} ${literal(marks.insert)} AND t."row" < ${
    literal(nextRow)
  }`
  const once = sql`SELECT ${selected} FROM ${tableIn(list)} AS t LEFT JOIN ${raw(later)} AS c ON ${
    either(`c."row" = t."row"`, "c.id = t.id")
  } WHERE ${existed}`
  return !areApart ? once : either(
    once,
    sql`SELECT ${unchanged} FROM ${tableIn(list)} AS t WHERE t."row" < ${literal(nextRow)} AND NOT EXISTS (
        SELECT 1 FROM ${laterChanges(list, seq)} AND l.id = t.id
      ) UNION ALL SELECT ${selected} FROM ${raw(later)} AS c JOIN ${tableIn(list)} AS t ON t.id = c.id WHERE ${existed}`
  )
}

/** SQLite compares values by the type of the column, which an expression has only with CAST. */
const asType = (type: string, value: Statement): Statement => either(sql`CAST(${value} AS ${raw(type)})`, value)

/** The columns of a list's table that have a history. Any other one is a user's own. */
export const columnsThen = (list: Lists.AnyList): ReadonlySet<string> =>
  new Set([
    ...columnsOf(list).map(({ name }) => name),
    "row",
    "raw",
    "hash",
    "first_seen_at",
    "changed_at",
    "missing_since",
    "rechecked"
  ])

/** `changes` up to the point. */
export const changesThen = ({ seq }: Pick<AsOf, "seq">): Statement =>
  sql`SELECT * FROM ${schema}.changes WHERE seq <= ${literal(seq)}`

/** One row with `intact`, if no change after the point was removed. */
export const changesIntact = ({ seq }: Pick<AsOf, "seq">): Statement =>
  sql`SELECT 1 AS intact WHERE NOT EXISTS (SELECT 1 FROM ${schema}.changes_pruned WHERE seq > ${literal(seq)})`

/** One row with `intact`, if no missing row was removed since the point was checked. */
export const rowsIntact = ({ lists }: Pick<AsOf, "lists">): Statement =>
  sql`SELECT 1 AS intact WHERE NOT EXISTS (SELECT 1 FROM ${schema}.rows_pruned WHERE ${
    raw(["false", ...lists.map(({ list, removed }) => `list = '${list}' AND removed > ${removed}`)].join(" OR "))
  })`
