/**
 * Checks what the service does with requests: whether it accepts the key and the limits, whether filters apply, and its
 * clock. It only reads. It sends values of records as filter values, but never shows them.
 */
import { type ListOperation, Lists, type Page, type PaymentsApi, type PaymentsError } from "@payments/core"
import { DateTime, Duration, Effect, Option, Result, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { ExitCode } from "../outcome/ExitCode.ts"
import { failed, failedWith, type Finding, ok, skipped, warning, within } from "./Finding.ts"

/** The operation of any list. The checks pass records and filters on unchanged. */
type Operation = ListOperation<{ readonly id: string }, object>

type FirstPage = Result.Result<Page<{ readonly id: string }>, PaymentsError>

/** Reads the first record of a list. */
export const readFirst = (api: PaymentsApi["Service"], list: Lists.AnyList): Effect.Effect<FirstPage> =>
  Effect.suspend(() => {
    const operation: Operation = api[list.name]
    return Effect.result(operation.page({ limit: 1, onBadRecord: "quarantine" }))
  })

/** Checks whether the list can be read. */
export const readable = (list: Lists.AnyList, first: FirstPage): Finding =>
  Result.isSuccess(first) ? ok(list.label, "can be read") : failedWith(list.label, first.failure)

/** Checks whether the service accepts the key for these lists, which share one key. */
export const keyAccepted = (name: string, firsts: ReadonlyArray<FirstPage | undefined>): Finding => {
  const known = firsts.flatMap((first) => first === undefined ? [] : [first])
  const refusal = known.find((first) => Result.isFailure(first) && first.failure.reason._tag === "Unauthorized")
  if (refusal !== undefined && Result.isFailure(refusal)) return failedWith(name, refusal.failure)
  const isAccepted = known.some((first) => Result.isSuccess(first) || first.failure.reason._tag === "Forbidden")
  return isAccepted ? ok(name, "accepted") : skipped(name, "not known, because no list answered")
}

/** The clock of an HTTP header has seconds only. */
const clockResolution = Duration.seconds(2)
const clockWarning = Duration.seconds(30)
/** The programs call the age of a list unknown if clocks differ by more. */
const clockLimit = Duration.minutes(5)

/** Compares the clock of the service with this machine's, now that the page has arrived. */
export const clockOf = Effect.fnUntraced(function*({ elapsed, headers }: Page<unknown>) {
  const text = headers["date"]
  const sent = text === undefined ? Number.NaN : Date.parse(text)
  if (Number.isNaN(sent)) return skipped("clock", "not known, because the service sends no date")
  const differenceMs = sent - DateTime.toEpochMillis(yield* DateTime.now)
  const difference = Duration.millis(Math.abs(differenceMs))
  const tolerance = Duration.sum(clockResolution, elapsed)
  if (Duration.isLessThanOrEqualTo(difference, tolerance)) return ok("clock", "agrees with the service's")
  const found = `this machine is ${Duration.format(Duration.seconds(Math.round(Math.abs(differenceMs) / 1000)))} ${
    differenceMs > 0 ? "behind" : "ahead of"
  } the service`
  const advice = "Correct the wrong clock, with NTP for example: ages, schedules and certificates depend on it."
  return Duration.isGreaterThan(difference, clockLimit)
    ? failed("clock", ExitCode.configuration, found, { advice, reason: "ClockSkew" })
    : Duration.isGreaterThan(difference, clockWarning)
    ? warning("clock", found, advice)
    : ok("clock", found)
})

/** Checks the limits and the filters of a list that can be read. Stops at the first check without an answer. */
export const checkRequests = Effect.fnUntraced(function*<E, R>(
  api: PaymentsApi["Service"],
  list: Lists.AnyList,
  limit: Duration.Duration,
  report: (finding: Finding) => Effect.Effect<void, E, R>
) {
  const operation: Operation = api[list.name]
  let sample: Page<{ readonly id: string }> | undefined
  const limits = [Lists.pageLimit.minimum, Lists.pageLimit.maximum].map((size) => ({
    check: `${list.label} limit ${size}`,
    run: (check: string) =>
      Effect.match(firstRecords(operation, { limit: size }), {
        onFailure: (error) => requestRefused({ list, check, field: "limit" }, error),
        onSuccess: (page) => {
          sample = page
          return limitFinding({ list, check, field: "limit" }, size, page.records().length)
        }
      })
  }))
  const filters = Object.entries<Lists.Filter>(list.filters).map(([field, filter]) => ({
    check: `${list.label} ${field}`,
    run: (check: string) => checkFilter(operation, { list, check, field, filter, sample: sample?.items ?? [] })
  }))
  for (const { check, run } of [...limits, ...filters]) {
    const finding = yield* within(check, limit)(run(check))
    yield* report(finding)
    if (finding.exitCode === ExitCode.unavailable || finding.exitCode === ExitCode.rateLimited) {
      return yield* report(
        skipped(list.label, "its other limits and filters were not checked, because there was no answer")
      )
    }
  }
})

/**
 * Reads the first page that has records, or the last page: a service may return empty pages before the end of a list.
 */
const firstRecords = (operation: Operation, query: { readonly limit: number; readonly [filter: string]: unknown }) =>
  operation.pages({ ...query, onBadRecord: "quarantine", prefetch: 0 }).pipe(
    Stream.filter((page) => page.next === null || page.records().length > 0),
    Stream.runHead,
    // The stream has at least one page, and its last page passes the filter.
    Effect.map(Option.getOrThrow)
  )

/** A parameter of a list's requests, and the name of its check. */
interface Parameter {
  readonly list: Lists.AnyList
  readonly check: string
  readonly field: string
}

const limitFinding = (parameter: Parameter, limit: number, length: number): Finding =>
  length > limit
    ? failed(parameter.check, ExitCode.malformed, `is ignored: the page has ${length} records`, {
      advice: parameterAdvice(parameter, "The listing works, but with pages of another size."),
      reason: "LimitNotApplied"
    })
    : ok(parameter.check, "accepted")

/** Values of filters that no record has. */
const impossible: { readonly [Type in Lists.Filter["type"]]: () => string } = {
  text: () => randomUUID(),
  day: () => "0001-01-01",
  dateTime: () => "0001-01-01T00:00:00.000Z"
}

/**
 * Checks whether the service applies the filter. With the value of a record, it must return that record and no others.
 * With an impossible value, it must return none. A refusal of that value shows that the service reads the filter.
 */
const checkFilter = Effect.fnUntraced(function*(
  operation: Operation,
  { filter, sample, ...parameter }: Parameter & {
    readonly filter: Lists.Filter
    readonly sample: ReadonlyArray<object>
  }
) {
  const { check, field } = parameter
  if (sample.length === 0) return skipped(check, "not checked, because the list has no records")
  const valueOf = (record: object) => Object.entries(record).find(([name]) => name === field)?.[1]
  const value = sample.map(valueOf).find((found) => typeof found === "string" && found !== "")
  const read = (wanted: string) =>
    Effect.result(firstRecords(operation, { [field]: wanted, limit: Lists.pageLimit.maximum }))
  let found = "no value to request on the first page"
  if (typeof value === "string") {
    const page = yield* read(value)
    if (Result.isFailure(page)) return requestRefused(parameter, page.failure)
    const { items } = page.success
    const matching = items.filter((item) => Lists.matches(filter, valueOf(item), value)).length
    if (matching === 0) return notApplied(parameter, "returns no record for the value of a record")
    if (matching < items.length) return notApplied(parameter, othersReturned)
    found = `${matching} ${matching === 1 ? "record" : "records"} for a known value`
  }
  const none = yield* read(impossible[filter.type]())
  if (Result.isFailure(none)) {
    const { _tag } = none.failure.reason
    return _tag === "InvalidRequest" || _tag === "NotFound"
      ? ok(check, `filters: ${found}, an impossible one is refused`)
      : requestRefused(parameter, none.failure)
  }
  return none.success.items.length > 0
    ? notApplied(parameter, "is ignored: records are returned for an impossible value")
    : ok(check, `filters: ${found}, none for an impossible one`)
})

const othersReturned = "is ignored: records without the value are returned"

const notApplied = (parameter: Parameter, found: string): Finding =>
  failed(parameter.check, ExitCode.malformed, found, {
    advice: parameterAdvice(parameter, "Do not use this filter with this service."),
    reason: "FilterNotApplied"
  })

const parameterAdvice = ({ field, list }: Parameter, otherwise: string): string =>
  list.parameterNames === "assumed"
    ? `Ask the service's operators for the parameter of ${field}, and set it in invoice_params (PAYMENTS_INVOICE_PARAMS).`
    : otherwise

const requestRefused = (parameter: Parameter, error: PaymentsError): Finding => {
  const { _tag } = error.reason
  if (_tag === "FilterNotApplied") return notApplied(parameter, othersReturned)
  const finding = failedWith(parameter.check, error)
  return _tag === "InvalidRequest"
    ? { ...finding, advice: parameterAdvice(parameter, "Report it to the service's operators.") }
    : finding
}
