/** `payments erasures`: prints the protocol of erasures. */
import { type Cell, Destination, type Erasure } from "@payments/copy"
import { fromDestination, fromFlag } from "@payments/program"
import { Effect, Stream } from "effect"
import { Command } from "effect/cli"
import { type Column, printRows, rowFormatFlag } from "../output/RowsOutput.ts"

/** `payments erasures`. */
export const erasuresCommand = Command.make(
  "erasures",
  { from: fromFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from }) {
    const destination = yield* fromDestination(from)
    yield* Effect.scoped(Effect.gen(function*() {
      const { erasures } = yield* Destination.maintenance(destination)
      const rows = Effect.map(erasures, (all) => all.map((erasure) => columns.map(({ of }) => of(erasure))))
      yield* printRows(columns, Stream.fromEffect(rows), format, "Nothing was erased.")
    }))
  })
).pipe(
  Command.withDescription("List who erased when, and how many texts; without personal data"),
  Command.withExamples([
    { command: "payments erasures --from sqlite:./payments.db", description: "all erasures" },
    { command: "payments erasures --from sqlite:./payments.db --format csv", description: "the same for a spreadsheet" }
  ])
)

const count = (of: (erasure: Erasure) => number) => (erasure: Erasure): Cell => ({ json: String(of(erasure)) })

const columns: ReadonlyArray<Column & { readonly of: (erasure: Erasure) => Cell }> = [
  { name: "erasure", of: count(({ erasure }) => erasure) },
  { name: "kind", wholeUpTo: 15, of: ({ kind }) => kind },
  { name: "by", minWidth: 10, of: ({ by }) => by },
  { name: "started_at", minWidth: 24, of: ({ startedAt }) => startedAt },
  { name: "rows", of: count(({ records }) => records) },
  { name: "changes", of: count(({ changes }) => changes) },
  { name: "quarantined", of: count(({ quarantined }) => quarantined) },
  // Null if the erasure was interrupted: the same command completes it.
  { name: "completed_at", minWidth: 24, minTerminalWidth: 120, of: ({ completedAt }) => completedAt ?? null }
]
