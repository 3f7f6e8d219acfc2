/** `payments prune`: removes old changes, scans, missing rows and rendered files from a destination. */
import { Destination, type HeldBack, pruneAll, type Pruned } from "@payments/copy"
import {
  checkAll,
  duration,
  fromDestination,
  fromFlag,
  grouped,
  print,
  requireOutput,
  setting,
  sourceOfDestination,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"

const ageFlag = (name: string, removed: string) =>
  textFlag(name, "DURATION", `remove ${removed}; default: that of the source`)

export const pruneCommand = Command.make(
  "prune",
  {
    from: fromFlag,
    keepChanges: ageFlag("keep-changes", "changes that are older, such as 90d"),
    keepScans: ageFlag("keep-scans", "scans that ended longer ago, such as 400d"),
    keepMissing: ageFlag("keep-missing", "rows that were marked missing longer ago, such as 400d"),
    keepSnapshots: textFlag(
      "keep-snapshots",
      "NUMBER",
      "in a folder of files, keep so many snapshots of a list before the last one; default: that of the source"
    ),
    dryRun: switchFlag("dry-run", "remove nothing, and print what would be removed"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ dryRun, format, from, ...given }) {
    const { destination, source, ...flags } = yield* checkAll({
      keepChanges: setting({ name: "keep-changes", text: given.keepChanges }, undefined, duration),
      keepScans: setting({ name: "keep-scans", text: given.keepScans }, undefined, duration),
      keepMissing: setting({ name: "keep-missing", text: given.keepMissing }, undefined, duration),
      keepSnapshots: setting({ name: "keep-snapshots", text: given.keepSnapshots }, undefined, wholeNumber(0)),
      destination: fromDestination(from),
      source: sourceOfDestination(from)
    })
    const keepChanges = flags.keepChanges ?? source?.keepChanges
    const keepScans = flags.keepScans ?? source?.keepScans
    const keepMissing = flags.keepMissing ?? source?.keepMissing
    const { rendered } = Destination.operations(destination)
    if (flags.keepSnapshots !== undefined && rendered === undefined) {
      return yield* usage(
        "--keep-snapshots is for a folder of files (file:FOLDER). Other destinations have no snapshots."
      )
    }
    const keepSnapshots = rendered === undefined ? undefined : flags.keepSnapshots ?? destination.keepSnapshots
    if ([keepChanges, keepScans, keepMissing, keepSnapshots].every((keep) => keep === undefined)) {
      return yield* usage(
        "There is nothing to remove: give --keep-changes, --keep-scans, --keep-missing or --keep-snapshots."
      )
    }
    yield* requireOutput
    const { changes, generation, rows, scans, snapshots } = yield* pruneAll(destination, {
      keepChanges,
      keepScans,
      keepMissing,
      keepSnapshots,
      isDryRun: dryRun
    })
    if (format === "json") {
      return yield* printJson(outputs.prune, {
        dryRun,
        changes: keepChanges === undefined ? null : { generation: generation ?? null, ...changes },
        scans: keepScans === undefined ? null : scans,
        rows: keepMissing === undefined ? null : rows,
        snapshots: keepSnapshots === undefined ? null : snapshots
      })
    }
    const action = dryRun ? "would be removed" : "removed"
    if (keepChanges !== undefined) yield* print(changesText(changes, action))
    if (keepScans !== undefined) yield* print(`scans: ${grouped(scans.removed)} ${action}\n`)
    if (keepMissing !== undefined) yield* print(rowsText(rows, action))
    if (keepSnapshots !== undefined) {
      yield* print(`files of old snapshots: ${grouped(snapshots.removedFiles)} ${action}\n`)
    }
  })
).pipe(
  Command.withDescription(
    "Remove old changes, scans and missing rows, except those that consumers and verify still need"
  ),
  Command.withExamples([
    {
      command: "payments prune --from sqlite:./payments.db --keep-changes 90d --keep-scans 400d",
      description: "keep changes for 90 days and scans for 400"
    },
    {
      command: "payments prune --from sqlite:./payments.db --keep-missing 400d --keep-changes 400d",
      description: "remove rows that have been missing for 400 days, and the changes that have their texts"
    },
    {
      command: "payments prune --from sqlite:./payments.db --keep-changes 90d --dry-run",
      description: "only print what would be removed, and what keeps the rest"
    }
  ])
)

const changesText = ({ heldBack, removed, through }: Pruned["changes"], action: string): string =>
  [
    `changes: ${grouped(removed)} ${action}${removed === 0 ? "" : `, up to ${through}`}\n`,
    ...heldBack.map((reason) => `changes: older ones after ${through} are kept for ${reasonText(reason)}\n`)
  ].join("")

const rowsText = ({ heldBack, removed }: Pruned["rows"], action: string): string =>
  [
    `missing rows: ${grouped(removed)} ${action}\n`,
    ...heldBack.map((reason) => `missing rows: others are kept for ${reasonText(reason)}\n`)
  ].join("")

const reasonText = (reason: HeldBack): string =>
  reason.by === "consumer"
    ? `the consumer ${reason.name}, which has read up to change ${reason.position}`
    : `verify, which needs those of ${reason.list} after scan ${reason.scan}`
