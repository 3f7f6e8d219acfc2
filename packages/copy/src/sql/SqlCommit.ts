/** The statements of a commit. Those with nothing to write are skipped. */
import type { Lists } from "@payments/core"
import { Effect, Function } from "effect"
import { layoutOf } from "../plan/Columns.ts"
import { RowsRemoved, type SinkError } from "../port/Sink.ts"
import { keepText } from "../rule/StoredRule.ts"
import type { Certified, ChangeRow, Commit, Committed, Fill, NewScan, PassCommit } from "../store/Store.ts"
import { readNumber, readOptionalNumber, readText } from "../store/StoredRows.ts"
import { bind, bindOwner, type Bound, requirePersonal } from "./SqlBinding.ts"
import { columnTypes, readJson, tableIn } from "./SqlDialect.ts"
import { lastChange } from "./SqlGenerations.ts"
import {
  either,
  fail,
  Given,
  GivenColumns,
  givenIn,
  integer,
  isOneOfIntegers,
  isOneOfTexts,
  join,
  json,
  quoted,
  raw,
  rowOf,
  schema,
  type Sql,
  sql,
  type Statement,
  time
} from "./SqlStatement.ts"

/** What a transaction of an export compares when it starts, and the generation of its changes. */
export interface Start {
  readonly bound: Bound
  readonly generation: string
}

export interface Counted<A> {
  readonly result: A
  readonly changes: number
}

const outdated = { result: "outdated", changes: 0 } as const

export const write = Effect.fnUntraced(function*(
  db: Sql,
  { bound, generation }: Start,
  commit: Commit
): Effect.fn.Return<Counted<Committed>, SinkError> {
  const { checkpoint, end, list, now, owner, plan, restart = false, scan, seen } = commit
  yield* bind(db, bound, commit)
  if (!(yield* reappearedRowsExist(db, list, plan))) return outdated
  if (owner !== undefined) yield* bindOwner(db, owner)
  if (restart) yield* forgetScans(db, [scan])
  const pieces = new Given({ piece: "bigint", bits: "bytea" }, seen.map(({ bits, index }) => [index, bits]))
  const updated = yield* together(
    db,
    {
      ...planned(db, { ...commit, generation }),
      seen: sql`INSERT INTO ${schema}.seen (scan, piece, bits)
        ${pieces.values(sql`${scan}, ${pieces.cells(["piece", "bits"])}`)}
        ON CONFLICT (scan, piece) DO UPDATE SET bits = excluded.bits`
    },
    sql`UPDATE ${schema}.scans SET ${totalsSet(commit)}, checkpoint = ${
      checkpoint ?? null
    } WHERE scan = ${scan} RETURNING scan`
  )
  if (updated.length === 0) return yield* fail(db, new RowsRemoved({ label: list.label }))
  if (plan.writes.length + plan.reappeared.length + (end?.missing.size ?? 0) > 0) yield* incrementRevision(db, list)
  const changes = plan.changes.length
  if (end === undefined) return { result: "whole", changes }
  if (end.certified !== undefined && !(yield* hasCertifiedContent(db, list, scan, end.certified))) {
    yield* db.run(sql`UPDATE ${schema}.scans SET state = 'incomplete', ended_at = ${time(now)} WHERE scan = ${scan}`)
    return { result: "rowsRemoved", changes }
  }
  return { result: "whole", changes: changes + (yield* endScan(db, { ...commit, end, generation })) }
})

/** Returns the number of rows that it has marked missing. */
const endScan = Effect.fnUntraced(function*(
  db: Sql,
  { end, generation, list, now, scan }: Commit & Pick<Start, "generation"> & {
    readonly end: NonNullable<Commit["end"]>
  }
): Effect.fn.Return<number, SinkError> {
  const marked = new Given(
    { number: "bigint", rechecked: "text" },
    [...end.missing].map(([row, rechecked = null]) => [row, rechecked])
  )
  const missing = marked.rows.length === 0 ? [] : yield* db.all(
    sql`UPDATE ${tableIn(list)} AS t SET missing_since = ${time(now)}, ${marked.set(["rechecked"])} ${marked}
      WHERE t."row" = ${marked.cell("number")} RETURNING "row", id`
  )
  yield* appendChanges(db, {
    list,
    scan,
    now,
    generation,
    changes: missing.toSorted((one, other) => readNumber(one, "row") - readNumber(other, "row")).map((row) => ({
      kind: "missing",
      id: readText(row, "id"),
      rechecked: end.missing.get(readNumber(row, "row"))
    }))
  })
  yield* together(
    db,
    {
      ...forgotten(end.forget),
      quarantined_by_passes: end.previous === undefined ?
        undefined :
        sql`DELETE FROM ${schema}.quarantine WHERE scan IN (
        SELECT scan FROM ${schema}.scans WHERE list = ${list.label} AND kind IN ('head', 'window')
          AND scan > ${end.previous} AND scan < ${scan}
      )`
    },
    // The number of the last change. In PostgreSQL, a transaction of another list may be assigning further numbers.
    sql`UPDATE ${schema}.scans SET state = ${end.state}, certificate = ${json(end.certificate ?? null)}, ended_at = ${
      time(now)
    },
      last_change = ${end.state === "complete" ? lastChange : raw("NULL")} WHERE scan = ${scan}`
  )
  return missing.length
})

