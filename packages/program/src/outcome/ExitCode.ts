/** The exit codes of the programs. */
import type { Destination, PassOutcome, ScanOutcome, SinkError } from "@payments/copy"
import type { PaymentsConfigError, PaymentsError } from "@payments/core"
import { Result } from "effect"
import type { SourcesError } from "./SourcesError.ts"

/** The exit codes of `payments` and `payments-worker`. */
export const ExitCode = {
  done: 0,
  unexpected: 1,
  usage: 2,
  configuration: 3,
  notAuthorized: 4,
  refused: 5,
  rateLimited: 6,
  unavailable: 7,
  malformed: 8,
  destination: 9,
  incomplete: 10,
  differs: 11,
  stale: 12,
  interrupted: 130
} as const

/** One of {@link ExitCode}. */
export type ExitCode = typeof ExitCode[keyof typeof ExitCode]

/** Returns the exit code of an error. */
export const exitCodeOf = (
  error: PaymentsError | PaymentsConfigError | SinkError | SourcesError | Destination.DestinationError
): ExitCode => {
  switch (error._tag) {
    case "DestinationError":
      return ExitCode.usage
    case "PaymentsConfigError":
    case "SourcesError":
      return ExitCode.configuration
    case "SinkError":
      return error.reason._tag === "WrongSetting" ? ExitCode.configuration : ExitCode.destination
    case "PaymentsError":
      // Without a status the request was never sent: the caller's arguments are invalid.
      return error.reason._tag === "InvalidRequest" && error.reason.status === undefined
        ? ExitCode.usage
        : codeOfReason[error.reason._tag]
  }
}

const codeOfReason: { readonly [Tag in PaymentsError["reason"]["_tag"]]: ExitCode } = {
  Unauthorized: ExitCode.notAuthorized,
  Forbidden: ExitCode.notAuthorized,
  NotFound: ExitCode.refused,
  InvalidRequest: ExitCode.refused,
  RateLimited: ExitCode.rateLimited,
  ServerFailure: ExitCode.unavailable,
  Transport: ExitCode.unavailable,
  Timeout: ExitCode.unavailable,
  MalformedResponse: ExitCode.malformed,
  PaginationFault: ExitCode.malformed,
  FilterNotApplied: ExitCode.malformed,
  RedirectRefused: ExitCode.malformed,
  UnexpectedStatus: ExitCode.malformed
}

/** Returns the exit code of the scan of a list, or of a pass. */
export const outcomeExitCode = ({ result }: ScanOutcome | PassOutcome): ExitCode => {
  if (Result.isFailure<unknown, PaymentsError | SinkError>(result)) return exitCodeOf(result.failure)
  // A pass concludes nothing about rows that it does not read, so only a full scan can be incomplete.
  return !("kind" in result.success) &&
      result.success.some(({ heldBack, quarantined }) => quarantined > 0 || heldBack > 0)
    ? ExitCode.incomplete
    : ExitCode.done
}

/** Returns the lowest code that is not 0, or 0. It is the exit code of a run over several lists. */
export const lowestExitCode = (codes: ReadonlyArray<ExitCode>): ExitCode =>
  codes.filter((code) => code !== ExitCode.done).toSorted((left, right) => left - right)[0] ?? ExitCode.done
