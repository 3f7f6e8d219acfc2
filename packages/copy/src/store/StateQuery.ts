/** Reads the state of a list without reading its rows. Both databases run the same statement. */
import type { Lists } from "@payments/core"
import { tableOf } from "../plan/Columns.ts"
import { readNumber, readOptional, readText, type Row } from "./Rows.ts"
import type { ListState } from "./Store.ts"

/**
 * Returns the statement that reads a list's state. It is one statement, so it reads one snapshot. It takes time proportional
 * to the missing rows and to the quarantined records, which indexes count. `prefix` precedes the names of the tables, and
 * `time` makes the SQL that formats a time. `hasRowsPruned` is false for tables of an earlier version.
 */
export const stateQuery = (
  list: Lists.AnyList,
  prefix: string,
  time: (column: string) => string,
  hasRowsPruned: boolean
): string => {
  const table = `${prefix}${tableOf(list)}`
  const scans = `FROM ${prefix}scans WHERE list = '${list.label}'`
  // SQLite uses the index of full scans and parts only if the query has the condition of the index.
  const lastComplete =
    `${scans} AND part = '' AND state = 'complete' AND kind IN ('full', 'part') ORDER BY scan DESC LIMIT 1`
  return `SELECT (SELECT max("row") FROM ${table}) AS highest_row,
    ${hasRowsPruned ? `(SELECT removed FROM ${prefix}rows_pruned WHERE list = '${list.label}')` : "NULL"} AS removed,
    (SELECT count(*) FROM ${table} WHERE missing_since IS NOT NULL) AS missing,
    quarantined.full_scan, quarantined.parts, complete.scan AS complete_scan, complete.started_at AS complete_started_at,
    complete.ended_at, complete.certificate, running.scan AS running_scan, running.kind, running.started_at,
    running.pages, running.records, head_passes.problem
  FROM (
    SELECT max(CASE WHEN s.kind = 'full' THEN q.records END) AS full_scan,
      sum(CASE WHEN s.kind = 'part' AND s.state = 'complete' THEN q.records END) AS parts
    FROM (
      SELECT scan, count(*) AS records FROM ${prefix}quarantine
      WHERE scan >= coalesce((SELECT scan ${lastComplete}), 0) GROUP BY scan
    ) AS q JOIN ${prefix}scans AS s ON s.scan = q.scan WHERE s.list = '${list.label}'
  ) AS quarantined
  LEFT JOIN (
    SELECT scan, ${time("started_at")}, ${time("ended_at")}, CAST(certificate AS text) AS certificate ${lastComplete}
  ) AS complete ON true
  LEFT JOIN (
    SELECT scan, kind, ${time("started_at")}, pages, records ${scans} AND state = 'running'
    ORDER BY kind = 'full' DESC, scan DESC LIMIT 1
  ) AS running ON true
  LEFT JOIN ${prefix}head_passes AS head_passes ON head_passes.list = '${list.label}'`
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