/**
 * Returns the number of the pass. Writes nothing if the totals to correct have changed, or if a row that reappeared was
 * removed.
 */
export const writePass = Effect.fnUntraced(function*(
  db: Sql,
  { bound, generation }: Start,
  commit: PassCommit
): Effect.fn.Return<Counted<number | "outdated">, SinkError> {
  const { correction, list, now, owner, pass, plan } = commit
  yield* bind(db, bound, commit)
  if (!(yield* reappearedRowsExist(db, list, plan))) return outdated
  if (correction !== undefined) {
    const corrected = yield* db.all(
      sql`UPDATE ${schema}.scans SET totals = ${json(correction.totals)}
      WHERE scan = ${correction.scan} AND ${either("totals", "totals::text")} = ${correction.before} RETURNING scan`
    )
    if (corrected.length === 0) return outdated
  }
  if (owner !== undefined) yield* bindOwner(db, owner)
  const { firstRow, kind, request, startedAt, totals } = pass
  const scan = pass.scan ??
    (yield* insertScan(db, { list, kind, part: "", request, state: "complete", firstRow, totals, now: startedAt }))
  yield* together(db, planned(db, { list, plan, scan, now, generation }))
  if (plan.writes.length + plan.reappeared.length > 0) yield* incrementRevision(db, list)
  yield* db.run(
    sql`UPDATE ${schema}.scans SET ${totalsSet(pass)}, ended_at = ${
      time(now)
    }, last_change = ${lastChange} WHERE scan = ${scan}`
  )
  return { result: scan, changes: plan.changes.length }
})

/** Also abandons a running scan of the same part. Returns the new scan's number. */
export const startScan = Effect.fnUntraced(function*(
  db: Sql,
  { bound }: Pick<Start, "bound">,
  scan: NewScan
): Effect.fn.Return<number, SinkError> {
  yield* requirePersonal(db, bound, scan.personal)
  yield* db.run(
    sql`UPDATE ${schema}.scans SET state = 'abandoned', ended_at = ${time(scan.now)}
    WHERE list = ${scan.list.label} AND part = ${scan.part} AND state = 'running'`
  )
  return yield* insertScan(db, asRunning(scan))
})

/**
 * The same as one statement of PostgreSQL, where `locked` has {@link boundColumns}. It stores nothing, and returns no
 * row, if a scan of the part is running or if personal data may have changed.
 */
export const startAtOnce = (scan: NewScan): Statement => {
  const { edition, rule } = scan.personal
  return sql`INSERT INTO ${schema}.scans (${raw(newScanColumns)})
    SELECT ${newScan(asRunning(scan))} FROM locked WHERE (personal::json ->> 'edition')::bigint = ${edition}
      AND personal::json ->> 'rewriting' IS NULL AND coalesce(personal::json ->> 'rule', ${keepText}) = ${rule}
    ON CONFLICT DO NOTHING RETURNING scan`
}

const asRunning = (scan: NewScan) => ({ ...scan, kind: scan.part === "" ? "full" : "part", state: "running" })

const newScanColumns = "list, kind, part, request, state, first_row, totals, started_at"

interface StoredScan extends Omit<NewScan, "personal"> {
  readonly kind: string
  readonly state: string
}

const newScan = ({ firstRow, kind, list, now, part, request, state, totals }: StoredScan): Statement =>
  sql`${list.label}, ${kind}, ${part}, ${request}, ${state}, ${firstRow}, ${json(totals)}, ${time(now)}`

