/** `payments rewrite`: carries the source's rule for personal data out over everything that a destination has. */
import { Destination, type FieldChange, previewRewrite, rewrite } from "@payments/copy"
import {
  checkAll,
  chosenBoundTo,
  chosenPersonal,
  fromDestination,
  requireOutput,
  switchFlag,
  toFlag
} from "@payments/program"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { leftAfter, logLeft } from "../../output/LeftAfterRedaction.ts"
import { printJson, resultFormatFlag } from "../../output/ResultOutput.ts"
import { type Column, columnsOfCells, numberCell, printRows } from "../../output/Rows.ts"
import { logWrapped } from "../../output/Wrapped.ts"
import { redactionProgress } from "../../progress/RedactionProgress.ts"

export const rewriteCommand = Command.make(
  "rewrite",
  {
    to: toFlag(),
    dryRun: switchFlag("dry-run", "rewrite nothing, and print the fields whose action changes"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ dryRun, format, to }) {
    const { boundTo, destination, rule } = yield* checkAll({
      boundTo: chosenBoundTo("forDestination"),
      destination: fromDestination(to, "to"),
      rule: chosenPersonal("forDestination")
    })
    yield* requireOutput
    const maintenance = yield* Destination.maintenance(destination)
    yield* Destination.requireSource(maintenance, boundTo)
    if (dryRun) {
      yield* Destination.requireMigrated(destination, maintenance)
      const preview = yield* previewRewrite(maintenance, rule)
      if (format === "json") return yield* printJson(outputs.rewrite, { dryRun, ...preview })
      if (preview.same) return yield* logWrapped(sameText)
      if (preview.fields.length > 0) {
        yield* printRows(columns, Stream.make(preview.fields), "table", { empty: "" })
      }
      const { erasedFields } = preview
      if (erasedFields.length > 0) {
        yield* logWrapped(
          `Erased records still have fields that this version counts as personal, and lose them: ${
            erasedFields.join(", ")
          }.`
        )
      }
      return yield* logWrapped(
        preview.unfinished
          ? "A rewrite has begun and is not complete. Run this command without --dry-run to complete it."
          : preview.fields.length + erasedFields.length > 0
          ? "Run this command without --dry-run to rewrite the destination."
          : "The personal key is another one, so each pseudonym is replaced. Run this command without --dry-run to rewrite the destination."
      )
    }
    const progress = yield* redactionProgress("rewritten")
    const publish = yield* Destination.beginRedaction(destination)
    const rewritten = yield* progress.during(
      rewrite(maintenance, { rule, onProgress: progress.onProgress, publish })
    )
    if (rewritten === undefined) {
      return yield* format === "json" ? printJson(outputs.rewrite, { dryRun, same: true }) : logWrapped(sameText)
    }
    const { changes, from, quarantined, records, to: name, words: [before, after] } = rewritten
    const left = yield* leftAfter(destination, maintenance)
    if (format === "json") {
      return yield* printJson(outputs.rewrite, {
        dryRun,
        same: false,
        from,
        to: name,
        rows: records,
        changes,
        quarantined,
        ...left
      })
    }
    yield* printRows(
      columnsOfCells([{ name: "rows" }, { name: "changes" }, { name: "quarantined" }]),
      Stream.make([[records, changes, quarantined].map(numberCell)]),
      "table",
      { empty: "" }
    )
    // The rule has the same words if only the personal key, or the fields of erased records, are other ones.
    yield* logWrapped(
      before === after
        ? `The rule of the destination is still "${after}".`
        : `The rule of the destination was "${before}", and now it is "${after}".`
    )
    yield* logLeft(left)
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Carry the source's rule for personal data out over everything that a destination has: rows, changes, quarantined records " +
      "and rendered files. Exports into it are refused until the rewrite is complete. Run it again to resume an interrupted one"
  ),
  Command.withShortDescription("Carry the source's rule for personal data out over a destination"),
  Command.withExamples([
    {
      command: "payments rewrite --to sqlite:./payments.db --dry-run",
      description: "the fields that the rule of the settings changes"
    },
    { command: "payments rewrite --to sqlite:./payments.db", description: "change them" }
  ])
)

const sameText = "The destination has this rule already."

const columns: ReadonlyArray<Column<FieldChange>> = [
  { name: "field", of: ({ field }) => field },
  { name: "from", wholeUpTo: 12, of: ({ from }) => from },
  { name: "to", wholeUpTo: 12, of: ({ to }) => to }
]
