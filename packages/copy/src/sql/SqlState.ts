/** Reads the state of a list without reading its rows. */
import type { Lists } from "@payments/core"
import type { ListState } from "../store/Store.ts"
import { readNumber, readOptional, readText, type Row } from "../store/StoredRows.ts"
import { isCompleteFullScan, readTime, tableIn } from "./SqlDialect.ts"
import { raw, schema, sql, type Statement } from "./SqlStatement.ts"

/**
 * One statement, so that it reads one snapshot. It takes time proportional to the missing rows and to the quarantined
 * records, which indexes count. Tables of an earlier version have no removed rows.
 */
export const stateQuery = (list: Lists.AnyList, hasRowsPruned: boolean): Statement => {
  const table = tableIn(list)
  const isOfList = sql`list = ${list.label}`
  const lastComplete = sql`FROM ${schema}.scans WHERE ${isOfList} AND ${isCompleteFullScan} ORDER BY scan DESC LIMIT 1`
  return sql`SELECT (SELECT max("row") FROM ${table}) AS highest_row,
    ${hasRowsPruned ? sql`(SELECT removed FROM ${schema}.rows_pruned WHERE ${isOfList})` : raw("NULL")} AS removed,
    (SELECT count(*) FROM ${table} WHERE missing_since IS NOT NULL) AS missing,
    quarantined.full_scan, quarantined.parts, complete.scan AS complete_scan, complete.started_at AS complete_started_at,
    complete.ended_at, complete.certificate, running.scan AS running_scan, running.kind, running.started_at,
    running.pages, running.records, head_passes.problem
  FROM (
    SELECT max(CASE WHEN s.kind = 'full' THEN q.records END) AS full_scan,
      sum(CASE WHEN s.kind = 'part' AND s.state = 'complete' THEN q.records END) AS parts
    FROM (
      SELECT scan, count(*) AS records FROM ${schema}.quarantine
      WHERE scan >= coalesce((SELECT scan ${lastComplete}), 0) GROUP BY scan
    ) AS q JOIN ${schema}.scans AS s ON s.scan = q.scan WHERE s.list = ${list.label}
  ) AS quarantined
  LEFT JOIN (
    SELECT scan, ${readTime("started_at")}, ${
    readTime("ended_at")
  }, CAST(certificate AS text) AS certificate ${lastComplete}
  ) AS complete ON true
  LEFT JOIN (
    SELECT scan, kind, ${readTime("started_at")}, pages, records FROM ${schema}.scans
    WHERE ${isOfList} AND state = 'running' ORDER BY kind = 'full' DESC, scan DESC LIMIT 1
  ) AS running ON true
  LEFT JOIN ${schema}.head_passes AS head_passes ON head_passes.list = ${list.label}`
}

/** Converts the row of {@link stateQuery}. */
export const toListState = (row: Row | undefined, holder: string | undefined): ListState => ({
  rows: readOptional(row, "highest_row") === undefined
    ? 0
    : readNumber(row, "highest_row") + 1 - readNumber(row, "removed"),
  missing: readNumber(row, "missing"),
  quarantined: Math.max(readNumber(row, "full_scan"), readNumber(row, "parts")),
  completeScan: readOptional(row, "complete_scan") === undefined ? undefined : {
    scan: readNumber(row, "complete_scan"),
    startedAt: readText(row, "complete_started_at"),
    endedAt: readText(row, "ended_at"),
    certificate: readOptional(row, "certificate")
  },
  running: readOptional(row, "running_scan") === undefined ? undefined : {
    scan: readNumber(row, "running_scan"),
    kind: readText(row, "kind"),
    startedAt: readText(row, "started_at"),
    pages: readNumber(row, "pages"),
    records: readNumber(row, "records")
  },
  holder,
  headProblem: readOptional(row, "problem")
})
