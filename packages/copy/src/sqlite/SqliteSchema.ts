/** Creates the tables of an SQLite destination, migrates those of earlier versions, and refuses other files. */
import { Lists } from "@payments/core"
import { Result } from "effect"
import { existsSync, statSync } from "node:fs"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { type Column, columnsOf, type RecordedColumn, tableOf } from "../plan/Columns.ts"
import { Damaged, NotADestination } from "../port/Sink.ts"
import {
  type Additions,
  additionsTo,
  isComplete,
  type PendingMigration,
  pendingMigration,
  statementsOf,
  tablesIn,
  type TableStatements,
  writtenLater
} from "../store/Evolution.ts"
import {
  currentVersion,
  earlierVersion,
  migrations,
  migrationsAfter,
  oldestReadableVersion,
  oldestSqliteVersion,
  recheckedVersion
} from "../store/Migrations.ts"
import { readNumber, readOptional, toRecordedColumn } from "../store/StoredRows.ts"

/** The size of the header of SQLite's log (https://sqlite.org/fileformat2.html#the_write_ahead_log). */
const logHeaderBytes = 32

/** Identifies a database of this program: "PAYR". */
const applicationId = 0x50415952

type AllLists = ReadonlyArray<Lists.AnyList>

type Statements = { readonly prepare: (sql: string) => StatementSync }

/**
 * Refuses a destination that a later version has written, before SQLite changes any byte. An ordinary connection may
 * create a log when it opens, and empties the log when it closes. Other problems of the file are found later.
 */
export const refuseLater = (file: string, lists: AllLists = Lists.all): void => {
  // With a journal, an interrupted transaction must be rolled back first, which needs an ordinary connection.
  if (existsSync(`${file}-journal`)) return
  const url = pathToFileURL(file)
  // Without a log, the file is the whole database. With a log, `readonly_shm` makes SQLite read the log's index without
  // changing it. Only SQLite's source documents this option (src/os_unix.c). A log without an index is that of a copied
  // file, which no program uses. Without locks, SQLite keeps the index in memory and leaves the log in place.
  const isIndexed = existsSync(`${file}-shm`)
  // A kill may leave a log with a header and no frame. SQLite then fails with `readonly_shm`, but only after 10 s.
  const isEmpty = (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) <= logHeaderBytes
  url.search = isEmpty ? "?immutable=1" : isIndexed ? "?readonly_shm=1" : "?vfs=unix-none"
  let db: DatabaseSync | undefined
  try {
    db = new DatabaseSync(url, { readOnly: true })
    if (!isIndexed) db.exec("PRAGMA locking_mode = EXCLUSIVE")
    if (headerOf(db).application === applicationId && versionOf(db) >= oldestReadableVersion) additionsIn(db, lists)
  } catch (error) {
    if (error instanceof NotADestination) throw error
  } finally {
    db?.close()
  }
}

/**
 * Refuses a file that is not a destination, or one of a version that this program cannot read. It may lack columns and
 * lists that this program has.
 */
export const requireReadable = (db: DatabaseSync, lists: AllLists = Lists.all): void => {
  const found = versionOf(db)
  if (found === 0) throw new NotADestination({ problem: "nothing has been exported into it." })
  if (found < oldestReadableVersion) {
    throw new NotADestination({ problem: earlierVersion })
  }
  requireOwnTables(db, found)
  additionsIn(db, lists)
  requireListTables(db, lists, found)
}

/** Refuses a file of an earlier version, which lacks tables and columns of this one. */
export const requireCurrentVersion = (db: Statements): void => {
  if (versionOf(db) < currentVersion) throw new NotADestination({ problem: earlierVersion })
}

/** Returns what {@link migrate} would do. */
export const pendingIn = (db: Statements, lists: AllLists = Lists.all): PendingMigration => {
  const version = versionOf(db)
  return pendingMigration(version, version >= oldestReadableVersion ? additionsIn(db, lists) : undefined)
}

