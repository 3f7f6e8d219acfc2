/** `payments doctor`: checks settings, service and destination, and says what to do. It writes nothing into a destination. */
import { PaymentsApi, PaymentsConfig, type PaymentsConfigError } from "@payments/core"
import { type Cell, Doctor, ExitCode, lowestExitCode, printable } from "@payments/export"
import {
  canColor,
  checkAll,
  ChosenSource,
  CommandExit,
  duration,
  print,
  type ProgramError,
  requireOutput,
  setting,
  textFlag,
  toFlag
} from "@payments/export/program"
import type { LoadedSource, SourcesError } from "@payments/export/sources"
import { Effect, Layer, Queue, Stream } from "effect"
import { Command } from "effect/cli"
import type { HttpClient } from "effect/http"
import { type Column, formatOf, printRows, rowFormatFlag } from "../RowsOutput.ts"
import { colored } from "../StateColor.ts"
import type * as TextWidth from "../TextWidth.ts"

/** How many sources are checked at the same time. */
const concurrency = 8

/** A finding about a source. */
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
      const found = Stream.tap(
        "_tag" in loaded
          ? Stream.fromIterable(Doctor.ofSettings(loaded).map((finding) => ({ source: "default", ...finding })))
          : diagnosed(loaded, http, limit),
        (finding) => Effect.sync(() => void findings.push(finding))
      )
      const { format, width } = yield* formatOf(given.format)
      if (format === "table") {
        yield* requireOutput
        const colors = yield* canColor
        const showsSource = !("_tag" in loaded) && loaded.length > 1
        const { wrapWords } = yield* Effect.promise(() => import("../TextWidth.ts"))
        yield* Stream.runForEach(
          found,
          (finding) => print(textOf(finding, showsSource, colors, wrapWords, width))
        )
      } else {
        yield* Stream.runDrain(found)
        const rows = findings.map((finding) => columns.map(({ of }) => of(finding)))
        // A reader that closes the pipe early must not hide a failed check.
        yield* Effect.catchIf(
          printRows(columns, Stream.make(rows), format, ""),
          ({ exitCode }) => exitCode === ExitCode.done,
          () => Effect.void
        )
      }
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

/** Loads the sources. Mistakes in the settings are the first findings. */
const loadedSources = (
  to: string | undefined
): Effect.Effect<ReadonlyArray<LoadedSource> | PaymentsConfigError | SourcesError, ProgramError, ChosenSource> =>
  Effect.flatMap(ChosenSource, ({ listed }) => listed({ to })).pipe(
    Effect.catchTag("PaymentsConfigError", (error) => Effect.succeed(error)),
    Effect.catchTag("SourcesError", (error) => Effect.succeed(error))
  )

/** Checks the sources. The findings of a source are together; of a single source, each arrives as soon as it is known. */
const diagnosed = (
  sources: ReadonlyArray<LoadedSource>,
  http: Layer.Layer<HttpClient.HttpClient>,
  limit: Parameters<typeof Doctor.diagnose>[2]
) => {
  const clientOf = (config: PaymentsConfig["Service"]) =>
    PaymentsApi.layer.pipe(Layer.provide(http), Layer.provide(Layer.succeed(PaymentsConfig, config)))
  const findingsOf = (source: LoadedSource) =>
    Stream.callback<SourceFinding>((queue) =>
      Effect.andThen(
        Doctor.diagnose(
          source,
          clientOf,
          limit,
          (finding) => Queue.offer(queue, { source: source.name, ...finding })
        ),
        Queue.end(queue)
      )
    )
  return sources.length === 1
    ? Stream.flatMap(Stream.fromIterable(sources), findingsOf)
    : Stream.fromIterable(sources).pipe(
      Stream.mapEffect((source) => Stream.runCollect(findingsOf(source)), { concurrency }),
      Stream.flatMap(Stream.fromIterable)
    )
}

const text = (value: string | undefined): Cell => value ?? null

/** The output for programs. */
const columns: ReadonlyArray<Column & { readonly of: (finding: SourceFinding) => Cell }> = [
  { name: "source", of: ({ source }) => source },
  { name: "check", of: ({ check }) => check },
  { name: "state", of: ({ state }) => state },
  { name: "found", of: ({ found }) => found },
  { name: "advice", of: ({ advice }) => text(advice) },
  { name: "reason", of: ({ reason }) => text(reason) },
  { name: "exitCode", of: ({ exitCode }) => ({ json: String(exitCode) }) }
]

const marks = { ok: "ok", warning: "warn", failed: "FAIL", skipped: "-" } as const

/** The width of the marks, with a gap. */
const markWidth = 6

/** The least width of wrapped text. A narrower terminal breaks the lines itself. */
const leastWrapWidth = 10

/** Formats a finding for people: the mark, the check, and what was found. */
const textOf = (
  { advice, check, found, source, state }: SourceFinding,
  showsSource: boolean,
  colors: boolean,
  wrapWords: typeof TextWidth.wrapWords,
  width: number
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
