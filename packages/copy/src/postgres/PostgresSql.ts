/** Runs the statements of both databases over a PostgreSQL schema. */
import { Effect } from "effect"
import { type Parameter, raw, render, type Sql, sql, type Statement, type Style } from "../sql/SqlStatement.ts"
import { maxBytes } from "../store/Store.ts"
import { decoded, readNumber } from "../store/StoredRows.ts"
import * as Client from "./PostgresClient.ts"

/** Runs statements with a query function, that of a transaction, a snapshot or the client. `schema` is quoted. */
export const sqlOver = (query: Client.Query, location: string, schema: string): Sql => {
  const style: Style = { dialect: "postgres", schema, parameter: placeholderOf }
  const all: Sql["all"] = (statement) =>
    Effect.suspend(() => {
      const { parameters, rows, text } = render(statement, style)
      return rows?.length === 0 ? Effect.succeed([]) : query(text, parameters.map(encoded))
    })
  const read: Sql["read"] = (statement, convert) =>
    Effect.flatMap(all(statement), (rows) => decoded(location, () => convert(rows)))
  return {
    location,
    dialect: "postgres",
    read,
    readExact: read,
    all,
    run: (statement) => Effect.asVoid(all(statement)),
    first: (statement, { columns, count, texts }) =>
      Effect.map(
        all(sql`WITH found AS (${statement} LIMIT ${count})
          SELECT place::text AS place, ${raw(columns.join(", "))}, (SELECT count(*) FROM found) AS found FROM (
            SELECT *, row_number() OVER (ORDER BY place) AS number,
              sum(${
          raw(texts.map((text) => `coalesce(octet_length(${text}), 0)`).join(" + "))
        }) OVER (ORDER BY place) AS bytes
            FROM found
          ) AS measured WHERE number = 1 OR bytes <= ${maxBytes} ORDER BY measured.place`),
        (rows) => ({ rows, isWhole: rows.length === readNumber(rows[0], "found") && rows.length < count })
      )
  }
}

/** SQL for the identity of a server that does not show it. */
export const unknownOrigin: Statement = raw("NULL::text")

/** An untyped text gets its type from the place where it is used. */
const placeholderOf = (number: number, parameter: Parameter): string => {
  const { type } = parameter
  if (!("list" in parameter)) return type === "text" ? `$${number}` : `$${number}::${type}`
  return type === "json" || type === "tid" ? `$${number}::text[]::${type}[]` : `$${number}::${type}[]`
}

const encoded = (parameter: Parameter): Client.Parameter => {
  if (!("list" in parameter)) return parameter.value === null ? null : String(parameter.value)
  const { list, type } = parameter
  switch (type) {
    case "bigint":
      return Client.bigintArray(list.map((value) => value === null ? null : Number(value)))
    case "boolean":
      return Client.booleanArray(list.map((value) => value === null ? null : value === 1))
    case "bytea":
      return Client.byteaArray(list.filter((value) => value instanceof Uint8Array))
    default:
      return Client.textArray(list.map((value) => value === null ? null : String(value)))
  }
}
