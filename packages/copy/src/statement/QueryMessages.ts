/** The messages between a program and the process that runs its query (`QueryProcess.ts`). */
import type { ErrorMessage } from "../port/ErrorMessage.ts"
import type { Cell } from "../text/Cell.ts"
import type { AsOf } from "./AsOf.ts"

/** A `time` is text such as `2024-05-01T10:00:00.000Z`. `json` is text too. */
export interface ExcerptColumn {
  readonly name: string
  readonly kind: "text" | "integer" | "boolean" | "time" | "json"
  /** Whether the excerpt has a pseudonym in place of each value. */
  readonly isPseudonym?: boolean
}

/** The names are the destination's, and need no quotes. */
export interface ExcerptTable {
  readonly table: string
  readonly columns: ReadonlyArray<ExcerptColumn>
}

/**
 * `begin` starts the query. Each later `next` requests rows. A query over an excerpt starts with `excerpt`, which fills
 * it from the file if there is one. Otherwise an `insert` follows for each chunk of rows.
 */
export type QueryRequest =
  | {
    readonly type: "excerpt"
    readonly file: string | undefined
    readonly location: string
    readonly tables: ReadonlyArray<ExcerptTable>
    /** The key of the pseudonyms in hexadecimal digits, if there are any. It is never in the excerpt. */
    readonly key: string | undefined
  }
  | { readonly type: "insert"; readonly table: ExcerptTable; readonly rows: ReadonlyArray<ReadonlyArray<Cell>> }
  | {
    readonly type: "begin"
    /** Undefined after `excerpt`. */
    readonly file: string | undefined
    readonly location: string
    /** The point whose rows the statement reads; undefined for the current ones. */
    readonly asOf?: AsOf | undefined
    readonly sql: string
    readonly parameters: ReadonlyArray<string>
  }
  | { readonly type: "next" }

/** The response to `begin` has the columns, a response to `next` has rows. Empty rows mean the end of the result. */
export type QueryResponse =
  | { readonly filled: true }
  | { readonly columns: ReadonlyArray<string> }
  | { readonly rows: ReadonlyArray<ReadonlyArray<Cell>> }
  | { readonly refused: string }
  | { readonly error: ErrorMessage }
  | { readonly defect: string }