const insertScan = (db: Sql, scan: StoredScan): Effect.Effect<number, SinkError> =>
  db.read(
    sql`INSERT INTO ${schema}.scans (${raw(newScanColumns)}) VALUES (${newScan(scan)}) RETURNING scan`,
    ([row]) => readNumber(row, "scan")
  )

const totalsSet = ({ counts: { pages, records }, totals }: Pick<Commit, "totals" | "counts">): Statement =>
  sql`totals = ${json(totals)}, pages = ${pages}, records = ${records}`

/** Statements by name. Those without rows to write, or undefined, do not run. */
type Writes = { readonly [name: string]: Statement | undefined }

/**
 * Runs statements, and returns the rows of the last one. SQLite runs them in order. PostgreSQL runs them as one statement,
 * because each run waits for the server: so none of them sees what the others write, but for their `RETURNING`.
 */
const together = (
  db: Sql,
  writes: Writes,
  last?: Statement
): ReturnType<Sql["all"]> => {
  const given = Object.entries(writes).flatMap(([name, one]) =>
    one === undefined || givenIn(one)?.rows.length === 0 ? [] : [[name, one] as const]
  )
  const [, final] = last === undefined ? given.pop() ?? [] : ["", last]
  if (final === undefined) return Effect.succeed([])
  if (db.dialect === "sqlite") {
    const before = Effect.forEach(given, ([, one]) => db.run(one), { discard: true })
    return Effect.andThen(before, last === undefined ? Effect.as(db.run(final), []) : db.all(final))
  }
  const before = given.map(([name, one]) => sql`${raw(name)} AS (${one})`)
  return db.all(before.length === 0 ? final : sql`WITH ${join(before)} ${final}`)
}

/**
 * Asks whether the rows that reappeared exist. `prune` may have removed them, because they were missing. It removes no
 * other rows. From now on until the transaction ends, it does not remove them.
 */
const reappearedRowsExist = (
  db: Sql,
  list: Lists.AnyList,
  { reappeared }: Commit["plan"]
): Effect.Effect<boolean, SinkError> =>
  reappeared.length === 0 ? Effect.succeed(true) : db.read(
    sql`SELECT "row" FROM ${tableIn(list)} WHERE "row" ${isOneOfIntegers(reappeared)} ${
      either("", `ORDER BY "row" FOR UPDATE`)
    }`,
    (found) => found.length === reappeared.length
  )

/** The writes of a plan. Each writes other rows, as PostgreSQL requires of one statement. */
const planned = (
  db: Sql,
  { generation, list, now, plan, scan }: Pick<Commit, "list" | "now" | "plan" | "scan"> & Pick<Start, "generation">
): Writes => {
  const { columns, names, quotedNames, withRow } = rowColumnsOf(list)
  const given = (isNew: boolean) =>
    new Given(columns, plan.writes.filter((one) => one.isNew === isNew).map(({ cells }) => cells))
  const [inserted, updated] = [given(true), given(false)]
  const written = new Set(plan.reappeared.length === 0 ? [] : plan.writes.map(({ row }) => row))
  const reappeared = plan.reappeared.filter((row) => !written.has(row))
  const quarantined = new Given(
    { id: "text", path: "text", expected: "text", raw: "text" },
    plan.quarantined.map(({ expected, id = null, path, raw: text }) => [id, path, expected, text])
  )
  return {
    inserted: sql`INSERT INTO ${tableIn(list)} (${quotedNames}, "row", first_seen_at, changed_at)
      ${inserted.values(sql`${inserted.cells(withRow)}, ${time(now)}, ${time(now)}`)}`,
    updated: sql`UPDATE ${tableIn(list)} AS t SET ${updated.set(names)}, changed_at = ${
      time(now)
    }, missing_since = NULL, rechecked = NULL ${updated}
      WHERE t."row" = ${updated.cell("row")}`,
    reappeared: reappeared.length === 0
      ? undefined
      : sql`UPDATE ${tableIn(list)} SET missing_since = NULL, rechecked = NULL WHERE "row" ${
        isOneOfIntegers(reappeared)
      }`,
    ...appended(db, { list, scan, now, generation, changes: plan.changes }),
    quarantined: sql`INSERT INTO ${schema}.quarantine (scan, list, id, path, expected, raw)
      ${quarantined.values(sql`${scan}, ${list.label}, ${quarantined.cells(["id", "path", "expected", "raw"])}`)}`
  }
}

