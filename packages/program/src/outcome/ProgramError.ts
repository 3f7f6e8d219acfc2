/** The errors of commands, what programs learn about them, and checks that report all problems at once. */
import type { Destination, SinkError } from "@payments/copy"
import { type PaymentsConfigError, type PaymentsError, RetryPolicy } from "@payments/core"
import { Data, Effect, Record, Result } from "effect"
import { CliError } from "effect/cli"
import { exitCodeOf, requestRows, sinkRows } from "./ErrorTable.ts"
import { ExitCode, lowestExitCode } from "./ExitCode.ts"
import type { SourcesError } from "./SourcesError.ts"

/** What went wrong, in one word. The set is closed, so that scripts can compare it. */
export type ErrorReason =
  | PaymentsError["reason"]["_tag"]
  | SinkError["reason"]["_tag"]
  /** The arguments are invalid. */
  | "Usage"
  /** A setting of the environment or of the sources file is missing or invalid. */
  | "Configuration"
  /** Standard output cannot be written. */
  | "Output"
  /** The run ended, but some records need attention. */
  | "Incomplete"
  /** Two things that were compared differ. */
  | "Differs"
  /** A list is older than allowed. */
  | "Stale"
  | "Interrupted"
  | "Unexpected"

/** A command that a script can run as it is, or one that lacks arguments. */
export type Next = string | IncompleteCommand

/**
 * A command that lacks arguments of this run. Their values may be personal data, so the command does not repeat them.
 */
export interface IncompleteCommand {
  readonly command: string
  /** The names of the arguments to add, such as `--reference`. */
  readonly arguments: ReadonlyArray<string>
}

/** Returns the members of a JSON document. `next` can always run as it is: an incomplete command is in `nextNeeds`. */
export const nextMembers = (
  next: Next | null | undefined
): { readonly next: string | null; readonly nextNeeds?: IncompleteCommand } =>
  typeof next === "object" && next !== null ? { next: null, nextNeeds: next } : { next: next ?? null }

