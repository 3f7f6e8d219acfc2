/** `payments migrate`: creates or migrates the tables of a destination, without a request to the service. */
import { Destination, printable } from "@payments/copy"
import { checkAll, fromDestination, print, requireOutput, switchFlag, toFlag } from "@payments/program"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"

export const migrateCommand = Command.make(
  "migrate",
  {
    to: toFlag(),
    dryRun: switchFlag("dry-run", "change nothing, and print what would be done"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ dryRun, format, to }) {
    const { destination } = yield* checkAll({ destination: fromDestination(to, "to") })
    yield* requireOutput
    const pending = yield* Destination.pendingMigration(destination)
    const { additions, from, to: version } = pending
    const isCurrent = Destination.isCurrent(pending)
    if (!dryRun && !isCurrent) yield* Destination.migrate(destination)
    if (format === "json") return yield* printJson(outputs.migrate, { dryRun, from, to: version, additions })
    const would = dryRun ? " would be" : ""
    const changed = () => {
      if (from === 0) return `tables of version ${version}${would} created`
      return from < version
        ? `tables${would} migrated from version ${from} to version ${version}`
        : `${additions.join(", ")}${would} added`
    }
    const done = isCurrent ? `the tables have version ${version}, which needs no change` : changed()
    const { location, rendered, shown } = Destination.operations(destination)
    // The format of rendered files has nothing to do with the tables.
    const name = rendered === undefined ? shown : location
    yield* print(`${printable(name)}: ${done}\n`)
  })
).pipe(
  Command.withDescription("Create the tables of a destination, or change those of an earlier version"),
  Command.withExamples([
    { command: "payments migrate --to sqlite:./payments.db", description: "before the first export of a new version" },
    { command: "payments migrate --to sqlite:./payments.db --dry-run", description: "only print what would be done" }
  ])
)
