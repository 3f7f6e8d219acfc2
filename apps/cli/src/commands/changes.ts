/** `payments changes`: prints the changes that exports found, in order. */
import { Lists } from "@payments/core"
import { type Cell, type ChangeRow, Destination, type Reader, unfilledColumns } from "@payments/export"
import { fromDestination, fromFlag, logLine, textFlag, usage, wholeNumberFlag } from "@payments/export/program"
import { DateTime, Effect, Option, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { changedFields, fieldsIn, namesIn } from "../ChangedFields.ts"
import { type Column, printRows, rowFormatFlag } from "../RowsOutput.ts"
import { expected, sinceMs } from "../Since.ts"
import type * as Table from "../Table.ts"

/** The largest number of changes that one read of the destination returns. */
const batchSize = 1000

/** The lists to print; all by default. */
export const resourceFlag = Flag.ChoiceWithValue("resource", Lists.all.map((list) => [list.label, list] as const)).pipe(
  Flag.withDescription("only records of this list; may be given several times"),
  Flag.atLeast(0)
)

/** `payments changes`. */
export const changesCommand = Command.make(
  "changes",
  {
    from: fromFlag,
    after: wholeNumberFlag("after", 0).pipe(
      Flag.withMetavar("SEQ"),
      Flag.withDescription("only changes after this sequence number"),
      Flag.withDefault(0)
    ),
    since: textFlag(
      "since",
      "TIME",
      "only changes since this time: 24h, 2024-05-01, 2024-05-01T10:00Z, today or yesterday; local time by default"
    ),
    follow: Flag.Boolean("follow").pipe(
      Flag.withDescription("continue with the changes of later exports, until interrupted"),
      Flag.withDefault(false)
    ),
    resource: resourceFlag,
    format: rowFormatFlag
  },
  Effect.fnUntraced(function*({ after, follow, format, from, resource, since }) {
    const moment = since === undefined ? undefined : sinceMs(since, DateTime.toEpochMillis(yield* DateTime.now))
    if (since !== undefined && moment === undefined) {
      return yield* usage(`Invalid value for --since. Expected: ${expected}`)
    }
    if (follow && format === "json") {
      return yield* usage("--format json is one document, which --follow never completes. Use --format ndjson.")
    }
    const destination = yield* fromDestination(from)
    // Loaded only here, because most commands print no table.
    const columns = columnsOf(yield* Effect.promise(() => import("../Table.ts")))
    yield* Effect.scoped(Effect.gen(function*() {
      const reader = yield* Destination.reader(destination)
      const lists = resource.length === 0 ? Lists.all : resource
      for (const { columns: names, label } of yield* unfilledColumns(reader, lists)) {
        yield* logLine(
          `payments: columns of ${label} are not filled yet: ${
            names.join(", ")
          }. The next export of the list fills them.`
        )
      }
      const found = changes(
        reader,
        lists,
        after,
        moment === undefined ? undefined : new Date(moment).toISOString(),
        follow
      )
      const rows = Stream.map(found, (batch) => batch.map((row) => columns.map(({ of }) => of(row))))
      yield* printRows(columns, rows, format, "No changes.")
    }))
  })
).pipe(
  Command.withDescription("Print the changes between exports: inserted, updated, missing and returned records"),
  Command.withExamples([
    { command: "payments changes --from sqlite:./payments.db", description: "all changes" },
    {
      command: "payments changes --from sqlite:./payments.db --since yesterday",
      description: "the changes since yesterday, 00:00"
    },
    {
      command: "payments changes --from sqlite:./payments.db --after 120 --resource invoices --follow",
      description: "the changes of invoices after number 120, and later ones as they are written"
    }
  ])
)

const columnsOf = (
  { firstNames }: typeof Table
): ReadonlyArray<Column & { readonly of: (row: ChangeRow) => Cell }> => [
  { name: "seq", align: "right", wholeUpTo: 16, initialWidth: 7, of: ({ seq }) => ({ json: String(seq) }) },
  { name: "list", minWidth: 15, initialWidth: 15, of: ({ list }) => list },
  { name: "scan", hidden: true, of: ({ scan }) => ({ json: String(scan) }) },
  { name: "at", minWidth: 24, minTerminalWidth: 100, of: ({ at }) => at },
  { name: "change", minWidth: 8, initialWidth: 8, of: ({ kind }) => kind },
  { name: "id", wholeUpTo: 36, of: ({ id }) => id },
  {
    name: "fields",
    minWidth: 6,
    shorten: namesIn(firstNames),
    details: fieldsIn,
    of: (row) => ({
      json: JSON.stringify(row.fields),
      csv: row.fields.length === 0 ? null : row.fields.join(" "),
      table: changedFields(row)
    })
  },
  { name: "before", hidden: true, of: ({ before }) => before === undefined ? null : { json: before } },
  { name: "after", hidden: true, of: ({ after }) => after === undefined ? null : { json: after } }
]

/** Reads the changes after a sequence number, in batches. With `follow`, waits for the changes of later exports. */
const changes = (
  reader: Reader,
  lists: ReadonlyArray<Lists.AnyList>,
  afterSeq: number,
  since: string | undefined,
  follow: boolean
) =>
  Stream.paginate(afterSeq, (after) =>
    Effect.map(reader.changes(after, batchSize, lists, since), (rows) =>
      [
        rows.length === 0 ? [] : [rows],
        rows.length === batchSize || follow ? Option.some(rows.at(-1)?.seq ?? after) : Option.none()
      ] as const).pipe(
        Effect.tap(([batches]) => follow && batches.length === 0 ? Effect.sleep("1 second") : Effect.void)
      ))