/** Ends the command with the exit code. */
export class CommandExit extends Data.TaggedError("CommandExit")<{
  readonly exitCode: ExitCode
  /** For stderr: one or more lines. If it is empty, nothing is printed for people. */
  readonly problem: string
  /** Default: the usual reason of the exit code. */
  readonly reason?: ErrorReason | undefined
  /** Whether the same command can succeed later without any change. */
  readonly retryable?: boolean | undefined
  /** The wait that the service requested. */
  readonly retryAfterMs?: number | undefined
  /** The command that continues. It contains no key. It contains a cursor or filter value only on a terminal. */
  readonly next?: Next | undefined
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
  | Destination.DestinationError
  | CliError.CliError

/** Returns the exit code of an error. */
export const programExitCodeOf = (error: ProgramError): ExitCode =>
  error._tag === "CommandExit" ? error.exitCode : CliError.isCliError(error) ? ExitCode.usage : exitCodeOf(error)

/** What programs learn about an error. Null: not known. */
export interface ErrorFacts {
  readonly reason: ErrorReason
  readonly message: string
  /** Whether the same command can succeed later without any change. */
  readonly retryable: boolean | null
  readonly retryAfterMs: number | null
  readonly exitCode: ExitCode
  readonly next: Next | null
}

/** Returns the facts of an error. */
export const factsOf = (error: ProgramError): ErrorFacts => {
  const exitCode = programExitCodeOf(error)
  const facts = {
    reason: codeRows[exitCode].reason,
    message: error.message === "" ? codeRows[exitCode].message ?? "" : error.message,
    retryable: exitCode === ExitCode.usage || exitCode === ExitCode.configuration ? false : null,
    retryAfterMs: null,
    exitCode,
    next: null
  }
  switch (error._tag) {
    case "CommandExit":
      return {
        ...facts,
        reason: error.reason ?? facts.reason,
        retryable: error.retryable ?? facts.retryable,
        retryAfterMs: error.retryAfterMs ?? null,
        next: error.next ?? null
      }
    case "PaymentsError": {
      const { reason } = error
      return {
        ...facts,
        reason: reason._tag,
        retryable: RetryPolicy.isRetryable(reason),
        retryAfterMs: ("retryAfterMs" in reason ? reason.retryAfterMs : undefined) ?? null
      }
    }
    case "SinkError":
      return {
        ...facts,
        reason: error.reason._tag,
        retryable: sinkRows[error.reason._tag].retryable
      }
    default:
      return facts
  }
}

/** The usual reason of each exit code, and the message if a command has printed its own one before it failed. */
const codeRows: { readonly [Code in ExitCode]: { readonly reason: ErrorReason; readonly message?: string } } = {
  // No error has this code.
  [ExitCode.done]: { reason: "Unexpected" },
  [ExitCode.unexpected]: { reason: "Unexpected" },
  [ExitCode.usage]: { reason: "Usage" },
  [ExitCode.configuration]: { reason: "Configuration" },
  [ExitCode.notAuthorized]: { reason: "Unauthorized" },
  [ExitCode.refused]: { reason: "InvalidRequest" },
  [ExitCode.rateLimited]: { reason: "RateLimited" },
  [ExitCode.unavailable]: { reason: "Transport" },
  [ExitCode.malformed]: { reason: "MalformedResponse" },
  [ExitCode.destination]: { reason: "Failed" },
  [ExitCode.incomplete]: { reason: "Incomplete", message: "finished, but some records need attention" },
  [ExitCode.differs]: { reason: "Differs", message: "finished; there are differences" },
  [ExitCode.stale]: { reason: "Stale", message: "a list is older than allowed" },
  [ExitCode.interrupted]: { reason: "Interrupted", message: "interrupted" }
}

/** The reasons of errors whose code depends on more than the reason. */
const otherReasons: ReadonlyArray<readonly [code: ExitCode, reason: ErrorReason]> = [
  [ExitCode.usage, "InvalidRequest"],
  [ExitCode.destination, "Output"]
]

/** All exit codes, each with its name and the reasons of its errors, the usual one first. */
export const exitCodes = Object.entries(ExitCode).map(([name, code]) => {
  const reasons = [
    codeRows[code].reason,
    ...Object.entries({ ...requestRows, ...sinkRows }).flatMap(([reason, row]) =>
      row.exitCode === code ? [reason] : []
    ),
    ...otherReasons.flatMap(([of, reason]) => of === code ? [reason] : [])
  ]
  return { code, name, reasons: code === ExitCode.done ? [] : [...new Set(reasons)] }
})

export const interruptedFacts: ErrorFacts = factsOf(new CommandExit({ exitCode: ExitCode.interrupted, problem: "" }))

/** Returns the error with the command that continues. */
export const withNext = (error: ProgramError, next: Next | undefined): CommandExit => {
  const { exitCode, message, reason, retryable, retryAfterMs } = factsOf(error)
  return new CommandExit({
    exitCode,
    problem: error.message === "" ? "" : message,
    reason,
    retryable: retryable ?? undefined,
    retryAfterMs: retryAfterMs ?? undefined,
    next
  })
}

type Checks = { readonly [name: string]: Effect.Effect<unknown, ProgramError, unknown> }

/**
 * Runs every check and fails with all problems together, so that a person can correct everything at once. The exit code
 * and the reason are those of the error with the lowest code.
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
    if (first !== undefined) return yield* more.length === 0 ? Effect.fail(first) : allOf(errors)
    return Record.map(results, (result) => Result.isSuccess(result) ? result.success : undefined)
    // Each member of the record has the type of its check, but the type of Record.map cannot express that.
  }) as never

const allOf = (errors: ReadonlyArray<ProgramError>): CommandExit => {
  const exitCode = lowestExitCode(errors.map(programExitCodeOf))
  const facts = errors.map(factsOf)
  const waits = facts.flatMap(({ retryAfterMs }) => retryAfterMs === null ? [] : [retryAfterMs])
  return new CommandExit({
    exitCode,
    problem: [...new Set(errors.flatMap(({ message }) => message.split("\n")))].join("\n"),
    reason: facts.find((one) => one.exitCode === exitCode)?.reason,
    retryable: facts.every(({ retryable }) => retryable === true),
    retryAfterMs: waits.length === 0 ? undefined : Math.max(...waits)
  })
}
