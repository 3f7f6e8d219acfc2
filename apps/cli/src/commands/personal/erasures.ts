/** `payments erasures`: prints the protocol of erasures. */
import { Destination, type Erasure } from "@payments/copy"
import { fromDestination, fromFlag } from "@payments/program"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { type Column, numberCell, printRows, rowFormatFlag } from "../../output/Rows.ts"

export const erasuresCommand = Command.make(
  "erasures",
  { from: fromFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from }) {
    const destination = yield* fromDestination(from)
    const { erasures } = yield* Destination.maintenance(destination)
    yield* printRows(columns, Stream.fromEffect(erasures), format, {
      empty: "Nothing was erased.",
      output: outputs.erasures
    })
  }, Effect.scoped)
).pipe(
  Command.withDescription("List who erased when, and how many texts; without personal data"),
  Command.withExamples([
    { command: "payments erasures --from sqlite:./payments.db", description: "all erasures" },
    { command: "payments erasures --from sqlite:./payments.db --format csv", description: "the same for a spreadsheet" }
  ])
)

const columns: ReadonlyArray<Column<Erasure>> = [
  { name: "erasure", of: ({ erasure }) => numberCell(erasure) },
  { name: "kind", wholeUpTo: 15, of: ({ kind }) => kind },
  { name: "by", minWidth: 10, of: ({ by }) => by },
  { name: "started_at", minWidth: 24, of: ({ startedAt }) => startedAt },
  { name: "rows", of: ({ records }) => numberCell(records) },
  { name: "changes", of: ({ changes }) => numberCell(changes) },
  { name: "quarantined", of: ({ quarantined }) => numberCell(quarantined) },
  // Null if the erasure was interrupted: the same command completes it.
  { name: "completed_at", minWidth: 24, minTerminalWidth: 120, of: ({ completedAt }) => completedAt ?? null }
]
