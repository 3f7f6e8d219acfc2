/** How a command of a program ends before its time, and how its checks report all that is wrong at once. */
import type { PaymentsConfigError, PaymentsError } from "@payments/core"
import { Data, Effect, Record, Result } from "effect"
import { CliError } from "effect/cli"
import type { DestinationError } from "./Destination.ts"
import { ExitCode, exitCodeOf, lowest } from "./ExitCode.ts"
import type { SinkError } from "./Sink.ts"

/** An end with an exit code of its own. Nothing more is said of it where the problem is empty. */
export class Ended extends Data.TaggedError("Ended")<{
  readonly exitCode: ExitCode
  /** One line, or several with line breaks between them. */
  readonly problem: string
}> {
  override get message() {
    return this.problem
  }
}

/** Flags that do not go together, or a value that cannot be. */
export const usage = (problem: string): Ended => new Ended({ exitCode: ExitCode.usage, problem })

/** Every error that a command may end with. */
export type ProgramError =
  | Ended
  | PaymentsError
  | PaymentsConfigError
  | SinkError
  | DestinationError
  | CliError.CliError

/** The exit code of an error. */
export const codeOf = (error: ProgramError): ExitCode =>
  error._tag === "Ended" ? error.exitCode : CliError.isCliError(error) ? ExitCode.usage : exitCodeOf(error)

type Checks = { readonly [name: string]: Effect.Effect<unknown, ProgramError, unknown> }

/**
 * Runs every check and fails with all that they found, so that a person corrects flags and settings in one go. The
 * lowest exit code stands for all of them.
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
      return yield* more.length === 0 ? Effect.fail(first) : new Ended({
        exitCode: lowest(errors.map(codeOf)),
        problem: [...new Set(errors.flatMap(({ message }) => message.split("\n")))].join("\n")
      })
    }
    return Record.map(results, (result) => Result.isSuccess(result) ? result.success : undefined)
    // Each member of the record has the type of its check, which a map over records cannot say.
  }) as never
