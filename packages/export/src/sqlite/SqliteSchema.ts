/** The tables of an SQLite destination, and how those of earlier versions become them. */
import { Lists } from "@payments/core"
import { DatabaseSync } from "node:sqlite"
import { columnsOf, tableOf } from "../engine/Columns.ts"
import * as Tally from "../engine/Tally.ts"
import { Damaged, NotADestination } from "../Sink.ts"

/** Of the tables below; a file that says more was written by a later version. */
const version = 3
/** How a database of ours is told from any other: "PAYR". */
const applicationId = 0x50415952

/** Refuses a file that is not a destination of this version. */
export const requireCurrent = (db: DatabaseSync): void => {
  const found = versionOf(db)
  if (found === 0) throw new NotADestination({ problem: "nothing has been exported into it." })
  if (found < version) {
    throw new NotADestination({
      problem: "it was written by an earlier version of this program. Export into it first."
    })
  }
  requireTables(db)
}

/** The columns of all tables, as `table.column`. */
const columnsIn = (db: DatabaseSync): ReadonlySet<string> =>
  new Set(
    db.prepare(
      `SELECT t.name || '.' || c.name AS name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
      WHERE t.type = 'table'`
    ).all().map(({ name }) => String(name))
  )

let required: ReadonlySet<string> | undefined

/** Refuses a database without one of the tables or columns of this version. Others do no harm. */
const requireTables = (db: DatabaseSync): void => {
  required ??= columnsOfThisVersion()
  const found = columnsIn(db)
  const first = [...required].find((name) => !found.has(name))
  if (first === undefined) return
  const [table = ""] = first.split(".")
  const isThere = [...found].some((name) => name.startsWith(`${table}.`))
  throw new Damaged({ problem: isThere ? `the column ${first} is missing` : `the table ${table} is missing` })
}

const columnsOfThisVersion = (): ReadonlySet<string> => {
  const empty = new DatabaseSync(":memory:")
  try {
    migrate(empty)
    return columnsIn(empty)
  } finally {
    empty.close()
  }
}

