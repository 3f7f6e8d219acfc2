/** `payments prune`: removes old changes and scans from a destination. */
import { Destination, type HeldBack, prune, type Pruned } from "@payments/export"
import {
  checkAll,
  duration,
  fromDestination,
  fromFlag,
  print,
  requireOutput,
  setting,
  sourceOfDestination,
  textFlag,
  usage
} from "@payments/export/program"
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { printJson, resultFormatFlag } from "../ResultOutput.ts"

/** `payments prune`. */
export const pruneCommand = Command.make(
  "prune",
  {
    from: fromFlag,
    keepChanges: textFlag(
      "keep-changes",
      "DURATION",
      "remove changes that are older, such as 90d; default: that of the source"
    ),
    keepScans: textFlag(
      "keep-scans",
      "DURATION",
      "remove scans that ended longer ago, such as 400d; default: that of the source"
    ),
    dryRun: Flag.Boolean("dry-run").pipe(
      Flag.withDescription("remove nothing, and print what would be removed"),
      Flag.withDefault(false)
    ),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ dryRun, format, from, ...given }) {
    const { destination, source, ...flags } = yield* checkAll({
      keepChanges: setting({ name: "keep-changes", text: given.keepChanges }, undefined, duration),
      keepScans: setting({ name: "keep-scans", text: given.keepScans }, undefined, duration),
      destination: fromDestination(from),
      source: sourceOfDestination(from)
    })
    const keepChanges = flags.keepChanges ?? source?.keepChanges
    const keepScans = flags.keepScans ?? source?.keepScans
    if (keepChanges === undefined && keepScans === undefined) {
      return yield* usage("There is nothing to remove: give --keep-changes, --keep-scans or both.")
    }
    yield* requireOutput
    yield* Effect.scoped(Effect.gen(function*() {
      const maintenance = yield* Destination.maintenance(destination)
      const pruned = yield* prune(maintenance, { keepChanges, keepScans, isDryRun: dryRun })
      if (format === "json") {
        return yield* printJson({
          dryRun,
          changes: keepChanges === undefined ? null : pruned.changes,
          scans: keepScans === undefined ? null : pruned.scans
        })
      }
      const action = dryRun ? "would be removed" : "removed"
      if (keepChanges !== undefined) yield* print(changesText(pruned.changes, action))
      if (keepScans !== undefined) yield* print(`scans: ${count.format(pruned.scans.removed)} ${action}\n`)
    }))
  })
).pipe(
  Command.withDescription("Remove old changes and scans, except those that consumers and verify still need"),
  Command.withExamples([
    {
      command: "payments prune --from sqlite:./payments.db --keep-changes 90d --keep-scans 400d",
      description: "keep changes for 90 days and scans for 400"
    },
    {
      command: "payments prune --from sqlite:./payments.db --keep-changes 90d --dry-run",
      description: "only print what would be removed, and what keeps the rest"
    }
  ])
)

const count = new Intl.NumberFormat("en-US")

const changesText = ({ heldBack, removed, through }: Pruned["changes"], action: string): string =>
  [
    `changes: ${count.format(removed)} ${action}${removed === 0 ? "" : `, up to ${through}`}\n`,
    ...heldBack.map((reason) => `changes: older ones after ${through} are kept for ${reasonText(reason)}\n`)
  ].join("")

const reasonText = (reason: HeldBack): string =>
  reason.by === "consumer"
    ? `the consumer ${reason.name}, which has read up to ${reason.position}`
    : `verify, which needs those of ${reason.list} after scan ${reason.scan}`
