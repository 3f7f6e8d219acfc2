/** `payments doctor`: checks settings, service and destination, and says what to do. It writes nothing into a destination. */
import { printable } from "@payments/copy"
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import {
  checkAll,
  ChosenSource,
  CommandExit,
  Doctor,
  duration,
  ExitCode,
  logNote,
  lowestExitCode,
  print,
  requireOutput,
  setting,
  textFlag,
  toFlag
} from "@payments/program"
import type { LoadedSource } from "@payments/program/sources"
import { type Cause, Effect, Exit, Fiber, Layer, Queue, Stream } from "effect"
import { Command } from "effect/cli"
import type { HttpClient } from "effect/http"
import { outputs } from "../contract/Outputs.ts"
import { type Column, lookOf, numberCell, printRows, type RowFormat, rowFormatFlag } from "../output/Rows.ts"
import { colored } from "../output/StateColor.ts"
import type * as TextWidth from "../output/TextWidth.ts"

/** How many sources are checked at the same time. */
const concurrency = 8

interface SourceFinding extends Doctor.Finding {
  readonly source: string
}

/** Makes the command. `http` reaches the service. */
export const doctorCommand = (http: Layer.Layer<HttpClient.HttpClient>) =>
  Command.make(
    "doctor",
    {
      to: toFlag(),
      timeout: textFlag("timeout", "DURATION", "how long each check may take; default 10s"),
      format: rowFormatFlag
    },
    Effect.fnUntraced(function*(given) {
      const { limit = Doctor.checkTime, loaded } = yield* checkAll({
        loaded: loadedSources(given.to),
        limit: setting({ name: "timeout", text: given.timeout }, undefined, duration)
      })
      const findings: Array<SourceFinding> = []
      const known = (finding: SourceFinding) => Effect.sync(() => void findings.push(finding))
      const { sources } = loaded
      const found = loaded.findings.length > 0
        ? Stream.fromIterable(loaded.findings.map((finding) => ({ source: "default", ...finding }))).pipe(
          Stream.tap(known)
        )
        : diagnosed(sources, http, limit, known)
      yield* printFindings(found, findings, given.format, sources.length > 1)
      const failures = findings.filter(({ state }) => state === "failed")
      if (failures.length === 0) return
      return yield* new CommandExit({
        exitCode: lowestExitCode(failures.map(({ exitCode }) => exitCode)),
        problem: `${failures.length} of ${findings.length} checks failed.`
      })
    })
  ).pipe(
    Command.withDescription(
      "Check settings, connection, key, lists, filters, clock and destination, and say what to do; only reads"
    ),
    Command.withExamples([
      { command: "payments doctor", description: "all sources of the sources file, or the environment" },
      {
        command: "payments doctor --source north --format json",
        description: "one source, for programs; the exit code is the lowest of the failed checks"
      }
    ])
  )

/** Loads the sources. If there are mistakes in the settings, or no source, there are findings instead. */
const loadedSources = (to: string | undefined) =>
  Effect.gen(function*() {
    const { listed, nothing } = yield* ChosenSource
    const sources = yield* listed({ to })
    return { sources, findings: sources.length > 0 ? [] : [Doctor.noSource(yield* nothing)] }
  }).pipe(
    Effect.catchTag(
      ["PaymentsConfigError", "SourcesError"],
      (error) => Effect.succeed({ sources: [], findings: Doctor.ofSettings(error) })
    )
  )

/**
 * Prints each finding when `found` emits it; as JSON all of them at the end. After an interrupt, prints all `findings` so far.
 */
const printFindings = Effect.fnUntraced(function*<R>(
  found: Stream.Stream<SourceFinding, never, R>,
  findings: ReadonlyArray<SourceFinding>,
  wanted: RowFormat | undefined,
  showsSource: boolean
) {
  yield* requireOutput
  const queue = yield* Queue.unbounded<SourceFinding, Cause.Done>()
  const printer = yield* Effect.forkChild(printAll(Stream.fromQueue(queue), wanted, showsSource))
  const emitted = new Set<SourceFinding>()
  const emit = (finding: SourceFinding) => {
    emitted.add(finding)
    return Queue.offer(queue, finding)
  }
  yield* Stream.runForEach(found, emit).pipe(
    Effect.onInterrupt(() =>
      Effect.andThen(
        Effect.forEach(findings.filter((finding) => !emitted.has(finding)), emit),
        logNote({ message: "payments: interrupted. Not all checks were made.", next: undefined })
      )
    ),
    Effect.onExit(() => Effect.andThen(Queue.end(queue), Fiber.join(printer)))
  )
})

