/** `payments changes`: what an export found to have changed, in order. */
import { Lists } from "@payments/core"
import { type ChangeRow, Destination, type Reader } from "@payments/export"
import { fromFlag, optionalFlag, originOf, printOrEnd, say, wholeNumberFlag } from "@payments/export/program"
import { Effect, type Stdio } from "effect"
import { Command, Flag } from "effect/cli"
import { changesFormats, makeChangesOutput } from "../ChangesOutput.ts"

const atOnce = 1000

/** `payments changes`. */
export const changesCommand = Command.make(
  "changes",
  {
    from: fromFlag,
    after: wholeNumberFlag("after", 0).pipe(
      Flag.withMetavar("SEQ"),
      Flag.withDescription("only changes behind this sequence number"),
      Flag.withDefault(0)
    ),
    follow: Flag.Boolean("follow").pipe(
      Flag.withDescription("go on with the changes that later exports write, until interrupted"),
      Flag.withDefault(false)
    ),
    resource: Flag.ChoiceWithValue("resource", Lists.all.map((list) => [list.label, list] as const)).pipe(
      Flag.withDescription("only changes of this list; may be given several times"),
      Flag.atLeast(0)
    ),
    format: optionalFlag(
      Flag.Literals("format", changesFormats).pipe(
        Flag.withDescription("table on a terminal, ndjson in a pipe, unless given")
      )
    )
  },
  Effect.fnUntraced(function*({ after, follow, format, from, resource }) {
    const destination = yield* originOf(from)
    const lists = resource.length === 0 ? Lists.all : resource
    const output = yield* makeChangesOutput(format)
    yield* Effect.scoped(Effect.gen(function*() {
      const reader = yield* Destination.reader(destination)
      yield* printOrEnd(output.head)
      const told = yield* tell(reader, lists, after, follow, (rows) => printOrEnd(output.rows(rows)))
      if (told === 0) yield* say("No changes.")
    }))
  })
).pipe(
  Command.withDescription("Print what differed between exports: records that came, changed, went missing or returned"),
  Command.withExamples([
    { command: "payments changes --from sqlite:./payments.db", description: "all of them" },
    {
      command: "payments changes --from sqlite:./payments.db --after 120 --resource invoices --follow",
      description: "those of the invoices behind number 120, and whatever comes"
    }
  ])
)

/** Writes the changes, and comes to how many there were. */
const tell = Effect.fnUntraced(function*<E>(
  reader: Reader,
  lists: ReadonlyArray<Lists.AnyList>,
  from: number,
  follow: boolean,
  write: (rows: ReadonlyArray<ChangeRow>) => Effect.Effect<void, E, Stdio.Stdio>
) {
  let told = 0
  for (let after = from;;) {
    const rows = yield* reader.changes(after, atOnce, lists)
    if (rows.length > 0) yield* write(rows)
    told += rows.length
    after = rows.at(-1)?.seq ?? after
    if (rows.length === atOnce) continue
    if (!follow) return told
    yield* Effect.sleep("1 second")
  }
})