/** Returns what each commit writes about the columns of a list. */
const rowColumnsOf = Function.memoize((list: Lists.AnyList) => {
  const { columns } = layoutOf(list)
  const names = [...columns.map(({ name }) => name), "raw", "hash"]
  return {
    names,
    withRow: [...names, "row"],
    quotedNames: raw(names.map(quoted).join(", ")),
    columns: new GivenColumns({
      ...Object.fromEntries(columns.map(({ kind, name }) => [name, columnTypes[kind]])),
      raw: "json",
      hash: "text",
      row: "bigint"
    })
  }
})

/** Appends changes of a list in the generation, and counts them by UTC day. */
export const appendChanges = (db: Sql, changes: Appended): Effect.Effect<unknown, SinkError> =>
  together(db, appended(db, changes))

interface Appended extends Pick<Commit, "list" | "scan" | "now">, Pick<Start, "generation"> {
  readonly changes: ReadonlyArray<
    & Pick<ChangeRow, "kind" | "id">
    & { readonly [Text in "before" | "after" | "rechecked"]?: string | undefined }
    & { readonly fields?: ReadonlyArray<string> }
  >
}

const appended = (db: Sql, { changes, generation, list, now, scan }: Appended): Writes => {
  if (changes.length === 0) return {}
  const isRechecked = changes.some(({ rechecked }) => rechecked !== undefined)
  const given = new Given(
    {
      kind: "text",
      id: "text",
      fields: "json",
      before: "json",
      after: "json",
      ...isRechecked ? { rechecked: "text" } : {}
    },
    changes.map(({ after = null, before = null, fields = [], id, kind, rechecked = null }) => [
      kind,
      id,
      JSON.stringify(fields),
      before,
      after,
      ...isRechecked ? [rechecked] : []
    ])
  )
  const counts = [...Map.groupBy(changes, ({ kind }) => kind)].map(([kind, { length }]) =>
    sql`(${list.label}, ${day(now)}, ${kind}, ${length})`
  )
  const values = sql`${either("", "numbered.seq + given.nth, ")}${list.label}, ${scan}, ${time(now)},
    ${given.cells(["kind", "id", "fields", "before", "after"])}, ${either(sql`${generation}`, "numbered.generation")}${
    isRechecked ? sql`, ${given.cell("rechecked")}` : raw("")
  }`
  return {
    counted: sql`INSERT INTO ${schema}.change_counts AS c (list, day, kind, changes) VALUES ${join(counts)}
      ON CONFLICT (list, day, kind) DO UPDATE SET changes = c.changes + excluded.changes`,
    // PostgreSQL's numbers have no gap, so that a reader who has seen a number never finds a lower one later. The row
    // of `destination` is locked until the transaction ends. Another program may have begun a generation before.
    numbered: db.dialect === "sqlite" ?
      undefined :
      sql`UPDATE ${schema}.destination SET changes = changes + ${changes.length}
      RETURNING changes - ${changes.length} AS seq, generation`,
    appended: sql`INSERT INTO ${schema}.changes
      (${either("", "seq, ")}list, scan, at, kind, id, fields, before, after, generation${
      raw(isRechecked ? ", rechecked" : "")
    })
      ${given.values(values)}${either("", ", numbered")}`
  }
}

/** The UTC day of a time. */
const day = (now: string): Statement => sql`${now.slice(0, "2024-05-01".length)}${either("", "::date")}`

/** Notes in SQLite that rows of the list have changed, so that its rendered file is outdated. */
export const incrementRevision = (db: Sql, list: Lists.AnyList): Effect.Effect<void, SinkError> =>
  db.dialect === "postgres" ? Effect.void : db.run(
    sql`INSERT INTO ${schema}.revisions (list, revision) VALUES (${list.label}, 1)
    ON CONFLICT (list) DO UPDATE SET revision = revision + 1`
  )

/** Deletes what is stored of scans besides their rows: the sets of seen rows, and quarantined records. */
export const forgetScans = (db: Sql, scans: ReadonlyArray<number>): Effect.Effect<unknown, SinkError> =>
  together(db, forgotten(scans))

const forgotten = (scans: ReadonlyArray<number>): Writes =>
  scans.length === 0 ? {} : {
    forgotten_seen: sql`DELETE FROM ${schema}.seen WHERE scan ${isOneOfIntegers(scans)}`,
    forgotten_quarantine: sql`DELETE FROM ${schema}.quarantine WHERE scan ${isOneOfIntegers(scans)}`
  }

