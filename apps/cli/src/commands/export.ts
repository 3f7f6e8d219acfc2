/** `payments export`. */
import { Lists, type PaymentsApi, type PaymentsConfigError } from "@payments/core"
import { Destination, lowestExitCode, scanAll, Sink } from "@payments/export"
import { Ended, patienceFlag, patienceOf, print, say } from "@payments/export/program"
import { type Duration, Effect, Layer } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { makeProgress, sayFailures, summarize } from "../Progress.ts"

const named = Lists.all.map(({ label, name }) => [label, name] as const)

/** `payments export`, over the given service. */
export const exportCommand = <R>(api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>) =>
  Command.make(
    "export",
    {
      lists: Argument.ChoiceWithValue("list", named).pipe(
        Argument.variadic(),
        Argument.withMetavar("LIST"),
        Argument.withDescription(`${named.map(([label]) => label).join(", ")}; all three if none is named`)
      ),
      to: Flag.String("to").pipe(
        Flag.withMetavar("DESTINATION"),
        Flag.withDescription("sqlite:FILE, or file:FOLDER?format=ndjson")
      ),
      patience: patienceFlag
    },
    Effect.fnUntraced(function*(input) {
      const destination = Destination.layer(yield* Destination.parse(input.to))
      const patience = yield* patienceOf(input.patience)
      const names = input.lists.length === 0 ? Lists.all.map(({ name }) => name) : [...new Set(input.lists)]
      // The settings are checked first: a wrong one leaves no empty destination behind.
      yield* Effect.provide(exportLists(names, patience), Layer.provideMerge(destination, api))
    })
  ).pipe(
    Command.withDescription("Copy lists into a database or files, going on where an earlier run was cut"),
    Command.withExamples([
      { command: "payments export --to sqlite:./payments.db", description: "all three lists" },
      { command: "payments export invoices --to 'file:./invoices?format=ndjson'", description: "one list, as a file" }
    ])
  )

/** Exports the lists side by side, shows how it goes, and ends with a summary. */
export const exportLists = Effect.fnUntraced(
  function*(names: ReadonlyArray<Lists.ListName>, patience?: Duration.Duration) {
    const sink = yield* Sink
    const progress = yield* makeProgress
    const outcomes = yield* scanAll(names, { onEvent: progress.onEvent, patience }).pipe(
      Effect.ensuring(progress.clear),
      Effect.onInterrupt(() => say("payments: interrupted. What was committed is kept: run again to go on."))
    )
    yield* sayFailures(outcomes)
    const summary = summarize(outcomes)
    if (summary.length > 0) yield* print([...summary, `Rows: ${sink.location}`, ""].join("\n"))
    const exitCode = lowestExitCode(outcomes.map((outcome) => outcome.exitCode))
    if (exitCode !== 0) return yield* new Ended({ exitCode, problem: "" })
  }
)
