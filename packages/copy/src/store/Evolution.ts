/**
 * Compares the columns that a destination has recorded with those of this program, for both databases. The program adds
 * missing tables and columns. It refuses a destination that a later version has extended.
 */
import type { Lists } from "@payments/core"
import { Result } from "effect"
import { type Column, columnsOf, layoutOf, type RecordedColumn, tableOf } from "../plan/Columns.ts"
import { currentVersion, programVersion } from "./Migrations.ts"

export interface Additions {
  /** Lists without a table. */
  readonly tables: ReadonlyArray<Lists.AnyList>
  readonly columns: ReadonlyArray<{ readonly list: Lists.AnyList; readonly columns: ReadonlyArray<Column> }>
}

/** `version` is undefined if it is unknown. */
export const writtenLater = (version: string | undefined): string =>
  `it was written by a later version of this program${version === undefined ? "" : ` (${version})`}. Use that version.`

/** Why this program must neither read nor write a destination. */
export interface Unusable {
  readonly problem: string
  /** Whether a later version of this program has written it. */
  readonly isLater: boolean
}

export const additionsTo = (
  recorded: ReadonlyArray<RecordedColumn>,
  lists: ReadonlyArray<Lists.AnyList>,
  version: string | undefined
): Result.Result<Additions, Unusable> => {
  for (const { kind, list, name } of recorded) {
    const column = columnIn(lists, list, name)
    if (column === undefined) return Result.fail({ problem: writtenLater(version), isLater: true })
    if (column.kind !== kind) {
      return Result.fail({
        problem:
          `its column ${list}.${name} has the type ${kind}, but this version of the program needs ${column.kind}. Export into a new destination (another --to).`,
        isLater: false
      })
    }
  }
  const tables = lists.filter(({ label }) => recorded.every(({ list }) => list !== label))
  const columns = lists.filter((list) => !tables.includes(list)).flatMap((list) => {
    const missing = columnsOf(list).filter(({ name }) =>
      !recorded.some((column) => column.list === list.label && column.name === name)
    )
    return missing.length === 0 ? [] : [{ list, columns: missing }]
  })
  return Result.succeed({ tables, columns })
}

/** Returns the tables of the recorded lists. This program may not know all of them. */
export const tablesIn = (recorded: ReadonlyArray<RecordedColumn>): ReadonlySet<string> =>
  new Set(recorded.map(({ list }) => list.replaceAll("-", "_")))

const columnIn = (lists: ReadonlyArray<Lists.AnyList>, label: string, name: string): Column | undefined => {
  const list = lists.find((candidate) => candidate.label === label)
  return list === undefined ? undefined : layoutOf(list).columns.find((column) => column.name === name)
}

/** What a program would do to the tables of a destination before it writes. */
export interface PendingMigration {
  /** The version of the tables, or 0 if there are none. */
  readonly from: number
  /** The version that this program writes. */
  readonly to: number
  /**
   * The tables and columns of lists to add, such as `invoices` or `invoices.tax_code`. They are not known for versions that this
   * program cannot read.
   */
  readonly additions: ReadonlyArray<string>
}

/** `additions` is undefined if they are not known. */
export const pendingMigration = (from: number, additions: Additions | undefined): PendingMigration => ({
  from,
  to: currentVersion,
  additions: additions === undefined ? [] : [
    ...additions.tables.map(tableOf),
    ...additions.columns.flatMap(({ columns, list }) => columns.map(({ name }) => `${tableOf(list)}.${name}`))
  ]
})

export const isCurrent = ({ additions, from, to }: PendingMigration): boolean => from === to && additions.length === 0

export const isComplete = ({ columns, tables }: Additions): boolean => columns.length + tables.length === 0

export interface TableStatements {
  /** The prefix of each table's name, such as `"schema".`. */
  readonly prefix: string
  readonly create: (list: Lists.AnyList) => ReadonlyArray<string>
  readonly addColumn: (list: Lists.AnyList, column: Column) => string
}

/**
 * Returns the statements that add tables and columns and record them. A new column of an existing table is recorded as
 * unfilled even if the table has no rows. An earlier program that still runs may insert some.
 */
export const statementsOf = (
  { columns, tables }: Additions,
  { addColumn, create, prefix }: TableStatements
): ReadonlyArray<string> => {
  const record = ({ label }: Lists.AnyList, recorded: ReadonlyArray<Column>, unfilledFrom: "0" | "NULL") =>
    `INSERT INTO ${prefix}list_columns (list, name, kind, unfilled_from) VALUES ${
      recorded.map(({ kind, name }) => `('${label}', '${name}', '${kind}', ${unfilledFrom})`).join(", ")
    }`
  return [
    ...tables.flatMap((list) => [...create(list), record(list, columnsOf(list), "NULL")]),
    ...columns.flatMap((added) => [
      ...added.columns.map((column) => addColumn(added.list, column)),
      record(added.list, added.columns, "0")
    ]),
    `DELETE FROM ${prefix}program_version`,
    `INSERT INTO ${prefix}program_version (version) VALUES ('${programVersion}')`
  ]
}