/** Fills columns of rows, and records how far they are filled. */
export const fill = Effect.fnUntraced(function*(
  db: Sql,
  { bound }: Pick<Start, "bound">,
  { columns, list, personal, rows, unfilledFrom }: Fill
): Effect.fn.Return<void, SinkError> {
  yield* requirePersonal(db, bound, personal)
  const names = columns.map(({ name }) => name)
  const given = new Given(
    { ...Object.fromEntries(columns.map(({ kind, name }) => [name, columnTypes[kind]])), row: "bigint" },
    rows.map(({ cells, row }) => [...cells, row])
  )
  yield* db.run(
    sql`UPDATE ${tableIn(list)} AS t SET ${given.set(names)} ${given} WHERE t."row" = ${given.cell("row")}`
  )
  yield* db.run(
    sql`UPDATE ${schema}.list_columns SET unfilled_from = ${integer(unfilledFrom ?? null)}
    WHERE list = ${list.label} AND name ${isOneOfTexts(names)}`
  )
})

const rowsPerLookup = 10_000

/** Asks whether the tables have the certified rows and quarantined records. */
const hasCertifiedContent = Effect.fnUntraced(function*(
  db: Sql,
  list: Lists.AnyList,
  scan: number,
  { quarantined, rows, withoutId }: Certified
): Effect.fn.Return<boolean, SinkError> {
  const table = tableIn(list)
  const found = yield* rowOf(
    db,
    sql`SELECT (SELECT count(*) FROM ${table}) AS count, (SELECT coalesce(max("row"), -1) FROM ${table}) AS highest,
      count(*) AS quarantined, count(*) - count(id) AS without_id FROM ${schema}.quarantine WHERE scan = ${scan}`
  )
  if (readNumber(found, "quarantined") !== quarantined || readNumber(found, "without_id") !== withoutId) return false
  const [count, highest] = [readNumber(found, "count"), readNumber(found, "highest")]
  if (rows.highest > highest) return false
  // If the row numbers have no gap, all rows exist.
  if (count === highest + 1) return true
  // Other writers wait for this transaction, so look up the certified row numbers or the others: whichever are fewer.
  const areCertified = rows.size <= highest / 2
  let existing = 0
  let numbers: Array<number> = []
  for (let row = 0; row <= highest; row++) {
    if (rows.has(row) === areCertified) numbers.push(row)
    if (numbers.length < rowsPerLookup && row < highest) continue
    const looked = yield* rowOf(db, sql`SELECT count(*) AS count FROM ${table} WHERE "row" ${isOneOfIntegers(numbers)}`)
    existing += readNumber(looked, "count")
    numbers = []
  }
  return (areCertified ? existing : count - existing) === rows.size
})

/**
 * Returns the result of an earlier run of the same commit. If that run wrote something, the scan has the totals of the
 * commit: rows that reappeared add to them.
 */
export const resultOf = (db: Sql, { end, plan, scan, totals }: Commit): Effect.Effect<Committed, SinkError> =>
  end?.state !== "complete" && plan.reappeared.length === 0
    ? Effect.succeed("whole")
    : db.read(
      sql`SELECT state, ${readJson("totals")} FROM ${schema}.scans WHERE scan = ${scan}`,
      ([row]) =>
        readText(row, "totals") !== totals
          ? "outdated"
          : end?.state === "complete" && readText(row, "state") !== "complete"
          ? "rowsRemoved"
          : "whole"
    )

/**
 * Returns the result of an earlier run of the same commit. If that run wrote something, the last pass of its kind has
 * the totals of the commit: each commit of a pass adds to them.
 */
export const passOf = (db: Sql, { list, pass }: PassCommit): Effect.Effect<number | "outdated", SinkError> =>
  db.read(
    sql`SELECT max(scan) AS scan FROM ${schema}.scans WHERE list = ${list.label} AND kind = ${pass.kind}
      AND started_at = ${time(pass.startedAt)} AND ${either("totals", "totals::text")} = ${pass.totals}`,
    ([row]) => readOptionalNumber(row, "scan") ?? "outdated"
  )

export const runningScan = (db: Sql, { list, part }: NewScan): Effect.Effect<number, SinkError> =>
  db.read(
    sql`SELECT scan FROM ${schema}.scans WHERE list = ${list.label} AND part = ${part} AND state = 'running'`,
    ([row]) => readNumber(row, "scan")
  )
