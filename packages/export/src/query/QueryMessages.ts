/** What the process of a query is asked, and what it answers (`QueryProcess.ts`). */
import type { Cell } from "../Cell.ts"
import type { ErrorMessage } from "../thread/SinkMessages.ts"

/** The first message begins the query; each later one asks for the next rows. */
export type Question =
  | { readonly ask: "begin"; readonly file: string; readonly location: string; readonly sql: string }
  | { readonly ask: "next" }

/** The columns answer the first message, rows the later ones; none are left where there are none. */
export type Answer =
  | { readonly columns: ReadonlyArray<string> }
  | { readonly rows: ReadonlyArray<ReadonlyArray<Cell>> }
  | { readonly refused: string }
  | { readonly error: ErrorMessage }
  | { readonly defect: string }