/** Migrates the file to this version and adds missing tables and columns, or refuses it without a change. */
export const migrate = (db: DatabaseSync, lists: AllLists = Lists.all): void => {
  if (versionOf(db) === currentVersion) {
    requireOwnTables(db, currentVersion)
    if (isComplete(additionsIn(db, lists))) return requireListTables(db, lists, currentVersion)
  }
  db.exec("BEGIN IMMEDIATE")
  try {
    // Another process may have migrated it since.
    for (const { eachList, sqlite } of migrationsAfter(versionOf(db))) {
      for (const statement of sqlite) db.exec(statement)
      if (eachList === undefined) continue
      for (const table of tablesIn(recordedIn(db))) for (const statement of eachList(table)) db.exec(statement)
    }
    for (const statement of statementsOf(additionsIn(db, lists), tableStatements)) db.exec(statement)
    db.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${currentVersion}; COMMIT`)
  } catch (error) {
    if (db.isTransaction) db.exec("ROLLBACK")
    throw nameConflictOf(error) ?? error
  }
}

/** Returns the reason if a user has a column or table with a name that a migration adds, or undefined. */
const nameConflictOf = (error: unknown): NotADestination | undefined => {
  const [, column, table] =
    /duplicate column name: (\w+)|(?:table|view|index) (\w+) already exists/.exec(String(error)) ?? []
  const name = column ?? table
  if (name === undefined) return undefined
  const kind = column === undefined ? "table" : "column"
  return new NotADestination({
    problem:
      `a ${kind} that this version adds (${name}) already exists, and is not this program's. Rename it, and run again.`
  })
}

const headerOf = (db: Statements) => {
  // A single statement gives a consistent result while another process creates the file.
  const found = db.prepare(
    `SELECT (SELECT count(*) FROM sqlite_schema) AS tables, application_id AS application, user_version AS version
    FROM pragma_application_id, pragma_user_version`
  ).get()
  return {
    tables: readNumber(found, "tables"),
    application: readNumber(found, "application"),
    version: readNumber(found, "version")
  }
}

/** Returns the version of the tables, or 0 for an empty file. */
const versionOf = (db: Statements): number => {
  const { application, tables, version: written } = headerOf(db)
  if (application !== applicationId) {
    if (tables === 0) return 0
    throw new NotADestination({ problem: "it is a database of another program. Choose another file." })
  }
  if (written > currentVersion) {
    throw new NotADestination({ problem: writtenLater(programIn(db)), isLater: true })
  }
  if (written < oldestSqliteVersion) {
    throw new NotADestination({
      problem:
        `it was written by version ${written} of the tables, which this program no longer reads. Export into a new destination (another --to).`
    })
  }
  return written
}

/** Returns the version of the last program that changed the tables, or undefined if the tables do not record it. */
const programIn = (db: Statements): string | undefined =>
  Result.getOrUndefined(
    Result.try(() => readOptional(db.prepare("SELECT version FROM program_version").get(), "version"))
  )

const recordedIn = (db: Statements): ReadonlyArray<RecordedColumn> =>
  db.prepare("SELECT list, name, kind, unfilled_from FROM list_columns").all().map(toRecordedColumn)

/** Returns the tables and columns to add. Throws if this program must not use the file. */
const additionsIn = (db: Statements, lists: AllLists): Additions =>
  Result.getOrThrowWith(
    additionsTo(recordedIn(db), lists, programIn(db)),
    (unusable) => new NotADestination(unusable)
  )

/** Returns the columns of all tables, as `table.column`. */
const columnsIn = (db: DatabaseSync): ReadonlySet<string> =>
  new Set(
    db.prepare(
      `SELECT t.name || '.' || c.name AS name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c
      WHERE t.type = 'table'`
    ).all().map(({ name }) => String(name))
  )

