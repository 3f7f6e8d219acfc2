/** `payments probe` learns facts about the service. */
import { Destination } from "@payments/copy"
import type { KnownFact } from "@payments/copy/facts"
import { checkKey, makeKeyFile, PaymentsConfig, PaymentsConfigError } from "@payments/core"
import { httpVersionOf } from "@payments/core/node"
import {
  checkAll,
  chosenRateLimitStore,
  duration,
  fromDestination,
  logLine,
  optionalFlag,
  type ProgramError,
  requireOutput,
  setting,
  wholeNumberFlag
} from "@payments/program"
import { Effect, FileSystem, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import type { HttpClient } from "effect/http"
import { rowFormatFlag } from "../output/Rows.ts"
import { pauseFlag } from "./conformance.ts"
import { fileProblem, htmlFlag, isDestination, placeFlag, printFacts, writePage } from "./facts.ts"

const requests = { default: 200, most: 100_000 } as const

const flags = {
  to: placeFlag("to", "where the observations are stored"),
  budget: wholeNumberFlag("budget", 1, requests.most).pipe(
    Flag.withDefault(requests.default),
    Flag.withDescription(`the most requests; default ${requests.default}`)
  ),
  pause: pauseFlag,
  otherKeyFile: optionalFlag(
    Flag.String("other-key-file").pipe(
      Flag.withMetavar("FILE"),
      Flag.withDescription("a file with another key of the service, to see what a cursor gives with it")
    )
  ),
  mayThrottle: Flag.Boolean("may-throttle").pipe(
    Flag.withDefault(false),
    Flag.withDescription(
      "find the rate at which answers with 429 begin, which slows other programs with the key down"
    )
  ),
  html: htmlFlag,
  format: rowFormatFlag
}

/** Makes the command. `config` takes its settings from environment variables. */
export const probeCommand = <R>(
  config: Layer.Layer<PaymentsConfig, ProgramError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "probe",
    flags,
    Effect.fnUntraced(function*({ budget, format, html, mayThrottle, otherKeyFile, pause, to }) {
      const { probe } = yield* Effect.promise(() => import("@payments/copy/facts"))
      const { otherKey, pauseDuration, rateLimits, settings } = yield* checkAll({
        pauseDuration: setting({ name: "pause", text: pause }, undefined, duration),
        settings: Effect.provide(PaymentsConfig, config),
        otherKey: otherKeyIn(otherKeyFile),
        rateLimits: Layer.build(chosenRateLimitStore)
      })
      yield* requireOutput
      yield* logLine(`Sending at most ${budget} requests, one at a time. They only read.`)
      if (mayThrottle) {
        yield* logLine(
          "At the end, it sends up to 100 requests a second until the service answers 429. " +
            "Other programs with the key are slowed down."
        )
      }
      let known: ReadonlyArray<KnownFact> = []
      const onObserved = (facts: ReadonlyArray<KnownFact>) => Effect.sync(() => void (known = facts))
      const place = isDestination(to) ? yield* openDestination(to, settings.source) : to
      const options = { to: place, budget, httpVersionOf, mayThrottle, otherKey, pause: pauseDuration, onObserved }
      const { facts, requests: sent, stopped } = yield* probe(settings, options)
        .pipe(
          Effect.onInterrupt(() => Effect.ignore(printFacts(known, format))),
          Effect.provide(http),
          // All programs with the key share its rate.
          Effect.provide(rateLimits),
          Effect.catchTag("FactsFileError", fileProblem("--to"))
        )
      yield* writePage(facts, html)
      yield* printFacts(facts, format)
      const certain = facts.filter(({ degree }) => degree === "certain").length
      yield* logLine(
        `Sent ${sent} requests. ${certain} of ${facts.length} facts are certain.${
          stopped === undefined ? sent < budget ? "" : " Run again to continue." : ` It ended early: ${stopped}.`
        }`
      )
    }, Effect.scoped)
  ).pipe(
    Command.withDescription(
      "Learn what the document does not say: order, limits, the meaning of count, filters. An answer that was observed " +
        "once is likely, and certain only if it was observed again"
    ),
    Command.withShortDescription("Learn from the service what its document does not say"),
    Command.withExamples([
      { command: "payments probe", description: `at most ${requests.default} requests; run it again to continue` },
      { command: "payments probe --budget 50 --pause 2s --to facts.json", description: "slowly, into another file" },
      {
        command: "payments probe --to sqlite:./payments.db",
        description: "into the destination, where exports use what is certain"
      }
    ])
  )

/** Reads the key of `--other-key-file`, as the program reads the configured key. */
const otherKeyIn = Effect.fnUntraced(function*(path: string | undefined) {
  if (path === undefined) return undefined
  const { read, setting: flag } = makeKeyFile(yield* FileSystem.FileSystem, "--other-key-file", path)
  const found = yield* Effect.map(read, (key) => "problem" in key ? key : checkKey(key.value))
  return "value" in found
    ? found.value
    : yield* new PaymentsConfigError({ problems: [{ setting: flag, problem: found.problem }] })
})

/** Opens the destination for the facts of this source. Creates its tables if it does not exist. */
const openDestination = Effect.fnUntraced(function*(text: string, source: string) {
  const destination = yield* fromDestination(text, "to")
  const open = Destination.maintenance(destination)
  const maintenance = yield* Effect.catchIf(
    open,
    (error) => Destination.isAbsent(destination, error),
    () => Effect.andThen(Destination.migrate(destination), open)
  )
  yield* Destination.requireSource(maintenance, source)
  return maintenance
})