/** Brings the file to this version, or refuses it untouched. */
export const migrate = (db: DatabaseSync): void => {
  if (versionOf(db) === version) return requireTables(db)
  db.exec("BEGIN IMMEDIATE")
  try {
    // Another process may have been faster.
    const from = versionOf(db)
    if (from === 0) create(db)
    if (from === 1) fromVersion1(db)
    if (from < 3) toVersion3(db)
    db.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version}; COMMIT`)
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK")
    throw error
  }
}

/** 0 for an empty file. */
const versionOf = (db: DatabaseSync): number => {
  // In one statement, so that it is one moment: another process may be making the file.
  const found = db.prepare(
    `SELECT (SELECT count(*) FROM sqlite_schema) AS tables, application_id AS application, user_version AS version
    FROM pragma_application_id, pragma_user_version`
  ).get()
  if (found?.["application"] !== applicationId) {
    if (found?.["tables"] === 0) return 0
    throw new NotADestination({ problem: "it is a database of something else. Choose another file." })
  }
  const written = Number(found["version"])
  if (written > version) {
    throw new NotADestination({ problem: "it was written by a later version of this program. Use that version." })
  }
  return written
}

const sqlTypes = { text: "TEXT", integer: "INTEGER", boolean: "INTEGER" } as const

const create = (db: DatabaseSync): void => {
  db.exec(`
    CREATE TABLE destination (only INTEGER PRIMARY KEY CHECK (only = 1), source TEXT NOT NULL) STRICT;
    CREATE TABLE holders (label TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT;
    ${scans}
    ${Lists.all.map(rowsOf).join("\n")}
    ${rendered}`)
}

/** Whose data it is: fingerprints of the keys that it was filled with, and the merchant ids that its records show. */
const owner = `
  CREATE TABLE known_keys (
    number INTEGER PRIMARY KEY, salt TEXT NOT NULL, fingerprint TEXT NOT NULL, UNIQUE (salt, fingerprint)
  ) STRICT;
  CREATE TABLE known_merchants (merchant TEXT PRIMARY KEY) STRICT;`

const scans = `
  CREATE TABLE scans (
    scan INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, part TEXT NOT NULL, asked TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete', 'abandoned')),
    checkpoint TEXT, first_row INTEGER NOT NULL, pages INTEGER NOT NULL DEFAULT 0, records INTEGER NOT NULL DEFAULT 0,
    tally TEXT NOT NULL, certificate TEXT, started_at TEXT NOT NULL, ended_at TEXT
  ) STRICT;
  CREATE UNIQUE INDEX one_running_scan ON scans (list, part) WHERE state = 'running';
  CREATE INDEX scans_of_a_part ON scans (list, part, state, scan);
  CREATE TABLE seen (scan INTEGER NOT NULL, piece INTEGER NOT NULL, bits BLOB NOT NULL, PRIMARY KEY (scan, piece)) STRICT;
  CREATE TABLE quarantine (
    scan INTEGER NOT NULL, list TEXT NOT NULL, id TEXT, path TEXT NOT NULL, expected TEXT NOT NULL, raw TEXT NOT NULL
  ) STRICT;
  CREATE INDEX quarantine_of_a_scan ON quarantine (scan);
  CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, list TEXT NOT NULL, scan INTEGER NOT NULL, at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('insert', 'update', 'missing', 'returned')),
    id TEXT NOT NULL, fields TEXT NOT NULL, before TEXT, after TEXT
  ) STRICT;
  CREATE INDEX changes_of_a_record ON changes (list, id, seq);
  -- Grows with every commit that changes a row of the list.
  CREATE TABLE revisions (list TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT;`

/**
 * Of a folder: its files, numbered by rendering, and the text of its manifest and of the one before. A file without a digest
 * is not whole, but for those of rendering 0: version 1 kept none. Those of its files that show all the rows there were are
 * of revision 0.
 */
const rendered = `
  CREATE TABLE rendered (
    file TEXT PRIMARY KEY, list TEXT NOT NULL, rendering INTEGER NOT NULL, scan INTEGER NOT NULL, revision INTEGER,
    records INTEGER, bytes INTEGER, sha256 TEXT
  ) STRICT;
  CREATE TABLE manifest (only INTEGER PRIMARY KEY CHECK (only = 1), text TEXT NOT NULL, previous TEXT) STRICT;`

/** The table of a list, and a view of it that tells when each row was last seen. */
const rowsOf = (list: Lists.AnyList): string => {
  const table = tableOf(list)
  const columns = columnsOf(list).map(({ kind, name }) =>
    `${name} ${sqlTypes[kind]}${name === "id" ? " NOT NULL UNIQUE" : ""}`
  )
  const byte = `hex(substr(seen.bits, t.row % 8192 / 8 + 1, 1))`
  const nibble = `instr('123456789ABCDEF', substr(${byte}, 2 - t.row % 8 / 4, 1))`
  return `
    CREATE TABLE ${table} (
      row INTEGER PRIMARY KEY, ${
    columns.join(", ")
  }, raw TEXT NOT NULL, hash TEXT NOT NULL, first_seen_at TEXT NOT NULL,
      changed_at TEXT NOT NULL, missing_since TEXT
    ) STRICT;
    CREATE INDEX missing_${table} ON ${table} (row) WHERE missing_since IS NOT NULL;
    CREATE VIEW ${table}_seen AS SELECT t.*, max(t.changed_at, coalesce((
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM scans JOIN seen ON seen.scan = scans.scan
      WHERE scans.list = '${list.label}' AND seen.piece = t.row / 8192 AND (${nibble} >> (t.row % 4)) & 1
    ), t.changed_at)) AS last_seen_at FROM ${table} AS t;`
}

/** What version 3 has and version 2 had not: the epoch of each holder. */
const toVersion3 = (db: DatabaseSync): void => {
  // An earlier version that still runs replaces the row when it takes a list over, and sets the epoch back by that.
  db.exec("ALTER TABLE holders ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0")
  db.exec(owner)
}

/** Version 1 knew no row numbers, seen rows, changes, parts or missing rows. A scan that was cut goes on, but concludes nothing. */
const fromVersion1 = (db: DatabaseSync): void => {
  const tally = Tally.toJson({ ...Tally.none, blind: true })
  db.exec(`
    CREATE TABLE holders (label TEXT PRIMARY KEY, holder TEXT NOT NULL) STRICT;
    DROP INDEX one_running_scan;
    ALTER TABLE scans RENAME TO old_scans;
    ALTER TABLE quarantine RENAME TO old_quarantine;
    ALTER TABLE rendered RENAME TO old_rendered;
    ${Lists.all.map((list) => `ALTER TABLE ${tableOf(list)} RENAME TO old_${tableOf(list)};`).join("\n")}
    ${scans}
    ${rendered}
    ${Lists.all.map(rowsOf).join("\n")}
    INSERT INTO scans (scan, list, part, asked, state, checkpoint, first_row, pages, records, tally, started_at, ended_at)
      SELECT scan, list, '', substr(asked, 1, length(asked) - 1) || ',[]]', state, checkpoint, 0, pages, records,
        json_set('${tally}', '$.counts.pages', pages, '$.counts.records', records, '$.counts.inserted', inserted,
          '$.counts.updated', updated, '$.counts.unchanged', unchanged, '$.counts.quarantined', quarantined),
        started_at, completed_at FROM old_scans;
    INSERT INTO quarantine SELECT scan, list, id, path, expected, raw FROM old_quarantine;
    INSERT INTO rendered (file, list, rendering, scan, revision) SELECT file, list, 0, scan, CASE WHEN NOT EXISTS (
        SELECT 1 FROM old_scans AS s WHERE s.list = r.list AND s.scan > r.scan AND s.records > 0
      ) THEN 0 END FROM old_rendered AS r;
    DROP TABLE old_quarantine; DROP TABLE old_rendered; DROP TABLE old_scans;`)
  for (const list of Lists.all) {
    const table = tableOf(list)
    const names = [...columnsOf(list).map(({ name }) => name), "raw", "hash", "first_seen_at", "changed_at"].join(", ")
    db.exec(`INSERT INTO ${table} (row, ${names}) SELECT row_number() OVER (ORDER BY rowid) - 1, ${names}
      FROM old_${table}; DROP TABLE old_${table};`)
  }
}
