/** The table of facts: what was observed of the service. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { FactTexts } from "../store/Store.ts"
import { readText } from "../store/StoredRows.ts"
import { Given, raw, schema, type Sql, sql } from "./SqlStatement.ts"

/** `convert` may throw `Damaged`. */
export const factsIn = <A>(
  db: Sql,
  { label }: Lists.AnyList,
  service: string | undefined,
  convert: (stored: FactTexts) => A
): Effect.Effect<A, SinkError> =>
  db.read(
    sql`SELECT fact, evidence FROM ${schema}.facts WHERE list = ${label} AND ${
      service === undefined ? raw("true") : sql`service = ${service}`
    }`,
    (rows) => convert(new Map(rows.map((row) => [readText(row, "fact"), readText(row, "evidence")])))
  )

/** Changes the evidence of a list, in a transaction. */
export const changeFactsIn = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList,
  service: string,
  change: (stored: FactTexts) => FactTexts
): Effect.fn.Return<void, SinkError> {
  // Two programs may add to one fact. SQLite has one writer.
  if (db.dialect === "postgres") yield* db.run(sql`LOCK TABLE ${schema}.facts IN SHARE ROW EXCLUSIVE MODE`)
  const changed = yield* factsIn(db, list, service, change)
  const given = new Given(
    { service: "text", list: "text", fact: "text", evidence: "text" },
    [...changed].map(([fact, evidence]) => [service, list.label, fact, evidence])
  )
  if (given.rows.length === 0) return
  yield* db.run(
    sql`INSERT INTO ${schema}.facts (service, list, fact, evidence)
      ${given.values(given.cells(["service", "list", "fact", "evidence"]))}
      ON CONFLICT (service, list, fact) DO UPDATE SET evidence = excluded.evidence`
  )
})
