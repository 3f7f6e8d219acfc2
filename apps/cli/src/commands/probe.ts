/** `payments probe` learns facts about the service. `payments facts` shows what it has stored. */
import type { FactsFileError, KnownFact } from "@payments/copy/facts"
import { Lists, PaymentsConfig } from "@payments/core"
import {
  checkAll,
  CommandExit,
  duration,
  ExitCode,
  logLine,
  type ProgramError,
  requireOutput,
  setting,
  usage,
  wholeNumberFlag
} from "@payments/program"
import { Effect, type Layer, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import type { HttpClient } from "effect/http"
import { type Column, numberCell, printRows, type RowFormat, rowFormatFlag } from "../output/Rows.ts"

const defaultFile = "payments-facts.json"
const requests = { default: 200, most: 100_000 } as const

const fileFlag = (name: "from" | "to") =>
  Flag.String(name).pipe(
    Flag.withMetavar("FILE"),
    Flag.withDefault(defaultFile),
    Flag.withDescription(`the file with the observations; default ${defaultFile}`)
  )

/** Makes the command. `config` takes its settings from environment variables. */
export const probeCommand = <R>(
  config: Layer.Layer<PaymentsConfig, ProgramError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "probe",
    {
      to: fileFlag("to"),
      budget: wholeNumberFlag("budget", 1, requests.most).pipe(
        Flag.withDefault(requests.default),
        Flag.withDescription(`the most requests; default ${requests.default}`)
      ),
      pause: Flag.String("pause").pipe(
        Flag.withMetavar("DURATION"),
        Flag.withDefault("500ms"),
        Flag.withDescription("the pause between two requests; default 500ms")
      ),
      format: rowFormatFlag
    },
    Effect.fnUntraced(function*({ budget, format, pause, to }) {
      const { probe } = yield* Effect.promise(() => import("@payments/copy/facts"))
      const { pauseDuration, settings } = yield* checkAll({
        pauseDuration: setting({ name: "pause", text: pause }, undefined, duration),
        settings: Effect.provide(PaymentsConfig, config)
      })
      yield* requireOutput
      yield* logLine(`Sending at most ${budget} requests, one at a time. They only read.`)
      let known: ReadonlyArray<KnownFact> = []
      const onObserved = (facts: ReadonlyArray<KnownFact>) => Effect.sync(() => void (known = facts))
      const { facts, requests: sent } = yield* probe(settings, { file: to, budget, pause: pauseDuration, onObserved })
        .pipe(
          Effect.onInterrupt(() => Effect.ignore(printFacts(known, format))),
          Effect.provide(http),
          Effect.catchTag("FactsFileError", fileProblem("--to"))
        )
      yield* printFacts(facts, format)
      const certain = facts.filter(({ degree }) => degree === "certain").length
      yield* logLine(
        `Sent ${sent} requests. ${certain} of ${facts.length} facts are certain.${
          sent < budget ? "" : " Run again to continue."
        }`
      )
    })
  ).pipe(
    Command.withDescription(
      "Learn what the document does not say: order, limits, the meaning of count, filters. An answer that was observed " +
        "once is likely, and certain only if it was observed again"
    ),
    Command.withShortDescription("Learn from the service what its document does not say"),
    Command.withExamples([
      { command: "payments probe", description: `at most ${requests.default} requests; run it again to continue` },
      { command: "payments probe --budget 50 --pause 2s --to facts.json", description: "slowly, into another file" }
    ])
  )

export const factsCommand = Command.make(
  "facts",
  { from: fileFlag("from"), format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from }) {
    const { knownFacts, readFacts } = yield* Effect.promise(() => import("@payments/copy/facts"))
    const facts = yield* Effect.catchTag(readFacts(from, undefined), "FactsFileError", fileProblem("--from"))
    yield* printFacts(knownFacts(facts), format)
  })
).pipe(
  Command.withDescription("Show what payments probe has learned about the service, without a request"),
  Command.withExamples([
    { command: "payments facts", description: "all facts, and how sure they are" },
    { command: "payments facts --from facts.json --format json", description: "for programs" }
  ])
)

const fileProblem = (flag: string) => ({ isSystem, problem }: FactsFileError) =>
  isSystem
    ? new CommandExit({ exitCode: ExitCode.destination, problem: `${flag}: ${problem}`, reason: "Output" })
    : usage(`${flag}: ${problem}`)

const columns: ReadonlyArray<Column<KnownFact>> = [
  { name: "list", of: ({ list }) => Lists.byName[list].label },
  { name: "fact", of: ({ name }) => name },
  { name: "answer", of: ({ answer }) => answer ?? null },
  { name: "degree", of: ({ degree }) => degree },
  { name: "agreeing", of: ({ agreeing }) => numberCell(agreeing) },
  { name: "observations", of: ({ observations }) => numberCell(observations) },
  { name: "seen", of: ({ seen }) => seen },
  { name: "question", hidden: true, of: ({ question }) => question },
  { name: "section", hidden: true, of: ({ section }) => section },
  { name: "first_at", hidden: true, of: ({ firstAt }) => firstAt ?? null },
  { name: "last_at", hidden: true, of: ({ lastAt }) => lastAt ?? null }
]

const printFacts = (facts: ReadonlyArray<KnownFact>, format: RowFormat | undefined) =>
  printRows(columns, Stream.make(facts), format, { empty: "No facts." })