/** Prints the findings. If the reader closes the pipe early, the checks continue: their result is the exit code. */
const printAll = Effect.fnUntraced(function*(
  findings: Stream.Stream<SourceFinding>,
  wanted: RowFormat | undefined,
  showsSource: boolean
) {
  const { format, style: { colors }, width } = yield* lookOf(wanted)
  if (format === "table") {
    const { wrapWords } = yield* Effect.promise(() => import("../output/TextWidth.ts"))
    return yield* Stream.runForEach(
      findings,
      (finding) => print(textOf(finding, { showsSource, colors, wrapWords, width }))
    )
  }
  const rows = format === "json" ? Stream.fromIterable(yield* Stream.runCollect(findings)) : findings
  yield* Effect.catchIf(
    printRows(columns, Stream.map(rows, (finding) => [finding]), format, { empty: "", output: outputs.doctor }),
    ({ exitCode }) => exitCode === ExitCode.done,
    () => Effect.void
  )
})

/** Checks the sources, and reports each finding to `known`. Emits the findings of the first source first, as soon as they are known. */
const diagnosed = (
  sources: ReadonlyArray<LoadedSource>,
  http: Layer.Layer<HttpClient.HttpClient>,
  limit: Parameters<typeof Doctor.diagnose>[2],
  known: (finding: SourceFinding) => Effect.Effect<void>
) => {
  const clientOf = (config: PaymentsConfig["Service"]) =>
    PaymentsApi.layer.pipe(Layer.provide(http), Layer.provide(Layer.succeed(PaymentsConfig, config)))
  return Stream.unwrap(Effect.gen(function*() {
    const queues = yield* Effect.forEach(
      sources,
      (source) => Effect.map(Queue.unbounded<SourceFinding, Cause.Done>(), (queue) => ({ source, queue }))
    )
    const report = (queue: (typeof queues)[number]["queue"], finding: SourceFinding) =>
      Effect.andThen(known(finding), Queue.offer(queue, finding))
    yield* Effect.forkScoped(Effect.forEach(
      queues,
      ({ queue, source }) =>
        Doctor.diagnose(source, clientOf, limit, (finding) => report(queue, { source: source.name, ...finding })).pipe(
          // A defect ends the stream.
          Effect.onExit((exit) => Exit.isSuccess(exit) ? Queue.end(queue) : Queue.failCause(queue, exit.cause)),
          Effect.exit
        ),
      { concurrency, discard: true }
    ))
    return Stream.flatMap(Stream.fromIterable(queues), ({ queue }) => Stream.fromQueue(queue))
  }))
}

/** The output for programs. */
const columns: ReadonlyArray<Column<SourceFinding>> = [
  { name: "source", of: ({ source }) => source },
  { name: "check", of: ({ check }) => check },
  { name: "state", of: ({ state }) => state },
  { name: "found", of: ({ found }) => found },
  { name: "advice", of: ({ advice = null }) => advice },
  { name: "reason", of: ({ reason = null }) => reason },
  { name: "exitCode", of: ({ exitCode }) => numberCell(exitCode) }
]

const marks = { ok: "ok", warning: "warn", failed: "FAIL", skipped: "-" } as const

/** The width of the marks, with a gap. */
const markWidth = 6

/** The least width of wrapped text. A narrower terminal breaks the lines itself. */
const leastWrapWidth = 10

/** Formats a finding for people: the mark, the check, and what was found. */
const textOf = (
  { advice, check, found, source, state }: SourceFinding,
  { colors, showsSource, width, wrapWords }: {
    readonly showsSource: boolean
    readonly colors: boolean
    readonly wrapWords: typeof TextWidth.wrapWords
    readonly width: number
  }
): string => {
  const room = Math.max(leastWrapWidth, width - markWidth)
  const subject = showsSource ? `${source}: ${check}` : check
  const sentences = [`${subject}: ${found}`, ...(advice === undefined ? [] : [advice])]
  const [first = "", ...more] = wrapWords(printable(sentences.join(". ")), room)
  const mark = marks[state]
  const start = `${colors ? colored(mark, state) : mark}${" ".repeat(markWidth - mark.length)}`
  return [`${start}${first}`, ...more.map((part) => `${" ".repeat(markWidth)}${part}`)].map((part) => `${part}\n`).join(
    ""
  )
}
