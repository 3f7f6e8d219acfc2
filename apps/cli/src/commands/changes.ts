/** `payments changes`: prints the changes that exports found, in order. */
import {
  type ChangeRow,
  changesAfter,
  Destination,
  type Maintenance,
  moveConsumer,
  type Numbered,
  printable,
  type Reader,
  requireCurrent,
  requirePosition,
  unfilledColumns
} from "@payments/copy"
import { Lists } from "@payments/core"
import {
  canRedrawScreen,
  checkAll,
  flushOrEnd,
  fromDestination,
  fromFlag,
  logLine,
  logNote,
  setting,
  type SettingParser,
  shellWord,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { DateTime, Effect, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { expected, localProblem, sinceMs } from "../listing/Since.ts"
import { changedFields, fieldsIn, namesIn } from "../output/ChangedFields.ts"
import { type Column, numberCell, printRows, rowFormatFlag } from "../output/Rows.ts"
import type * as Table from "../output/Table.ts"
import {
  ackCommand,
  consumerName,
  consumersCommand,
  generationFlag,
  generationName,
  positionProblems,
  requireNoHandoff
} from "./consumers.ts"

/** The lists to print; all by default. */
export const resourceFlag = Flag.ChoiceWithValue("resource", Lists.all.map((list) => [list.label, list] as const)).pipe(
  Flag.withMetavar("LIST"),
  Flag.withDescription("only records of this list; may be given several times"),
  Flag.atLeast(0)
)

const changesFlags = {
  from: fromFlag,
  after: textFlag(
    "after",
    "SEQ",
    "only changes after this sequence number, or after the last change so far (last); with --consumer, where a new one starts"
  ),
  since: textFlag(
    "since",
    "TIME",
    "only changes since this time: 24h, 2024-05-01, 2024-05-01T10:00Z, today or yesterday; local time by default"
  ),
  generation: generationFlag(
    "the generation of the change that --after names, which every change has beside its number"
  ),
  follow: switchFlag(
    "follow",
    "continue with the changes of later exports, until interrupted; a live table on a terminal"
  ),
  consumer: textFlag(
    "consumer",
    "NAME",
    "only changes after the position of this consumer, which the destination stores"
  ),
  ack: switchFlag(
    "ack",
    "store the consumer's position after all changes were written; with --follow, after each batch"
  ),
  resource: resourceFlag,
  format: rowFormatFlag
}

type Given = Command.Command.Config.Infer<typeof changesFlags>

export const changesCommand = Command.make(
  "changes",
  changesFlags,
  Effect.fnUntraced(function*(given) {
    const { ack, follow, format, resource } = given
    const now = DateTime.toEpochMillis(yield* DateTime.now)
    const sinceProblem = localProblem(given.since ?? "")
    const { after, consumer, destination, generation, since } = yield* checkAll({
      flags: checkFlags(given),
      generation: setting({ name: "generation", text: given.generation }, undefined, generationName),
      after: setting({ name: "after", text: given.after }, undefined, changeNumber),
      consumer: setting({ name: "consumer", text: given.consumer }, undefined, consumerName),
      since: sinceProblem === undefined
        ? setting({ name: "since", text: given.since }, undefined, { expected, parse: (text) => sinceMs(text, now) })
        : Effect.fail(usage(`--since: ${sinceProblem}`)),
      destination: fromDestination(given.from)
    })
    // Loaded only here, because most commands print no table.
    const columns = columnsOf(yield* Effect.promise(() => import("../output/Table.ts")))
    const lists = resource.length === 0 ? Lists.all : resource
    const maintenance = ack ? yield* Destination.maintenance(destination) : undefined
    const reader = maintenance ?? (yield* Destination.reader(destination))
    if (maintenance !== undefined && consumer !== undefined) yield* requireNoHandoff(maintenance, consumer)
    yield* logUnfilled(reader, lists)
    const timeOfFirst = since === undefined ? undefined : new Date(since).toISOString()
    const start = consumer === undefined
      ? yield* startOf(reader, after, generation, timeOfFirst)
      : yield* startOfConsumer(reader, maintenance, consumer, after)
    let [delivered, acknowledged] = [start, start]
    let deliveredIn: string | undefined
    const acknowledge = Effect.suspend(() => {
      if (maintenance === undefined || consumer === undefined || delivered === acknowledged) return Effect.void
      acknowledged = delivered
      return Effect.andThen(
        flushOrEnd,
        Effect.asVoid(
          moveConsumer(maintenance, {
            name: consumer,
            position: acknowledged,
            generation: deliveredIn,
            when: "forward"
          })
        )
      )
    })
    const batches = changesAfter(reader, start, { lists, since: timeOfFirst, isFollowing: follow })
    // With --ack, a change is acknowledged once it was printed, so all changes are printed.
    if (follow && !ack && (format ?? "table") === "table" && (yield* canRedrawScreen)) {
      const { showLive } = yield* Effect.promise(() => import("../progress/LiveChanges.ts"))
      let last: Numbered = { generation: undefined, seq: start }
      return yield* showLive(
        reader,
        lists,
        Stream.tap(
          batches,
          (batch) => Effect.sync(() => last = { generation: batch.generation, seq: batch.through })
        )
      ).pipe(Effect.onInterrupt(() => logNote(continueNote(given, last))))
    }
    const rows = Stream.map(batches, (batch) => {
      delivered = batch.through
      deliveredIn = batch.generation
      return batch.rows
    })
    // Without --follow, the output is one document, so it is delivered only at its end.
    yield* printRows(columns, rows, format, {
      empty: "No changes.",
      output: outputs.changes,
      afterBatch: follow ? acknowledge : undefined
    })
    yield* acknowledge
  }, (effect, { consumer }) => Effect.catchTags(Effect.scoped(effect), positionProblems(consumer)))
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
    },
    {
      command: "payments changes --from sqlite:./payments.db --consumer reports --ack",
      description: "the changes that the consumer reports has not read yet"
    }
  ]),
  Command.withSubcommands([ackCommand, consumersCommand])
)

