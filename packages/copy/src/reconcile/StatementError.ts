/** Why a statement cannot be reconciled. No message repeats a value of the file, because it may be personal. */
import { Data } from "effect"

export class StatementError extends Data.TaggedError("StatementError")<{ readonly problem: string }> {
  override get message() {
    return this.problem
  }
}

/** Thrown inside of a reader, which no Effect runs. `ReadStatement.ts` catches it. */
export const problemAt = (
  { column, line, name }: { readonly line: number; readonly column?: number; readonly name?: string },
  problem: string
): StatementError =>
  new StatementError({
    problem: `line ${line}${column === undefined ? "" : `, column ${column}`}${
      name === undefined ? "" : ` (${name})`
    }: ${problem}.`
  })
