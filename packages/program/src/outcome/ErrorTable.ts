/** What the programs make of an error. Each reason is one row; a new reason without a row does not compile. */
import type { Destination, PassOutcome, ScanOutcome, SinkError } from "@payments/copy"
import type { PaymentsConfigError, PaymentsError } from "@payments/core"
import { Result } from "effect"
import { ExitCode } from "./ExitCode.ts"
import type { SourcesError } from "./SourcesError.ts"

/** Core's policy decides whether such an error is retried. */
interface RequestRow {
  readonly exitCode: ExitCode
  /** The label in metrics. */
  readonly label: "unauthorized" | "refused" | "rate_limited" | "server_error" | "no_answer" | "malformed"
  /** What to do, if the message says only what happened. */
  readonly advice?: string
}

interface SinkRow {
  readonly exitCode: ExitCode
  /** Whether the same command can succeed later without any change. Null: not known. */
  readonly retryable: boolean | null
}

const later = "Run again later. If it lasts, report it to the service's operators."
const report = "Check the base address. If it is right, report it to the service's operators."

/** The reasons of {@link PaymentsError}. */
export const requestRows: { readonly [Tag in PaymentsError["reason"]["_tag"]]: RequestRow } = {
  Unauthorized: { exitCode: ExitCode.notAuthorized, label: "unauthorized" },
  Forbidden: { exitCode: ExitCode.notAuthorized, label: "unauthorized" },
  NotFound: { exitCode: ExitCode.refused, label: "refused" },
  InvalidRequest: { exitCode: ExitCode.refused, label: "refused" },
  RateLimited: {
    exitCode: ExitCode.rateLimited,
    label: "rate_limited",
    advice: "Run again later, with fewer requests at once (PAYMENTS_MAX_REQUESTS_PER_SECOND)."
  },
  ServerFailure: { exitCode: ExitCode.unavailable, label: "server_error", advice: later },
  Transport: { exitCode: ExitCode.unavailable, label: "no_answer" },
  Timeout: { exitCode: ExitCode.unavailable, label: "no_answer", advice: later },
  MalformedResponse: { exitCode: ExitCode.malformed, label: "malformed", advice: report },
  PaginationFault: { exitCode: ExitCode.malformed, label: "malformed" },
  FilterNotApplied: { exitCode: ExitCode.malformed, label: "malformed" },
  RedirectRefused: { exitCode: ExitCode.malformed, label: "malformed" },
  UnexpectedStatus: { exitCode: ExitCode.malformed, label: "malformed", advice: report }
}

/** The reasons of {@link SinkError}. */
export const sinkRows: { readonly [Tag in SinkError["reason"]["_tag"]]: SinkRow } = {
  Locked: { exitCode: ExitCode.destination, retryable: true },
  LeaseLost: { exitCode: ExitCode.destination, retryable: true },
  Moved: { exitCode: ExitCode.destination, retryable: false },
  RowsRemoved: { exitCode: ExitCode.destination, retryable: true },
  OtherSource: { exitCode: ExitCode.destination, retryable: false },
  OtherRule: { exitCode: ExitCode.destination, retryable: false },
  PersonalDataChanged: { exitCode: ExitCode.destination, retryable: false },
  LogInUse: { exitCode: ExitCode.destination, retryable: true },
  OtherMerchant: { exitCode: ExitCode.destination, retryable: false },
  NotADestination: { exitCode: ExitCode.destination, retryable: false },
  WrongSetting: { exitCode: ExitCode.configuration, retryable: false },
  Damaged: { exitCode: ExitCode.destination, retryable: false },
  Denied: { exitCode: ExitCode.destination, retryable: false },
  Full: { exitCode: ExitCode.destination, retryable: false },
  Unavailable: { exitCode: ExitCode.destination, retryable: true },
  Failed: { exitCode: ExitCode.destination, retryable: null }
}

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
      return sinkRows[error.reason._tag].exitCode
    case "PaymentsError":
      // Without a status the request was never sent: the caller's arguments are invalid.
      return error.reason._tag === "InvalidRequest" && error.reason.status === undefined
        ? ExitCode.usage
        : requestRows[error.reason._tag].exitCode
  }
}

/** Returns the exit code of the scan of a list, or of a pass. */
export const outcomeExitCode = ({ result }: ScanOutcome | PassOutcome): ExitCode => {
  if (Result.isFailure<unknown, PaymentsError | SinkError>(result)) return exitCodeOf(result.failure)
  // A pass concludes nothing about rows that it does not read, so only a full scan can be incomplete.
  return !("kind" in result.success) &&
      result.success.some(({ drift, heldBack, quarantined }) =>
        quarantined > 0 || heldBack > 0 || drift.some(({ mayLackRecords }) => mayLackRecords)
      )
    ? ExitCode.incomplete
    : ExitCode.done
}
