/** The statements of erasures and rewrites in an SQLite file. */
import type { Lists } from "@payments/core"
import { Cause, Effect, Exit } from "effect"
import { layoutOf, tableOf } from "../plan/Columns.ts"
import { NotADestination, SinkError } from "../port/Sink.ts"
import { earlierVersion, generationVersion, personalVersion } from "../store/Migrations.ts"
import { personalColumns } from "../store/PersonalBinding.ts"
import type {
  CertifiedTexts,
  FoundTexts,
  RedactionStatements,
  RedactionStore,
  Selection,
  TextTable
} from "../store/RedactionStore.ts"
import {
  readBytes,
  readNumber,
  readOptional,
  readText,
  type Row,
  toChange,
  toErasure,
  toPersonalRow
} from "../store/Rows.ts"
import { maxBytes } from "../store/Store.ts"
import type { Database, SqliteClient } from "./SqliteClient.ts"
import { countChanges, incrementRevision } from "./SqliteCommit.ts"
import { currentGeneration, lastChange, versionOf } from "./SqliteGenerations.ts"
import { rowsOf } from "./SqliteRows.ts"

/** The limits of a step: texts, and positions that are searched, so that a step blocks the thread for a short time only. */
const [stepTexts, stepPositions] = [1000, 20_000] as const

/** Makes the functions of a {@link RedactionStore}. */
export const redactionOver = (
  { run, unlockedTransaction, wipe }: Pick<SqliteClient, "run" | "unlockedTransaction" | "wipe">
): RedactionStore => ({
  redact: (body) =>
    unlockedTransaction((db) => {
      // SQLite runs synchronously, and so does a body of these statements. One that waits would fail here.
      const exit = Effect.runSyncExit(body(statementsOver(db)))
      if (Exit.isSuccess(exit)) return exit.value
      const error = Cause.squash(exit.cause)
      throw error instanceof SinkError ? error.reason : error
    }),
  search: (list, table, needles, after) => run((db) => search(db, list, table, needles, Number(after ?? -1))),
  // An earlier version has erased nothing.
  erasures: run((db) =>
    versionOf(db) < personalVersion ? [] : db.all("SELECT * FROM erasures ORDER BY erasure").map(toErasure)
  ),
  wipe
})

/** The position, the id and the texts of each table. */
const textsIn = (list: Lists.AnyList, table: TextTable) =>
  ({
    rows: { from: tableOf(list), place: "row", id: "id", texts: ["raw"], where: "" },
    changes: { from: "changes", place: "seq", id: "id", texts: ["before", "after"], where: "AND +list = ?1" },
    quarantine: { from: "quarantine", place: "rowid", id: "id", texts: ["raw"], where: "AND list = ?1" }
  })[table]

const search = (
  db: Database,
  list: Lists.AnyList,
  table: TextTable,
  needles: ReadonlyArray<string>,
  after: number
): { readonly found: ReadonlyArray<FoundTexts>; readonly next: string | undefined } => {
  const { from, id, place, texts, where } = textsIn(list, table)
  const last = readNumber(db.get(`SELECT coalesce(max(${place}), -1) AS last FROM ${from}`), "last")
  const end = Math.min(after + stepPositions, last)
  const [needleParameters, values] = [needles.map((_, index) => `?${index + 4}`), [list.label, after, end, ...needles]]
  const filter = needles.length === 0
    ? "true"
    : texts.flatMap((column) => [...needleParameters, "'\\'"].map((needle) => `instr(${column}, ${needle}) > 0`))
      .join(" OR ")
  const found: Array<FoundTexts> = []
  let length = 0
  const rows = db.prepare(
    `SELECT ${place} AS place, ${id} AS id, ${texts.join(", ")} FROM ${from}
    WHERE ?1 IS NOT NULL AND ${place} > ?2 AND ${place} <= ?3 ${where} AND (${filter}) ORDER BY ${place}`
  )
  for (const row of rowsOf(rows, values)) {
    const those = texts.flatMap((column) => readOptional(row, column) ?? [])
    found.push({ id: readOptional(row, "id"), texts: those })
    length += those.reduce((sum, { length: characters }) => sum + characters, 0)
    if (length > maxBytes) return { found, next: readText(row, "place") }
  }
  return { found, next: end >= last ? undefined : String(end) }
}

