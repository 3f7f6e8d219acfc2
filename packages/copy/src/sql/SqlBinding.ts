/** What a destination is bound to, and the check of it in every transaction of an export. */
import { Effect } from "effect"
import {
  OtherMerchant,
  OtherSource,
  type OwnerClaim,
  type PersonalBinding,
  type PersonalState,
  type SinkError
} from "../port/Sink.ts"
import { changeSince, toColumns, toPersonalState } from "../store/PersonalBinding.ts"
import { type Commit, maxKeys } from "../store/Store.ts"
import { readOptional, type Row } from "../store/StoredRows.ts"
import { either, fail, Given, schema, type Sql, sql, type Statement } from "./SqlStatement.ts"

/** The source of the destination, if it has any, and the state of its personal data. Each commit compares them. */
export interface Bound extends Pick<PersonalState, "rule" | "rewriting" | "edition"> {
  readonly source: string | undefined
}

/**
 * SQL for the columns of {@link toBound}. It locks the row of `personal`, which an erasure or rewrite locks FOR UPDATE
 * before it reads any text. Commits do not exclude each other: not even the one that writes the rule of an empty
 * destination, which changes no key.
 */
export const boundColumns: Statement = sql`(SELECT source FROM ${schema}.destination) AS source,
  (SELECT ${either("json_object", "json_build_object")}('rule', rule, 'rewriting', rewriting, 'edition', edition)${
  either("", "::text")
} FROM ${schema}.personal ${either("", "FOR KEY SHARE")}) AS personal`

/** Converts a row with {@link boundColumns}. Throws if `personal` has no row. */
export const toBound = (row: Row | undefined): Bound => {
  const [source, personal] = [readOptional(row, "source"), readOptional(row, "personal")]
  const { edition, rewriting, rule } = toPersonalState(personal && { ...JSON.parse(personal), source })
  return { source, rule, rewriting, edition }
}

/** Fails if personal data has changed since a scan or pass read its state. */
export const requirePersonal = (
  db: Sql,
  bound: Bound,
  personal: PersonalBinding
): Effect.Effect<void, SinkError> => {
  const reason = changeSince(bound, personal)
  return reason === undefined ? Effect.void : fail(db, reason)
}

/**
 * Binds the destination to its source and its rule. The first rows bind it, not the first attempt, because an address
 * may be mistyped. Fails if the destination has another source, or if its personal data has changed. Another program
 * may bind it at the same time, so it is read again.
 */
export const bind = Effect.fnUntraced(function*(
  db: Sql,
  before: Bound,
  { personal, source }: Pick<Commit, "personal" | "source">
): Effect.fn.Return<void, SinkError> {
  let bound = before
  if (bound.source === undefined) {
    yield* requirePersonal(db, bound, personal)
    const first = yield* db.all(
      either(
        sql`INSERT INTO ${schema}.destination (only, source) VALUES (1, ${source}) RETURNING source`,
        sql`UPDATE ${schema}.destination SET source = ${source} WHERE source IS NULL RETURNING source`
      )
    )
    if (first.length > 0) {
      const [rule, keyCheck = null] = toColumns(personal.rule) ?? []
      if (rule === undefined) return
      return yield* db.run(
        sql`UPDATE ${schema}.personal SET rule = ${rule}, key_check = coalesce(key_check, ${keyCheck})`
      )
    }
  }
  if (bound.source !== source) {
    bound = yield* db.read(sql`SELECT ${boundColumns}`, ([row]) => toBound(row))
  }
  if (bound.source !== source) {
    return yield* fail(db, new OtherSource({ bound: bound.source ?? "", given: source }))
  }
  yield* requirePersonal(db, bound, personal)
  if (bound.rule === personal.before) {
    yield* db.run(sql`UPDATE ${schema}.personal SET rule = ${toColumns(personal.rule)?.[0] ?? null}`)
  }
})

/**
 * Binds the destination to a key and merchant ids. The caller binds the source first: its row lock lets only one
 * program at a time bind an empty destination.
 */
export const bindOwner = Effect.fnUntraced(function*(
  db: Sql,
  { isFirst, key, merchants }: OwnerClaim
): Effect.fn.Return<void, SinkError> {
  if (isFirst && key !== undefined) {
    const others = yield* db.all(sql`SELECT 1 AS one FROM ${schema}.known_keys WHERE salt <> ${key.salt} LIMIT 1`)
    if (others.length > 0) return yield* fail(db, new OtherMerchant({ by: "race" }))
  }
  const given = new Given({ merchant: "text" }, merchants.map((merchant) => [merchant]))
  yield* db.run(
    sql`INSERT INTO ${schema}.known_merchants (merchant) ${given.values(given.cell("merchant"))} ON CONFLICT DO NOTHING`
  )
  if (key === undefined) return
  yield* db.run(
    sql`INSERT INTO ${schema}.known_keys (salt, fingerprint) VALUES (${key.salt}, ${key.fingerprint}) ON CONFLICT DO NOTHING`
  )
  yield* db.run(
    sql`DELETE FROM ${schema}.known_keys WHERE number <= (SELECT max(number) FROM ${schema}.known_keys) - ${maxKeys}`
  )
})
