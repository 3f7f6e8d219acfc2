/** How the client reacts to error answers: to each status that it treats in its own way, and to Retry-After. */
import { assert } from "@effect/vitest"
import { RetryPolicy } from "@payments/core"
import { Duration } from "effect"
import { type Case, fails, type Outcome, returnsAll } from "./FaultOutcomes.ts"

/** The statuses that refuse a cursor, if the same request without the cursor is answered. */
const refusals = [400, 404, 410, 422] as const

/** A service that refuses a cursor but answers the request without it. */
export const refusalCases: { readonly [title: string]: Case } = Object.fromEntries(
  refusals.map((status) => [
    `refuses cursors after two pages, with ${status}`,
    {
      faults: [{ fault: "cursorExpires", cursorPages: 2, status }],
      expect: (outcome) => {
        fails({ _tag: "PaginationFault", kind: "cursorRefused" }, 1, 2)(outcome)
        assert.isUndefined(outcome.error?.position)
      }
    } satisfies Case
  ])
)

const statuses = [
  [400, "InvalidRequest", "code"],
  [401, "Unauthorized", "nested"],
  [403, "Forbidden", "list"],
  [404, "NotFound", "problem"],
  [408, "Timeout", "text"],
  [409, "InvalidRequest", "code"],
  [410, "InvalidRequest", "list"],
  [422, "InvalidRequest", "nested"],
  [500, "ServerFailure", "list"],
  [501, "ServerFailure", "problem"],
  [502, "ServerFailure", "text"],
  [503, "ServerFailure", "code"],
  [504, "ServerFailure", "nested"]
] as const

const attemptsAt = (status: number): number =>
  RetryPolicy.retriedStatuses.includes(status) ? RetryPolicy.defaultRetryPolicy.attempts : 1

/** Error answers, some with a Retry-After header. */
export const statusCases: { readonly [title: string]: Case } = Object.fromEntries([
  ...statuses.map(([status, tag, shape]) => [
    `answers ${status}`,
    {
      faults: [{ fault: "status", status, shape, from: 2 }],
      expect: (outcome) => {
        fails({ _tag: tag }, attemptsAt(status), 1)(outcome)
        const { body, position, status: errorStatus } = outcome.error ?? {}
        const code = shape === "problem" || shape === "text" ? undefined : `STATUS_${status}`
        assert.deepStrictEqual([errorStatus, body?.code], [status, code])
        assert.isDefined(position)
      }
    } satisfies Case
  ]),
  ["answers 429 once, with a Retry-After of 0 seconds", {
    faults: [{ fault: "status", status: 429, retryAfter: 0, nth: 1 }],
    expect: returnsAll(2, 1, 1)
  }],
  ["answers 429, with a Retry-After of an hour", {
    faults: [{ fault: "status", status: 429, retryAfter: 3600 }],
    expect: fails({ _tag: "RateLimited", retryAfter: Duration.hours(1) }, 1)
  }],
  ["answers 429, with a Retry-After as a date", {
    faults: [{ fault: "status", status: 429, retryAfterDate: 3600 }],
    expect: ({ error }: Outcome) => {
      const wait = error?.reason._tag === "RateLimited" ? error.reason.retryAfter : undefined
      assert.isTrue(wait !== undefined && Duration.toMinutes(wait) > 58 && Duration.toMinutes(wait) <= 60)
    }
  }],
  ["answers 503, with a Retry-After of an hour", {
    faults: [{ fault: "status", status: 503, retryAfter: 3600 }],
    expect: fails({ _tag: "ServerFailure", retryAfter: Duration.hours(1) }, 1)
  }],
  ["answers 503 once, with yesterday as Retry-After", {
    faults: [{ fault: "status", status: 503, retryAfterDate: -86_400, nth: 1 }],
    expect: returnsAll(2, 1, 1)
  }],
  ["answers 429, with a Retry-After of 25 hours", {
    faults: [{ fault: "status", status: 429, retryAfter: 25 * 3600 }],
    expect: fails({ _tag: "RateLimited", retryAfter: Duration.hours(25) }, 1)
  }],
  ["answers 503 once, with a Retry-After of 30 years", {
    faults: [{ fault: "status", status: 503, retryAfter: 1e9, nth: 1 }],
    expect: fails({ _tag: "ServerFailure", retryAfter: Duration.seconds(1e9) }, 1)
  }],
  ["answers 503, with a Retry-After longer than any calendar", {
    faults: [{ fault: "status", status: 503, retryAfter: "9".repeat(400) }],
    expect: fails({ _tag: "ServerFailure", retryAfter: Duration.days(36_500) }, 1)
  }],
  ["answers 503 once, with a negative Retry-After", {
    faults: [{ fault: "status", status: 503, retryAfter: -5, nth: 1 }],
    expect: returnsAll(2, 1, 1)
  }],
  ["answers 503 once, with a Retry-After that is not a time", {
    faults: [{ fault: "status", status: 503, retryAfter: "soon", nth: 1 }],
    expect: returnsAll(2, 1, 1)
  }],
  ["revokes the key on page 3", {
    faults: [{ fault: "status", status: 401, from: 3 }],
    expect: (outcome: Outcome) => {
      fails({ _tag: "Unauthorized" }, 1, 2)(outcome)
      assert.isDefined(outcome.error?.position)
    }
  }]
])
