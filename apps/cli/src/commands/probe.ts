/** `payments probe` learns facts about the service. `payments facts` shows what it has stored. */
import { Destination, printable } from "@payments/copy"
import type { FactsFileError, KnownFact } from "@payments/copy/facts"
import { Lists, PaymentsConfig } from "@payments/core"
import {
  checkAll,
  CommandExit,
  duration,
  ExitCode,
  fromDestination,
  logLine,
  optionalFlag,
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
import { pauseFlag } from "./conformance.ts"

const defaultFile = "payments-facts.json"
const requests = { default: 200, most: 100_000 } as const

const toFlag = Flag.String("to").pipe(
  Flag.withMetavar("FILE"),
  Flag.withDefault(defaultFile),
  Flag.withDescription(`the file with the observations; default ${defaultFile}`)
)

const htmlFlag = optionalFlag(
  Flag.String("html").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription("write a page with all facts, to send to the operators of the service")
  )
)

const factsFromFlag = Flag.String("from").pipe(
  Flag.withMetavar("FILE|DESTINATION"),
  Flag.withDefault(defaultFile),
  Flag.withDescription(
    `the file with the observations, or the copy to read: sqlite:FILE, postgres://HOST/DATABASE, file:FOLDER; default ${defaultFile}`
  )
)

/** Makes the command. `config` takes its settings from environment variables. */
export const probeCommand = <R>(
  config: Layer.Layer<PaymentsConfig, ProgramError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "probe",
    {
      to: toFlag,
      budget: wholeNumberFlag("budget", 1, requests.most).pipe(
        Flag.withDefault(requests.default),
        Flag.withDescription(`the most requests; default ${requests.default}`)
      ),
      pause: pauseFlag,
      html: htmlFlag,
      format: rowFormatFlag
    },
    Effect.fnUntraced(function*({ budget, format, html, pause, to }) {
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
      yield* writePage(facts, html)
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
  { from: factsFromFlag, html: htmlFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from, html }) {
    const facts = yield* isDestination.test(from) ? factsOfCopy(from) : factsInFile(from)
    yield* writePage(facts, html)
    yield* printFacts(facts, format)
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Show what payments probe has learned about the service, or what a copy has collected; without a request"
  ),
  Command.withExamples([
    { command: "payments facts", description: "all facts, and how sure they are" },
    { command: "payments facts --from facts.json --format json", description: "for programs" },
    {
      command: "payments facts --from sqlite:./payments.db",
      description: "states, their steps and empty fields of a copy"
    }
  ])
)

const isDestination = /^(?:sqlite|postgres|postgresql|file):/

const factsInFile = Effect.fnUntraced(function*(file: string) {
  const { knownFacts, readFacts } = yield* Effect.promise(() => import("@payments/copy/facts"))
  return knownFacts(yield* Effect.catchTag(readFacts(file, undefined), "FactsFileError", fileProblem("--from")))
})

const factsOfCopy = Effect.fnUntraced(function*(from: string) {
  const { copyFacts } = yield* Effect.promise(() => import("@payments/copy/facts"))
  const reader = yield* Destination.reader(yield* fromDestination(from))
  return (yield* Effect.forEach(Lists.all, (list) => copyFacts(reader, list))).flat()
})

export const fileProblem = (flag: string) => ({ isSystem, problem }: FactsFileError) =>
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

/** Questions instead of names: who reads the page may not know this program. */
const pageColumns: ReadonlyArray<Column<KnownFact>> = [
  { name: "list", of: ({ list }) => Lists.byName[list].label },
  { name: "question", of: ({ question }) => question },
  { name: "answer", of: ({ answer }) => answer ?? null },
  { name: "degree", of: ({ degree }) => degree },
  { name: "observed", of: ({ agreeing, observations }) => `${agreeing} of ${observations}` },
  { name: "seen", of: ({ seen }) => seen },
  { name: "section", of: ({ section }) => section },
  { name: "last", of: ({ lastAt }) => lastAt?.slice(0, 10) ?? null }
]

/** The version of the JSON document. It changes if a member is removed or means something else. */
const schemaVersion = 1

const printFacts = (facts: ReadonlyArray<KnownFact>, format: RowFormat | undefined) =>
  printRows(columns, Stream.make(facts), format, { empty: "No facts.", members: `"schemaVersion":${schemaVersion}` })

/** Writes the page. It has no key, cursor, filter value or part of a record, because no fact has one. */
const writePage = Effect.fnUntraced(function*(facts: ReadonlyArray<KnownFact>, file: string | undefined) {
  if (file === undefined) return
  const { createdAt, writeFile } = yield* Effect.promise(() => import("../charts/ChartOutput.ts"))
  const { pageText } = yield* Effect.promise(() => import("../charts/HtmlPage.ts"))
  const count = (degree: KnownFact["degree"]) => facts.filter((fact) => fact.degree === degree).length
  const text = pageText({
    title: "What the service does",
    description: "Facts that its document leaves open or states, each observed from outside, by reading only.",
    columns: pageColumns.map(({ name }) => name),
    rows: facts.map((fact) => pageColumns.map(({ of }) => of(fact))),
    isCut: false,
    totals: undefined,
    chart: "",
    notes: [
      `${count("certain")} facts are certain, ${count("likely")} likely, ${count("undecided")} undecided.`,
      "A certain fact was observed at least twice in a row. An undecided one says in the column seen why."
    ],
    sql: undefined,
    createdAt: yield* createdAt
  })
  yield* writeFile("--html", file, text)
  yield* logLine(`The page is written to ${printable(file)}. Open it in a browser.`)
})
