/**
 * Checks whether a source can be read and exported: its settings, its service, its rate limit store and its
 * destination. It writes nothing into a destination. Each check has a time limit, and its finding says what to do.
 */
import type { PersonalRule } from "@payments/copy"
import { Lists, PaymentsApi, PaymentsConfig, type PaymentsConfigError } from "@payments/core"
import { Context, Duration, Effect, Layer, Option, Result } from "effect"
import { ExitCode } from "../outcome/ExitCode.ts"
import type { SourcesError } from "../outcome/SourcesError.ts"
import type { LoadedSource } from "../sources/LoadSources.ts"
import { checkAddress } from "./Connection.ts"
import { checkFacts, checkSpace, checkState, checkWritable } from "./DestinationChecks.ts"
import { failed, type Finding, ok, skipped, timedOut, within } from "./Finding.ts"
import { checkRequests, clockOf, keyAccepted, readable, readFirst } from "./ListChecks.ts"

export { checkState, checkWritable } from "./DestinationChecks.ts"
export type { Finding } from "./Finding.ts"
export { readable, readFirst } from "./ListChecks.ts"

/** The default time limit of a check. */
export const checkTime = Duration.seconds(10)

/** Runs all checks of a source in sequence, and reports each finding. */
export const diagnose = Effect.fnUntraced(function*<R, E, R2>(
  source: LoadedSource,
  clientOf: (config: PaymentsConfig["Service"]) => Layer.Layer<PaymentsApi, never, R>,
  limit: Duration.Duration,
  report: (finding: Finding) => Effect.Effect<void, E, R2>
) {
  const service = yield* source.service.pipe(
    Effect.timeoutOrElse({ duration: Duration.sum(limit, keyTime), orElse: () => Effect.succeed(undefined) }),
    Effect.result
  )
  let config: PaymentsConfig["Service"] | undefined
  if (Result.isFailure(service)) {
    for (const finding of ofSettings(service.failure)) yield* report(finding)
    yield* report(skipped("service", "not checked, because of the settings"))
  } else {
    config = service.success
    if (config === undefined) yield* report(failed("settings", ExitCode.configuration, "the key was not read in time"))
    else {
      yield* report(ok("settings", "can be used"))
      yield* checkService(source, config, clientOf(config), { limit, report })
    }
  }
  const personal = yield* Effect.result(Effect.timeoutOption(source.personal, Duration.sum(limit, keyTime)))
  if (Result.isFailure(personal)) { for (const finding of ofSettings(personal.failure)) yield* report(finding) }
  else if (Option.isNone(personal.success)) {
    yield* report(failed("settings", ExitCode.configuration, "the key for personal fields was not read in time"))
  }
  const store = yield* checkStore(source, limit)
  if (store !== undefined) yield* report(store)
  for (const handoff of source.handoffs ?? []) {
    // Few sources have one, so its code is loaded only here.
    const { checkHandoff } = yield* Effect.promise(() => import("./HandoffChecks.ts"))
    yield* report(yield* checkHandoff(handoff, source.to, Duration.sum(limit, keyTime)))
  }
  const rule = Result.isSuccess(personal) ? Option.getOrUndefined(personal.success) : undefined
  yield* checkDestination(source, { bound: config?.source, rule }, { limit, report })
}, Effect.scoped)

/** Checks the rate limit store of a source, if it has one. */
export const checkStore = Effect.fnUntraced(function*(
  { rateLimitStore: url }: Pick<LoadedSource, "rateLimitStore">,
  limit: Duration.Duration = checkTime
) {
  if (url === undefined) return undefined
  // Most sources have no store, so its code is loaded only here.
  const { checkRateLimitStore } = yield* Effect.promise(() => import("./RateLimitCheck.ts"))
  return yield* within("rate limit store", limit)(checkRateLimitStore(url))
})

const adviceAbout = (setting: string, problem: string): string => {
  if (!problem.startsWith("is not set")) return "Correct this setting."
  if (setting === "PAYMENTS_BASE_URL") return "Set it, or add a source to the sources file: payments source add."
  return problem === "is not set" ? "Set it." : "Set one of the two."
}

