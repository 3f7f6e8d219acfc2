/** The messages between a program and the process that runs its query (`QueryProcess.ts`). */
import type { Cell } from "../Cell.ts"
import type { ErrorMessage } from "../thread/SinkMessages.ts"

/** The first message starts the query; each later message requests the next rows. */
export type QueryRequest =
  | {
    readonly type: "begin"
    readonly file: string
    readonly location: string
    readonly sql: string
    readonly parameters: ReadonlyArray<string>
  }
  | { readonly type: "next" }

/** The response to `begin` has the columns, a response to `next` has rows. Empty rows mean the end of the result. */
export type QueryResponse =
  | { readonly columns: ReadonlyArray<string> }
  | { readonly rows: ReadonlyArray<ReadonlyArray<Cell>> }
  | { readonly refused: string }
  | { readonly error: ErrorMessage }
  | { readonly defect: string }