/** The columns that the migrations make, by version. */
const ownColumns = new Map<number, ReadonlySet<string>>()

/** Fails if a table or column of the migrations up to this version is missing. Extra tables and columns are allowed. */
const requireOwnTables = (db: DatabaseSync, version: number): void => {
  const columns = ownColumns.get(version) ?? columnsOfMigrations(version)
  ownColumns.set(version, columns)
  requireColumns(db, columns)
}

const requireListTables = (db: DatabaseSync, lists: AllLists, version: number): void => {
  const recorded = recordedIn(db)
  const ofRows = version < recheckedVersion ? rowColumns : [...rowColumns, "rechecked"]
  requireColumns(
    db,
    lists.flatMap((list) => {
      const names = recorded.filter((column) => column.list === list.label).map(({ name }) => name)
      return names.length === 0 ? [] : [...ofRows, ...names].map((name) => `${tableOf(list)}.${name}`)
    })
  )
}

/** Fails if one of these columns, each written as `table.column`, is missing. */
const requireColumns = (db: DatabaseSync, names: Iterable<string>): void => {
  const found = columnsIn(db)
  const first = [...names].find((name) => !found.has(name))
  if (first === undefined) return
  const [table = ""] = first.split(".")
  const hasTable = [...found].some((name) => name.startsWith(`${table}.`))
  throw new Damaged({ problem: hasTable ? `the column ${first} is missing` : `the table ${table} is missing` })
}

/** The columns of every list's table in addition to those of its fields, in all versions. */
const rowColumns = ["row", "raw", "hash", "first_seen_at", "changed_at", "missing_since"]

const columnsOfMigrations = (version: number): ReadonlySet<string> => {
  const empty = new DatabaseSync(":memory:")
  try {
    for (const migration of migrations) {
      if (migration.version <= version) { for (const statement of migration.sqlite) empty.exec(statement) }
    }
    return columnsIn(empty)
  } finally {
    empty.close()
  }
}

const sqlTypes = { text: "TEXT", integer: "INTEGER", boolean: "INTEGER" } as const

const columnSql = ({ kind, name }: Column): string => `${name} ${sqlTypes[kind]}`

const tableStatements: TableStatements = {
  prefix: "",
  create: (list) => {
    const table = tableOf(list)
    const columns = columnsOf(list).map((column) =>
      `${columnSql(column)}${column.name === "id" ? " NOT NULL UNIQUE" : ""}`
    )
    return [
      `CREATE TABLE ${table} (
        row INTEGER PRIMARY KEY, ${columns.join(", ")}, raw TEXT NOT NULL, hash TEXT NOT NULL,
        first_seen_at TEXT NOT NULL, changed_at TEXT NOT NULL, missing_since TEXT, rechecked TEXT
      ) STRICT`,
      `CREATE INDEX missing_${table} ON ${table} (row) WHERE missing_since IS NOT NULL`,
      viewOf(list)
    ]
  },
  addColumn: (list, column) => `ALTER TABLE ${tableOf(list)} ADD COLUMN ${columnSql(column)}`
}

/** A view that adds the time when each row was last seen. SQLite expands its `t.*` again after a column is added. */
const viewOf = (list: Lists.AnyList): string => {
  const table = tableOf(list)
  const byte = `hex(substr(seen.bits, t.row % 8192 / 8 + 1, 1))`
  const nibble = `instr('123456789ABCDEF', substr(${byte}, 2 - t.row % 8 / 4, 1))`
  return `CREATE VIEW ${table}_seen AS SELECT t.*, max(t.changed_at, coalesce((
      SELECT max(coalesce(scans.ended_at, scans.started_at)) FROM scans JOIN seen ON seen.scan = scans.scan
      WHERE scans.list = '${list.label}' AND seen.piece = t.row / 8192 AND (${nibble} >> (t.row % 4)) & 1
    ), t.changed_at)) AS last_seen_at FROM ${table} AS t`
}
