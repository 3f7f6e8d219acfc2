/** The table of facts: what was observed of the service. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { FactTexts } from "../store/Store.ts"
import { readText } from "../store/StoredRows.ts"
import { Given, raw, schema, type Sql, sql } from "./SqlStatement.ts"

export const factsIn = (
  db: Sql,
  { label }: Lists.AnyList,
  service: string | undefined
): Effect.Effect<FactTexts, SinkError> =>
  db.read(
    sql`SELECT fact, evidence FROM ${schema}.facts WHERE list = ${label} AND ${
      service === undefined ? raw("true") : sql`service = ${service}`
    }`,
    (rows) => new Map(rows.map((row) => [readText(row, "fact"), readText(row, "evidence")]))
  )

/** Changes the evidence of a list, in a transaction. A row of another service is replaced. */
export const changeFactsIn = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList,
  service: string,
  change: (stored: FactTexts) => FactTexts
): Effect.fn.Return<void, SinkError> {
  // Two programs may add to one fact. SQLite has one writer.
  if (db.dialect === "postgres") yield* db.run(sql`LOCK TABLE ${schema}.facts IN SHARE ROW EXCLUSIVE MODE`)
  const given = new Given(
    { list: "text", fact: "text", service: "text", evidence: "text" },
    [...change(yield* factsIn(db, list, service))].map(([fact, evidence]) => [list.label, fact, service, evidence])
  )
  if (given.rows.length === 0) return
  yield* db.run(
    sql`INSERT INTO ${schema}.facts (list, fact, service, evidence)
      ${given.values(given.cells(["list", "fact", "service", "evidence"]))} ON CONFLICT (list, fact) DO UPDATE
      SET service = excluded.service, evidence = excluded.evidence`
  )
})
