/** The result of a statement. */
import type { Stream } from "effect"
import type { SinkError } from "../port/Sink.ts"
import type { Cell } from "../text/Cell.ts"
import type { QueryError } from "./Statement.ts"

/** The result of a query. */
export interface QueryResult {
  readonly columns: ReadonlyArray<string>
  /** In chunks. Each row has a cell for each column. */
  readonly rows: Stream.Stream<ReadonlyArray<ReadonlyArray<Cell>>, SinkError | QueryError>
}
