/** The tables of a destination that queries can use, with their columns. */
import { Lists } from "@payments/core"
import { columnsOf, tableOf } from "../plan/Columns.ts"

/** A column of a table. */
export interface TableColumn {
  readonly name: string
  readonly kind: "text" | "integer" | "boolean" | "time" | "json"
  readonly description: string
}

/** A table. */
export interface Table {
  readonly name: string
  readonly description: string
  readonly columns: ReadonlyArray<TableColumn>
}

const rowColumns: ReadonlyArray<TableColumn> = [
  { name: "raw", kind: "json", description: "the exact text of the record" },
  { name: "first_seen_at", kind: "time", description: "when an export first read the record" },
  { name: "changed_at", kind: "time", description: "when an export last found the record changed" },
  { name: "missing_since", kind: "time", description: "since when the service no longer returns the record, or null" },
  { name: "rechecked", kind: "json", description: "how a missing record was looked for, or null" }
]

/** The tables of the lists, and those that describe what happened to their rows. */
export const tables: ReadonlyArray<Table> = [
  ...Lists.all.map((list) => ({
    name: tableOf(list),
    description: `the ${list.title}, a row for each record`,
    columns: [
      ...columnsOf(list).map(({ kind, meaning, name }) => ({ name, kind, description: meaning })),
      ...rowColumns
    ]
  })),
  {
    name: "changes",
    description: "the changes that exports found",
    columns: [
      { name: "seq", kind: "integer", description: "the number of the change" },
      { name: "generation", kind: "text", description: "the generation of the number; null for the first one" },
      { name: "list", kind: "text", description: "the list of the record" },
      { name: "at", kind: "time", description: "when an export found the change" },
      { name: "kind", kind: "text", description: "insert, update, missing or returned" },
      { name: "id", kind: "text", description: "the id of the record" },
      { name: "fields", kind: "json", description: "the fields that changed" },
      { name: "before", kind: "json", description: "the text before" },
      { name: "after", kind: "json", description: "the text after" },
      { name: "rechecked", kind: "json", description: "how a missing record was looked for, or null" }
    ]
  },
  {
    name: "quarantine",
    description: "the records that do not match the API's document",
    columns: [
      { name: "scan", kind: "integer", description: "the scan that read the record" },
      { name: "list", kind: "text", description: "the list of the record" },
      { name: "id", kind: "text", description: "the id of the record, or null" },
      { name: "path", kind: "text", description: "the field with the problem" },
      { name: "expected", kind: "text", description: "what the document says about the field" },
      { name: "raw", kind: "text", description: "the exact text of the record" }
    ]
  },
  {
    name: "scans",
    description: "the exports of the lists",
    columns: [
      { name: "scan", kind: "integer", description: "the number of the scan" },
      { name: "list", kind: "text", description: "the list" },
      { name: "kind", kind: "text", description: "full, part, head or window" },
      { name: "part", kind: "text", description: "the part of the list; empty for the whole list" },
      { name: "state", kind: "text", description: "running, complete, incomplete or abandoned" },
      { name: "pages", kind: "integer", description: "the pages that were read" },
      { name: "records", kind: "integer", description: "the records that were read" },
      { name: "started_at", kind: "time", description: "the start" },
      { name: "ended_at", kind: "time", description: "the end, or null" }
    ]
  }
]