const statementsOver = (db: Database): RedactionStatements => {
  const sync = Effect.sync
  return {
    state: sync(() => {
      if (versionOf(db) < generationVersion) throw new NotADestination({ problem: earlierVersion })
      return toPersonalRow(db.get(`SELECT ${personalColumns} FROM personal`))
    }),
    setState: ({ edition, keyCheck = null, rewriting = null, rule = null }) =>
      sync(() =>
        db.run(
          "UPDATE personal SET rule = ?, rewriting = ?, edition = ?, key_check = ?",
          rule,
          rewriting,
          edition,
          keyCheck
        )
      ),
    suppress: (hashes, erasure) =>
      sync(() => {
        const insert = db.prepare("INSERT OR IGNORE INTO suppressed (hash, erasure) VALUES (?, ?)")
        return hashes.map((hash) => insert.run(hash, erasure).changes).some((added) => Number(added) > 0)
      }),
    hasSuppressed: sync(() => db.get("SELECT 1 FROM suppressed") !== undefined),
    suppressedAmong: (hashes) =>
      sync(() =>
        new Set(
          db.all("SELECT hash FROM suppressed WHERE hash IN (SELECT value FROM json_each(?))", JSON.stringify(hashes))
            .map((row) => readText(row, "hash"))
        )
      ),
    openErasure: ({ by, hash, kind, startedAt }) =>
      sync(() => {
        const open = db.get(
          "SELECT erasure FROM erasures WHERE hash = ? AND kind = ? AND completed_at IS NULL ORDER BY erasure",
          hash,
          kind
        )
        if (open !== undefined) return readNumber(open, "erasure")
        return Number(
          db.prepare("INSERT INTO erasures (hash, kind, by, started_at) VALUES (?, ?, ?, ?)")
            .run(hash, kind, by, startedAt).lastInsertRowid
        )
      }),
    countErased: (erasure, { changes, quarantined, records }) =>
      sync(() =>
        db.run(
          `UPDATE erasures SET records = records + ?, changes = changes + ?, quarantined = quarantined + ?
          WHERE erasure = ?`,
          records,
          changes,
          quarantined,
          erasure
        )
      ),
    completeErasures: (erasures, now) =>
      sync(() =>
        db.run(
          `UPDATE erasures SET completed_at = ?
          WHERE erasure IN (SELECT value FROM json_each(?)) AND completed_at IS NULL`,
          now,
          JSON.stringify(erasures)
        )
      ),
    hasTable: (list) => sync(() => db.get("SELECT 1 FROM list_columns WHERE list = ?", list.label) !== undefined),
    isLoaded: (list) =>
      sync(() =>
        db.get(
          "SELECT 1 FROM scans WHERE list = ? AND state = 'complete' AND kind IN ('full', 'part')",
          list.label
        ) !== undefined
      ),
    lastChange: sync(() => readNumber(db.get(`SELECT ${lastChange} AS last`), "last")),
    certified: (list) =>
      sync(() => {
        const scan = db.get(
          `SELECT scan, certificate, last_change FROM scans WHERE scan = (${certifiedScan})`,
          list.label
        )
        return scan === undefined ? undefined : {
          scan: readNumber(scan, "scan"),
          certificate: readOptional(scan, "certificate"),
          lastChange: readOptional(scan, "last_change") === undefined ? undefined : readNumber(scan, "last_change")
        }
      }),
    setCertificate: (scan, certificate) =>
      sync(() => db.run("UPDATE scans SET certificate = ? WHERE scan = ?", certificate, scan)),
    seen: (scan, pieces) =>
      sync(() =>
        db.all(
          "SELECT piece, bits FROM seen WHERE scan = ? AND piece IN (SELECT value FROM json_each(?))",
          scan,
          JSON.stringify(pieces)
        ).map((row) => ({ index: readNumber(row, "piece"), bits: readBytes(row, "bits") }))
      ),
    rows: (list, { after, ids, through = Number.MAX_SAFE_INTEGER }) =>
      sync(() =>
        limited(
          db,
          `SELECT row, id, raw, missing_since IS NOT NULL AS missing FROM ${tableOf(list)}
          WHERE row > ?1 AND row <= ?2 ${among(ids)} ORDER BY row LIMIT ${stepTexts}`,
          [after, through, ...idParameter(ids)],
          ["raw"]
        ).map((row) => ({
          row: readNumber(row, "row"),
          id: readText(row, "id"),
          raw: readText(row, "raw"),
          missing: row["missing"] === 1
        }))
      ),
    changedSince: (list, scan, ids) =>
      sync(() =>
        new Set(
          db.all(
            `SELECT DISTINCT id FROM changes WHERE list = ?1 AND id IN (SELECT value FROM json_each(?2))
            AND before IS NOT NULL AND ${isAfter(scan, "changes")}`,
            list.label,
            JSON.stringify(ids)
          ).map((row) => readText(row, "id"))
        )
      ),
    changes: (list, scan, { after, ids, through = Number.MAX_SAFE_INTEGER }) =>
      sync(() =>
        limited(
          db,
          `SELECT seq, list, scan, at, kind, id, fields, before, after, ${certifiedRow(list, scan)} AS certified_row
          FROM changes AS c WHERE ${ids === undefined ? "+list" : "list"} = ?4 AND seq > ?1 AND seq <= ?2 ${
            among(ids)
          } ORDER BY seq LIMIT ${stepTexts}`,
          [after, through, ids === undefined ? null : JSON.stringify(ids), list.label],
          ["before", "after"]
        ).map((row) => ({
          ...toChange(row),
          certifiedRow: readOptional(row, "certified_row") === undefined ? undefined : readNumber(row, "certified_row")
        }))
      ),
    replaceQuarantined: (list, use) =>
      Effect.gen(function*() {
        const update = db.prepare("UPDATE quarantine SET path = ?, raw = ? WHERE rowid = ?")
        for (let after = 0;;) {
          const batch = limited(
            db,
            `SELECT rowid AS place, id, path, raw FROM quarantine WHERE rowid > ? AND list = ? ORDER BY rowid
            LIMIT ${stepTexts}`,
            [after, list.label],
            ["raw"]
          ).map((row) => ({
            place: readText(row, "place"),
            id: readOptional(row, "id"),
            path: readText(row, "path"),
            raw: readText(row, "raw")
          }))
          const last = batch.at(-1)
          if (last === undefined) return
          for (const { path, place, raw } of yield* use(batch)) update.run(path, raw, Number(place))
          after = Number(last.place)
        }
      }),
    writeRows: (list, rows, now) =>
      sync(() => {
        const recorded = new Set(
          db.all("SELECT name FROM list_columns WHERE list = ?", list.label).map((row) => readText(row, "name"))
        )
        const columns = layoutOf(list).columns.flatMap(({ name }, index) => recorded.has(name) ? [{ name, index }] : [])
        const update = db.prepare(
          `UPDATE ${tableOf(list)} SET ${columns.map(({ name }) => `${name} = ?, `).join("")} raw = ?, hash = ?,
          changed_at = coalesce(?, changed_at) WHERE row = ?`
        )
        for (const { cells, hash, raw, row } of rows) {
          update.run(...columns.map(({ index }) => cells[index] ?? null), raw, hash, now ?? null, row)
        }
        if (rows.length > 0) incrementRevision(db, list)
      }),
    writeChanges: (changes) =>
      sync(() => {
        const update = db.prepare("UPDATE changes SET fields = ?, before = ?, after = ? WHERE seq = ?")
        for (const { after = null, before = null, fields, seq } of changes) {
          update.run(JSON.stringify(fields), before, after, seq)
        }
      }),
    appendChanges: (list, changes, now) =>
      sync(() => {
        const insert = db.prepare(
          `INSERT INTO changes (list, scan, at, kind, id, fields, before, after, generation)
          VALUES (?, 0, ?, ?, ?, ?, ?, ?, ${currentGeneration})`
        )
        for (const { after = null, before = null, fields, id, kind } of changes) {
          insert.run(list.label, now, kind, id, JSON.stringify(fields), before, after)
        }
        for (const [kind, { length }] of Map.groupBy(changes, (change) => change.kind)) {
          countChanges(db, list, now, kind, length)
        }
      }),
    parts: (list) =>
      sync(() =>
        db.all("SELECT part, min(scan) AS scan FROM scans WHERE list = ? AND part <> '' GROUP BY part", list.label)
          .map((row) => ({ part: readText(row, "part"), firstScan: readNumber(row, "scan") }))
      ),
    replaceParts: (list, parts) =>
      sync(() => {
        const update = db.prepare(
          "UPDATE scans SET part = ? WHERE list = ? AND part = ? AND kind IN ('full', 'part')"
        )
        for (const { after, before } of parts) update.run(after, list.label, before)
      }),
    abandonScans: (list, now) =>
      sync(() =>
        db.run(
          `UPDATE scans SET state = 'abandoned', ended_at = ?, checkpoint = NULL
          WHERE list = ? AND state = 'running'`,
          now,
          list.label
        )
      ),
    removeDigests: (list) =>
      sync(() => {
        db.run(
          `UPDATE scans SET tally = json_set(tally, '$.digest', '0', '$.undocumented', json('{}'))
          WHERE list = ? AND state <> 'running' AND (tally ->> '$.digest' <> '0' OR tally -> '$.undocumented' <> '{}')`,
          list.label
        )
        db.run(
          `UPDATE scans SET certificate = json_set(certificate, '$.digest', '${removedDigest}')
          WHERE list = ?1 AND certificate ->> '$.digest' <> '${removedDigest}' AND scan IS NOT (${certifiedScan})`,
          list.label
        )
      })
  }
}

