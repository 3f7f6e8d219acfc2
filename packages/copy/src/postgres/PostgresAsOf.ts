/**
 * The tables of a schema as they were after a change, as the CTEs of a statement: a transaction that only reads cannot
 * create views. A CTE hides the table of the same name, but not one that is named with its schema, so a first statement
 * over CTEs without rows finds out which tables the user's statement reads besides them.
 */
import { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Column, columnsOf, layoutOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import {
  changesIntact,
  changesThen,
  columnsThen,
  laterChanges,
  laterKinds,
  laterTable,
  markOf,
  rowsIntact,
  rowsThen,
  textThen
} from "../sql/SqlAsOf.ts"
import { columnTypes } from "../sql/SqlDialect.ts"
import { join, quoted, raw, render, schema as schemaName, sql, type Statement } from "../sql/SqlStatement.ts"
import { type AsOf, type ListAsOf, plainTexts, removedMeanwhile, withoutHistory } from "../statement/AsOf.ts"
import { mentionsOf } from "../statement/Mentions.ts"
import type { QueryError } from "../statement/Statement.ts"
import { readText } from "../store/StoredRows.ts"
import type { PostgresClient, Result } from "./PostgresClient.ts"

/** Runs a statement in the transaction of the query. */
export type Run = Effect.Success<ReturnType<PostgresClient["readOnly"]>>

/** What comes before a statement. */
export interface Ctes {
  /** Tables without rows, which have the columns of the real ones. */
  readonly empty: string
  /** Returns SQL for the tables at the point. It reads `changes`, so call it after `requireHistory`. */
  readonly filled: (hasJoin: boolean) => Effect.Effect<string, SinkError | QueryError>
}

interface TableColumn {
  readonly name: string
  readonly type: string
}

/** Returns the CTEs for a user's statement. */
export const ctesOf = Effect.fnUntraced(function*(
  run: Run,
  schema: string,
  typed: string,
  asOf: AsOf
): Effect.fn.Return<Ctes, SinkError | QueryError> {
  const lists = Lists.all.filter(({ label }) => asOf.lists.some(({ list }) => list === label))
  const textOf = textIn(schema)
  const empty: Array<string> = []
  const filled: Array<(hasJoin: boolean) => Effect.Effect<string, SinkError | QueryError>> = []
  const { hasColumn } = mentionsOf(typed)
  for (const table of [...lists.map((list) => layoutOf(list).table), "changes"]) {
    const stored = yield* columnsIn(run, `${quoted(schema)}.${table}`)
    const list = lists.find((one) => layoutOf(one).table === table)
    const known = list === undefined ? undefined : columnsThen(list)
    const columns = stored.filter(({ name }) => known?.has(name) !== false)
    // OFFSET prevents the planner from replacing columns by their constants.
    empty.push(
      `${table} AS (SELECT ${
        columns.map(({ name, type }) => `NULL::${type} AS ${quoted(name)}`).join(", ")
      } WHERE false OFFSET 0)`
    )
    const listAsOf = asOf.lists.find((one) => one.list === list?.label)
    if (list === undefined || listAsOf === undefined) {
      filled.push(() => Effect.succeed(`changes AS NOT MATERIALIZED (${textOf(changesThen(asOf))})`))
      continue
    }
    filled.push((hasJoin) =>
      Effect.map(run(textOf(laterKinds(list, asOf.seq))), (found) => {
        const kinds = new Set(found.rows.map((row) => readText(row, "kind")))
        const { later, rows } = listThen(list, listAsOf, { asOf, columns, hasColumn, hasJoin, kinds })
        return `${laterTable(table)} AS NOT MATERIALIZED (${textOf(later)}), ${table} AS NOT MATERIALIZED (${
          textOf(rows)
        })`
      })
    )
  }
  return {
    empty: `WITH ${empty.join(", ")}`,
    filled: (hasJoin) =>
      Effect.map(Effect.forEach(filled, (table) => table(hasJoin)), (tables) => `WITH ${tables.join(", ")}`)
  }
})

const textIn = (schema: string) => (statement: Statement): string =>
  render(statement, {
    dialect: "postgres",
    schema: quoted(schema),
    parameter: () => {
      throw new Error("a CTE has no parameters")
    }
  }).text

/** Returns the columns of a table, with their types and collations. */
const columnsIn = (run: Run, table: string) =>
  Effect.map(
    run(
      `SELECT attname, format_type(atttypid, atttypmod) || CASE WHEN attcollation IN (0, t.typcollation) THEN ''
        ELSE format(' COLLATE %I', c.collname) END AS type
      FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid LEFT JOIN pg_collation AS c ON c.oid = a.attcollation
      WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
      [table]
    ),
    ({ rows }) => rows.map((row): TableColumn => ({ name: readText(row, "attname"), type: readText(row, "type") }))
  )

/**
 * The values of columns that the statement mentions are computed once for each changed row. Those of other columns are
 * computed where they are used, if at all: a row can be used without the names of its columns.
 */
const listThen = (
  list: Lists.AnyList,
  listAsOf: ListAsOf,
  { asOf, columns, hasColumn, hasJoin, kinds }: {
    readonly asOf: AsOf
    readonly columns: ReadonlyArray<TableColumn>
    readonly hasColumn: (name: string) => boolean
    readonly hasJoin: boolean
    readonly kinds: ReadonlySet<string>
  }
): { readonly later: Statement; readonly rows: Statement } => {
  const { seq } = asOf
  const documented = new Map(columnsOf(list).map((column) => [column.name, column]))
  const mentioned = columns.flatMap(({ name }) => {
    const column = documented.get(name)
    return name === "id" || column === undefined || !hasColumn(name) ? [] : [column]
  })
  const values = mentioned.map((column) => sql`, ${valueIn(column)} AS ${raw(quoted(column.name))}`)
  const texts = mentioned.length === 0
    ? raw("")
    : sql`LEFT JOIN ${changesTable} AS x ON x.seq = l.text_seq AND ${mayHaveText(asOf)} LEFT JOIN LATERAL ${
      membersIn("x.before", mentioned)
    } ON true`
  return {
    later: sql`SELECT l.*${join(values, "")} FROM (
        SELECT id, true AS is_later, min(seq * 4 + ${markOf}) % 4 AS mark,
          min(seq) FILTER (WHERE before IS NOT NULL) AS text_seq
        FROM ${laterChanges(list, seq)} GROUP BY id
      ) AS l ${texts}`,
    rows: rowsThen(list, listAsOf, {
      seq,
      areApart: hasJoin || mentioned.length > mostOfOneScan,
      kinds,
      columns: columns.map(({ name }) => name),
      later: laterTable(layoutOf(list).table),
      valueThen: (name) => {
        if (name === "raw") return { type: "json", value: textThen }
        if (name === "hash") {
          return { type: "text", value: sql`encode(sha256(convert_to((${textThen})::text, 'UTF8')), 'hex')` }
        }
        const column = documented.get(name)
        if (name === "id" || column === undefined) return undefined
        const value = mentioned.includes(column)
          ? raw(`c.${quoted(name)}`)
          : sql`(SELECT ${valueIn(column)} FROM ${changesTable} AS x, LATERAL ${
            membersIn("x.before", [column])
          } WHERE x.seq = c.text_seq)`
        return { type: columnTypes[column.kind], value }
      }
    })
  }
}

/**
 * A statement of up to this many columns without a join reads all rows in one scan, each value with an expression. Any
 * other one reads the rows without later changes in a scan of their own, without expressions: those take time in each row,
 * and the server estimates their conditions badly, which can make a join slow.
 */
const mostOfOneScan = 8

/** SQL for whether a text may have one of those that are searched. */
const mayHaveText = (asOf: AsOf): Statement => {
  const parts = plainTexts(asOf)?.map((_, index) => `$${index + 1}`)
  if (parts === undefined) return raw("true")
  return raw(`(${[`'\\u'`, ...parts].map((part) => `strpos(x.before::text, ${part}) > 0`).join(" OR ")})`)
}

const changesTable = sql`${schemaName}.changes`

/** The members of a text that columns are taken from, as values of type json: the relation `r`. */
const membersIn = (text: string, columns: ReadonlyArray<Column>): Statement => {
  const members = new Set(columns.map(({ path: [member] }) => member))
  return raw(
    `json_to_record(${storableText(text)}) AS r (${[...members].map((member) => `${quoted(member)} json`).join(", ")})`
  )
}

/**
 * PostgreSQL cannot read JSON with an escaped NUL or half a surrogate pair. `storable` of `plan/Columns.ts` replaces
 * both in the columns, so they are replaced here in texts that may have them. Each pair of backslashes is replaced
 * first: after that, every backslash begins an escape.
 */
const storableText = (text: string): string => {
  const [high, low] = ["\\\\u[dD][89abAB][0-9a-fA-F]{2}", "\\\\u[dD][c-fC-F][0-9a-fA-F]{2}"]
  const escapes = `replace(${text}::text, '\\\\', '\\u005c')`
  const stored = [`\\\\u0000`, `${high}(?!${low})`, `(?<!${high})${low}`].reduce(
    (replaced, pattern) => `regexp_replace(${replaced}, '${pattern}', '\\\\ufffd', 'g')`,
    escapes
  )
  const lacks = (part: string): string => `strpos(${text}::text, '${part}') = 0`
  // Most texts have no escape at all, which takes one search instead of three.
  return `CASE WHEN ${lacks("\\u")} THEN ${text}
    WHEN ${["\\u0000", "\\ud", "\\uD"].map(lacks).join(" AND ")} THEN ${text} ELSE ${stored}::json END`
}

/** The greatest integer that a column has, as `cellsOf` of `plan/Columns.ts` computes it. */
const greatest = String(Number.MAX_SAFE_INTEGER)

/** SQL for the value of a column, as `cellsOf` of `plan/Columns.ts` computes it. */
const valueIn = ({ kind, path: [member, inner] }: Column): Statement => {
  const value = inner === undefined ? `r.${quoted(member)}` : `(r.${quoted(member)} -> '${inner}')`
  switch (kind) {
    case "text":
      return raw(`CASE WHEN json_typeof(${value}) = 'string' THEN ${value} #>> '{}' END`)
    case "boolean":
      return raw(`CASE WHEN json_typeof(${value}) = 'boolean' THEN (${value})::text::boolean END`)
    case "integer": {
      // Most amounts are short numbers: no other JSON has such a text. A text of a number may have any length and exponent.
      const number = `(${value})::text`
      return raw(
        `CASE WHEN ${number} ~ '^-?[0-9]{1,15}$' THEN ${number}::bigint
          WHEN json_typeof(${value}) <> 'number' THEN NULL
          WHEN ${number} ~ '^-?0(\\.0*)?[eE]' THEN 0
          WHEN ${number} ~ '^-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$' AND length(${number}) < 1000
            AND ${number}::numeric = trunc(${number}::numeric) AND abs(${number}::numeric) <= ${greatest}
          THEN ${number}::numeric::bigint END`
      )
    }
  }
}

/** Fails if the statement reads a table or view of a user, besides the CTEs. Runs after the statement over empty CTEs. */
export const requireHistory = Effect.fnUntraced(function*(
  run: Run
): Effect.fn.Return<void, SinkError | QueryError> {
  // A statement locks every relation that it names, and those of views, until the transaction ends.
  const { rows } = yield* run(
    `SELECT DISTINCT c.relname FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
    WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      AND c.relkind IN ('r', 'v', 'm', 'f', 'p') ORDER BY c.relname`
  )
  if (rows.length > 0) return yield* withoutHistory(rows.map((row) => readText(row, "relname")))
})

/** Fails if the rows can no longer be reconstructed. */
export const requireIntact = Effect.fnUntraced(function*(
  run: Run,
  schema: string,
  asOf: AsOf
): Effect.fn.Return<void, SinkError | QueryError> {
  const isIntact = (statement: Statement): Effect.Effect<boolean, SinkError | QueryError> =>
    Effect.map(run(textIn(schema)(statement)), ({ rows }: Result) => rows.length > 0)
  const { rows } = yield* run("SELECT to_regclass($1) IS NOT NULL AS there", [`${quoted(schema)}.rows_pruned`])
  if (
    !(yield* isIntact(changesIntact(asOf))) || (rows[0]?.["there"] === true && !(yield* isIntact(rowsIntact(asOf))))
  ) {
    return yield* removedMeanwhile()
  }
})