/** Says which columns have no values yet. */
const logUnfilled = Effect.fnUntraced(function*(reader: Reader, lists: ReadonlyArray<Lists.AnyList>) {
  for (const { columns, label } of yield* unfilledColumns(reader, lists)) {
    yield* logLine(
      `payments: columns of ${label} are not filled yet: ${columns.join(", ")}. The next export of the list fills them.`
    )
  }
})

/** Says how to see the changes after those that the live table has shown. */
const continueNote = (
  { consumer, from, resource }: Given,
  { generation, seq }: Numbered
) => {
  const flags = [
    ...(from === undefined ? [] : [`--from ${shellWord(printable(from))}`]),
    ...resource.map(({ label }) => `--resource ${label}`)
  ].map((flag) => ` ${flag}`).join("")
  // The position of a consumer has not moved.
  const after = `--after ${seq}${generation === undefined ? "" : ` --generation ${generation}`}`
  const start = consumer === undefined ? after : `--consumer ${consumer}`
  const next = `payments changes${flags} ${start} --follow`
  return { message: `payments: the last change was ${seq}. To continue:\n  ${next}`, next }
}

/** A sequence number, or `last` for that of the last change so far. */
const changeNumber: SettingParser<number | "last"> = {
  expected: "a whole number, 0 or more, or last",
  parse: (text) => text === "last" ? text : wholeNumber(0).parse(text)
}

const checkFlags = ({ ack, after, consumer, follow, format, generation, since }: Given) => {
  if (ack && consumer === undefined) return usage("--ack needs --consumer NAME: the consumer whose position it stores.")
  if (generation !== undefined && (after === undefined || after === "last" || consumer !== undefined)) {
    return usage("--generation belongs to --after SEQ, without --consumer: the destination stores that of a consumer.")
  }
  if (since !== undefined && consumer !== undefined) {
    return usage("--since and --consumer exclude each other: a consumer reads every change after its position.")
  }
  if (follow && format === "json") {
    return usage("--format json is one document, which --follow never completes. Use --format ndjson.")
  }
  return Effect.void
}

type ChangeNumber = number | "last" | undefined

/** Returns the number after which to read. Says if changes were removed that would be printed, or if `after` is too high. */
const startOf = Effect.fnUntraced(function*(
  reader: Reader,
  after: ChangeNumber,
  generation: string | undefined,
  since: string | undefined
) {
  const { last, pruned } = yield* reader.changeRange
  if (after === "last") return last
  if (after !== undefined) {
    if (generation !== undefined) yield* requirePosition(reader, { generation, seq: after })
    // The destination may have been restored from a backup.
    if (after > last) yield* logLine(`payments: there is no change ${after} yet: the last one is ${last}.`)
    return after
  }
  const [oldest] = pruned === 0 ? [] : yield* reader.changes(pruned, 1, Lists.all)
  // The changes before the oldest one are older than it is.
  if (pruned > 0 && (since === undefined || oldest === undefined || since <= oldest.at)) {
    yield* logLine(`payments: changes up to ${pruned} were removed.`)
  }
  return pruned
})

/** Returns the position of the consumer. With `maintenance`, stores a new consumer, so that no change after it is removed. */
const startOfConsumer = Effect.fnUntraced(function*(
  reader: Reader,
  maintenance: Maintenance | undefined,
  name: string,
  after: ChangeNumber
) {
  const stored = (yield* reader.consumerStates).find((consumer) => consumer.name === name)
  if (stored !== undefined) {
    yield* requireCurrent(reader, stored)
    if (after !== undefined) {
      yield* logLine(`payments: ${name} continues after change ${stored.position}. --after is only for a new consumer.`)
    }
    return stored.position
  }
  const position = after === "last" ? (yield* reader.changeRange).last : after ?? 0
  return maintenance === undefined ? position : yield* moveConsumer(maintenance, { name, position, when: "create" })
})

const columnsOf = (
  { firstNames }: typeof Table
): ReadonlyArray<Column<ChangeRow>> => [
  { name: "seq", align: "right", wholeUpTo: 16, initialWidth: 7, of: ({ seq }) => (numberCell(seq)) },
  { name: "generation", hidden: true, of: ({ generation = null }) => generation },
  { name: "list", minWidth: 15, initialWidth: 15, of: ({ list }) => list },
  { name: "scan", hidden: true, of: ({ scan }) => (numberCell(scan)) },
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
  { name: "after", hidden: true, of: ({ after }) => after === undefined ? null : { json: after } },
  {
    name: "rechecked",
    hidden: true,
    of: ({ rechecked }) => rechecked === undefined ? null : { json: rechecked }
  }
]
