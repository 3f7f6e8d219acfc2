/** The errors that a command may fail with, and checks that report all problems at once. */
import type { PaymentsConfigError, PaymentsError } from "@payments/core"
import { Data, Effect, Record, Result } from "effect"
import { CliError } from "effect/cli"
import type { DestinationError } from "./DestinationUrl.ts"
import { ExitCode, exitCodeOf, lowestExitCode } from "./ExitCode.ts"
import type { SinkError } from "./Sink.ts"
import type { SourcesError } from "./sources/SourcesError.ts"

/** Ends the command with the exit code. */
export class CommandExit extends Data.TaggedError("CommandExit")<{
  readonly exitCode: ExitCode
  /** One or more lines for stderr. If the text is empty, nothing is printed. */
  readonly problem: string
}> {
  override get message() {
    return this.problem
  }
}

/** An invalid combination of flags, or an invalid value. */
export const usage = (problem: string): CommandExit => new CommandExit({ exitCode: ExitCode.usage, problem })

/** Every error that a command may fail with. */
export type ProgramError =
  | CommandExit
  | PaymentsError
  | PaymentsConfigError
  | SinkError
  | SourcesError
  | DestinationError
  | CliError.CliError

/** Returns the exit code of an error. */
export const programExitCodeOf = (error: ProgramError): ExitCode =>
  error._tag === "CommandExit" ? error.exitCode : CliError.isCliError(error) ? ExitCode.usage : exitCodeOf(error)

type Checks = { readonly [name: string]: Effect.Effect<unknown, ProgramError, unknown> }

/**
 * Runs every check and fails with all problems together, so that a person can correct all flags and settings at once. The
 * exit code is the lowest of theirs.
 */
export const checkAll = <const C extends Checks>(
  checks: C
): Effect.Effect<
  { readonly [Name in keyof C]: Effect.Success<C[Name]> },
  ProgramError,
  Effect.Services<C[keyof C]>
> =>
  Effect.gen(function*() {
    const results = yield* Effect.all(Record.map(checks, (check) => Effect.result(check)))
    const errors = Object.values(results).flatMap((result) => Result.isFailure(result) ? [result.failure] : [])
    const [first, ...more] = errors
    if (first !== undefined) {
      return yield* more.length === 0 ? Effect.fail(first) : new CommandExit({
        exitCode: lowestExitCode(errors.map(programExitCodeOf)),
        problem: [...new Set(errors.flatMap(({ message }) => message.split("\n")))].join("\n")
      })
    }
    return Record.map(results, (result) => Result.isSuccess(result) ? result.success : undefined)
    // Each member of the record has the type of its check, but the type of Record.map cannot express that.
  }) as never
