/** `payments export`. */
import { Lists } from "@payments/core"
import { Destination, lowestExitCode, scanAll, Sink } from "@payments/export"
import { Data, Duration, Effect } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { print } from "../Output.ts"
import { makeProgress, sayFailures, summarize } from "../Progress.ts"

/** The work is done and said, and this is how it ended. */
export class Ended extends Data.TaggedError("Ended")<{ readonly exitCode: number }> {}

const named = Lists.all.map(({ label, name }) => [label, name] as const)

/** `payments export`. */
export const exportCommand = Command.make("export", {
  lists: Argument.ChoiceWithValue("list", named).pipe(
    Argument.variadic(),
    Argument.withDescription("the lists to export; all three if none is named")
  ),
  to: Flag.String("to").pipe(
    Flag.withMetavar("DESTINATION"),
    Flag.withDescription("sqlite:FILE, or file:FOLDER?format=ndjson")
  ),
  patience: Flag.String("patience").pipe(
    Flag.withDefault("15 minutes"),
    Flag.withDescription("how long a page that keeps failing is asked for again, such as \"30 seconds\""),
    Flag.mapTryCatch((text) => Duration.fromInputUnsafe(text as Duration.Input), () => "must be a duration such as \"30 seconds\"") // fromInputUnsafe judges the text
  )
}, ({ lists, patience, to }) =>
  Effect.gen(function*() {
    const destination = yield* Destination.parse(to)
    const names = lists.length === 0 ? Lists.all.map(({ name }) => name) : [...new Set(lists)]
    yield* exportLists(names, patience).pipe(Effect.provide(Destination.layer(destination)))
  })).pipe(
    Command.withDescription("Copy lists into a database or files, going on where an earlier run was cut"),
    Command.withExamples([
      { command: "payments export --to sqlite:./payments.db", description: "all three lists" },
      { command: "payments export invoices --to 'file:./invoices?format=ndjson'", description: "one list, as a file" }
    ])
  )

/** Exports the lists side by side, shows how it goes, and ends with a summary. */
export const exportLists = Effect.fnUntraced(function*(names: ReadonlyArray<Lists.ListName>, patience?: Duration.Duration) {
  const sink = yield* Sink
  const progress = yield* makeProgress
  const outcomes = yield* scanAll(names, { onEvent: progress.onEvent, patience }).pipe(Effect.ensuring(progress.clear))
  yield* sayFailures(outcomes)
  yield* print([...summarize(outcomes), `Rows: ${sink.location}`, ""].join("\n"))
  const exitCode = lowestExitCode(outcomes.map((outcome) => outcome.exitCode))
  if (exitCode !== 0) return yield* new Ended({ exitCode })
})
