/** `payments conformance`. */
import { printable } from "@payments/copy"
import type { Finding } from "@payments/copy/facts"
import { Lists, PaymentsConfig } from "@payments/core"
import {
  checkAll,
  chosenRateLimitStore,
  CommandExit,
  contract,
  duration,
  ExitCode,
  logLine,
  print,
  type ProgramError,
  requireOutput,
  setting,
  terminalWidth,
  wholeNumberFlag
} from "@payments/program"
import { Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"
import type { HttpClient } from "effect/http"
import { outputs } from "../contract/Outputs.ts"
import type * as TextWidth from "../output/TextWidth.ts"

export const pauseFlag = Flag.String("pause").pipe(
  Flag.withMetavar("DURATION"),
  Flag.withDefault("500ms"),
  Flag.withDescription("the pause between two requests; default 500ms")
)

/** Makes the command. `config` takes its settings from environment variables. */
export const conformanceCommand = <R>(
  config: Layer.Layer<PaymentsConfig, ProgramError, R>,
  http: Layer.Layer<HttpClient.HttpClient>
) =>
  Command.make(
    "conformance",
    {
      pages: wholeNumberFlag("pages", 1, 10_000).pipe(
        Flag.withDefault(10),
        Flag.withDescription("the largest number of pages of each list to read until its end; default 10")
      ),
      pause: pauseFlag,
      format: Flag.Literals("format", ["table", "json"]).pipe(
        Flag.withDefault("table"),
        Flag.withDescription("default: table")
      )
    },
    Effect.fnUntraced(function*({ format, pages, pause }) {
      const { conformance } = yield* Effect.promise(() => import("@payments/copy/facts"))
      const { pauseDuration, rateLimits, settings } = yield* checkAll({
        pauseDuration: setting({ name: "pause", text: pause }, undefined, duration),
        settings: Effect.provide(PaymentsConfig, config),
        rateLimits: Layer.build(chosenRateLimitStore)
      })
      yield* requireOutput
      yield* logLine("Reading, one request at a time. Nothing is written.")
      const findings = yield* conformance(settings, { pages, pause: pauseDuration }).pipe(
        Effect.provide(http),
        // All programs with the key share its rate.
        Effect.provide(rateLimits)
      )
      const width = yield* terminalWidth
      const textWidth = yield* Effect.promise(() => import("../output/TextWidth.ts"))
      yield* print(format === "json" ? jsonOf(findings) : tableOf(findings, textWidth, width))
      const broken = findings.filter(({ verdict }) => verdict === "does not hold").length
      if (broken > 0) {
        return yield* new CommandExit({
          exitCode: ExitCode.malformed,
          problem: `${broken} of ${findings.length} rules do not hold.`
        })
      }
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Check the service against its document, rule by rule; only reads"),
    Command.withExamples([
      { command: "payments conformance", description: "the first ten pages of each list" },
      {
        command: "payments conformance --pages 2 --pause 50ms --format json",
        description: "a quick check, for programs"
      }
    ])
  )

const jsonOf = (findings: ReadonlyArray<Finding>): string =>
  `${JSON.stringify(findings.map((finding) => contract.withVersion(outputs.conformance, finding)), null, 2)}\n`

/** The least width of wrapped text. A narrower terminal breaks the lines itself. */
const leastWrapWidth = 10

const marks = { "holds": "holds", "does not hold": "FAILS", "could not be observed": "-" } as const

/** Formats a rule and its observation: on one line if the terminal is wide enough, otherwise on separate lines. */
const tableOf = (
  findings: ReadonlyArray<Finding>,
  { wrapWords }: typeof TextWidth,
  terminal: number
): string => {
  const width = Math.max(...findings.map(({ rule }) => rule.length))
  const start = ({ section, verdict }: Finding) => `  ${marks[verdict].padEnd(5)}  ${section.padEnd(6)}  `
  const indent = " ".repeat(Math.max(...findings.map((finding) => start(finding).length)))
  const room = Math.max(terminal - indent.length, leastWrapWidth)
  const linesOf = (finding: Finding): string => {
    const seen = printable(finding.seen)
    const line = `${start(finding)}${finding.rule.padEnd(width)}  ${seen}`
    if (line.length <= terminal) return line
    const [first = "", ...rest] = [...wrapWords(finding.rule, room), ...wrapWords(seen, room)]
    return [`${start(finding)}${first}`, ...rest.map((text) => `${indent}${text}`)].join("\n")
  }
  const parts = Lists.all.map(({ label, name }) =>
    [label, ...findings.filter(({ list }) => list === name).map(linesOf)].join("\n")
  )
  const count = (verdict: Finding["verdict"]) => findings.filter((finding) => finding.verdict === verdict).length
  return `${parts.join("\n\n")}\n\n${count("holds")} hold, ${count("does not hold")} fail, ${
    count("could not be observed")
  } could not be observed (-).\n`
}