/** SQL for the last complete full scan of the list `?1`. */
const certifiedScan =
  "SELECT max(scan) FROM scans WHERE list = ?1 AND part = '' AND state = 'complete' AND kind IN ('full', 'part')"

const removedDigest = "(removed)"

const among = (ids: Selection["ids"]): string => ids === undefined ? "" : "AND id IN (SELECT value FROM json_each(?3))"

const idParameter = (ids: Selection["ids"]): ReadonlyArray<string> => ids === undefined ? [] : [JSON.stringify(ids)]

/** SQL that is true for changes after a scan. Scans of earlier versions of the tables did not store their last change. */
const isAfter = ({ lastChange: end, scan }: CertifiedTexts, changes: string): string =>
  end === undefined ? `${changes}.scan > ${scan}` : `${changes}.seq > ${end}`

/** SQL for the number of the record's row, if the change `c` has its text at the end of the scan. */
const certifiedRow = (list: Lists.AnyList, scan: CertifiedTexts | undefined): string =>
  scan === undefined ? "NULL" : `CASE WHEN c.before IS NOT NULL AND ${isAfter(scan, "c")} AND NOT EXISTS (
      SELECT 1 FROM changes AS e WHERE e.list = c.list AND e.id = c.id AND e.seq < c.seq AND e.before IS NOT NULL
        AND ${isAfter(scan, "e")}
    ) THEN (SELECT row FROM ${tableOf(list)} WHERE id = c.id) END`

/** Returns the first rows, until their texts exceed the limit, but at least one. */
const limited = (
  db: Database,
  sql: string,
  values: ReadonlyArray<string | number | null>,
  texts: ReadonlyArray<string>
): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let length = 0
  for (const row of rowsOf(db.prepare(sql), values)) {
    for (const column of texts) length += readOptional(row, column)?.length ?? 0
    if (rows.length > 0 && length > maxBytes) break
    rows.push(row)
  }
  return rows
}