/** Returns a finding for each mistake in the settings. */
export const ofSettings = (error: PaymentsConfigError | SourcesError): ReadonlyArray<Finding> => {
  const finding = (found: string, advice?: string) =>
    failed("settings", ExitCode.configuration, found, { advice, reason: "Configuration" })
  return error._tag === "PaymentsConfigError"
    ? error.problems.map(({ problem, setting }) => finding(`${setting} ${problem}`, adviceAbout(setting, problem)))
    : error.message.split("\n").map((line) => finding(line.replace(/\.$/, "")))
}

/** The finding that no source is set up. */
export const noSource = ({ advice, found }: { readonly found: string; readonly advice: string }): Finding =>
  failed("settings", ExitCode.configuration, found, { advice, reason: "Configuration" })

/** A command that prints a key has a limit of its own, after which it is killed. */
const keyTime = Duration.seconds(30)

interface Checking<E, R> {
  readonly limit: Duration.Duration
  readonly report: (finding: Finding) => Effect.Effect<void, E, R>
}

const checkService = Effect.fnUntraced(function*<R, E, R2>(
  source: LoadedSource,
  config: PaymentsConfig["Service"],
  client: Layer.Layer<PaymentsApi, never, R>,
  { limit, report }: Checking<E, R2>
) {
  const lists = source.lists.map((name) => Lists.byName[name])
  const reachable = new Map<string, boolean>()
  for (const list of lists) {
    const { origin } = PaymentsConfig.addressOf(config, list)
    if (!reachable.has(origin)) {
      reachable.set(origin, yield* checkAddress(new URL(origin), limit, report))
    }
  }
  const api = Context.get(yield* Layer.build(client), PaymentsApi)
  // Requests wait for the client's own request rate. A check sends two at most, while at most all lists send theirs.
  const { maxRequestsPerSecond: rate } = config
  const patience = rate === undefined ? limit : Duration.sum(limit, Duration.seconds((lists.length + 2) / rate))
  const firsts = yield* Effect.forEach(
    lists.filter((list) => reachable.get(PaymentsConfig.addressOf(config, list).origin) === true),
    Effect.fnUntraced(function*(list) {
      const first = Option.getOrUndefined(yield* Effect.timeoutOption(readFirst(api, list), patience))
      // Compare the clocks now, while the answer is fresh.
      const clock = first !== undefined && Result.isSuccess(first) ? yield* clockOf(first.success) : undefined
      return { list, first, clock }
    }),
    { concurrency: "unbounded" }
  )
  const clock = firsts.find((one) => one.clock !== undefined)?.clock
  yield* report(clock ?? skipped("clock", "not known, because no list can be read"))
  const keys = PaymentsConfig.keysOf(config)
  const hasOneKey = keys.payments === keys.invoices && config.baseUrl.href === config.invoicesBaseUrl.href
  for (const address of hasOneKey ? ["any"] as const : ["payments", "invoices"] as const) {
    const own = firsts.filter(({ list }) => address === "any" || list.baseAddress === address)
    if (own.length === 0) continue
    yield* report(keyAccepted(
      address === "invoices" ? "key of invoices" : "key",
      own.map(({ first }) => first)
    ))
  }
  for (const list of lists) {
    const read = firsts.find((one) => one.list === list)
    const finding = read === undefined
      ? skipped(list.label, "not checked, because the service cannot be reached")
      : read.first === undefined
      ? timedOut(list.label, patience)
      : readable(list, read.first)
    yield* report(finding)
    if (finding.state === "ok") yield* checkRequests(api, list, patience, report)
  }
})

const checkDestination = Effect.fnUntraced(function*<E, R>(
  { lists, to }: LoadedSource,
  { bound, rule }: { readonly bound: string | undefined; readonly rule: PersonalRule | undefined },
  { limit, report }: Checking<E, R>
) {
  if (to === undefined) {
    return yield* report(skipped("destination", "none is set", "To export, give --to or set PAYMENTS_TO."))
  }
  const definitions = lists.map((name) => Lists.byName[name])
  const state = yield* within("destination", limit)(checkState(to, bound, rule, definitions))
  yield* report(state)
  // A destination that cannot be read, or that an export refuses, will not be written either.
  if (state.state === "ok") yield* report(yield* within("writable", limit)(checkWritable(to)))
  yield* report(yield* within("disk", limit)(checkSpace(to)))
  if (state.state === "ok") yield* report(yield* within("facts", limit)(checkFacts(to, bound, definitions)))
})
