/** The result of one check of `payments doctor` and of `payments-worker check`. */
import type { SinkError } from "@payments/copy"
import { type PaymentsConfigError, PaymentsError } from "@payments/core"
import { Duration, Effect } from "effect"
import { exitCodeOf, requestRows } from "../outcome/ErrorTable.ts"
import { ExitCode } from "../outcome/ExitCode.ts"

/** The result of a check. It contains no key, no filter value and no data of a record. */
export interface Finding {
  /** What was checked, such as `tls` or `invoices contract`. */
  readonly check: string
  /** `skipped`: the check could not be made, or does not apply. `found` says why. */
  readonly state: "ok" | "warning" | "failed" | "skipped"
  /** A sentence without its full stop. It may contain text of a server. */
  readonly found: string
  /** What to do, as a sentence; undefined if nothing. */
  readonly advice: string | undefined
  /** The tag of the error's reason, or the code of the system, if the check failed with one. */
  readonly reason: string | undefined
  /** The exit code of a failed check; 0 of any other. */
  readonly exitCode: ExitCode
}

const noProblem = { advice: undefined, reason: undefined, exitCode: ExitCode.done } as const

export const ok = (check: string, found: string): Finding => ({ check, state: "ok", found, ...noProblem })

export const skipped = (check: string, found: string, advice?: string): Finding => ({
  check,
  state: "skipped",
  found,
  ...noProblem,
  advice
})

export const warning = (check: string, found: string, advice: string): Finding => ({
  check,
  state: "warning",
  found,
  ...noProblem,
  advice
})

export const failed = (
  check: string,
  exitCode: ExitCode,
  found: string,
  { advice, reason }: Partial<Pick<Finding, "advice" | "reason">> = {}
): Finding => ({
  check,
  state: "failed",
  found,
  advice,
  reason,
  exitCode
})

/** Makes a finding from an error, with what to do. */
export const failedWith = (check: string, error: PaymentsError | PaymentsConfigError | SinkError): Finding => {
  const message = error instanceof PaymentsError ? error.message.replace(/^[a-z-]+: /, "") : error.message
  const advice = error._tag === "PaymentsError" ? requestRows[error.reason._tag].advice : undefined
  const tag = "reason" in error ? error.reason._tag : error._tag
  return failed(check, exitCodeOf(error), message.replace(/\.$/, ""), { advice, reason: tag })
}

/** Ends a check that takes longer than `limit`. An interrupted check may go on in the background for a while. */
export const within = (check: string, limit: Duration.Duration) => <R>(self: Effect.Effect<Finding, never, R>) =>
  Effect.timeoutOrElse(self, {
    duration: limit,
    orElse: () => Effect.succeed(timedOut(check, limit))
  })

export const timedOut = (check: string, limit: Duration.Duration): Finding =>
  failed(
    check,
    ExitCode.unavailable,
    `no answer within ${Duration.format(limit)}`,
    { advice: "Run again; for a slow service with a longer --timeout.", reason: "Timeout" }
  )
