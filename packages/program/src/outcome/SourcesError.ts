/** The mistakes of a sources file. */
import { printable } from "@payments/copy"
import { Data } from "effect"

/** A mistake in the file. */
export interface Finding {
  /** The line of the setting; undefined if the file could not be read. */
  readonly line: number | undefined
  /** A sentence without any value of the file. */
  readonly problem: string
}

/** The sources file cannot be used. */
export class SourcesError extends Data.TaggedError("SourcesError")<{
  /** The absolute path of the file. */
  readonly file: string
  /** In the order of the lines. */
  readonly findings: ReadonlyArray<Finding>
}> {
  /** One line per mistake. */
  override get message() {
    const name = printable(this.file)
    return this.findings.map(({ line, problem }) => `${name}${line === undefined ? "" : `:${line}`}: ${problem}`)
      .join("\n")
  }
}
