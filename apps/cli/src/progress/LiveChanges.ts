/**
 * Changes as a table that fills the terminal: the newest rows that fit, how many changes there were, and how old the lists are.
 * It uses the terminal's second screen, so at the end the first one is as before. Memory does not grow with the changes.
 */
import {
  ageOf,
  type ChangeBatch,
  type ChangeRow,
  freshnessOf,
  type ListFreshness,
  printable,
  type Reader
} from "@payments/copy"
import type { Lists } from "@payments/core"
import { ageText, canColor, counted, grouped, print } from "@payments/program"
import { DateTime, Duration, Effect, Stream, Terminal } from "effect"
import { changedFields, namesIn } from "../output/ChangedFields.ts"
import type * as Table from "../output/Table.ts"
import type * as TextWidth from "../output/TextWidth.ts"

/** Switches to the second screen and hides the cursor. */
const enterText = "\u001b[?1049h\u001b[?25l"
const leaveText = "\u001b[?25h\u001b[?1049l"

/** More rows than any terminal has. */
const mostRows = 500
/** A longer text does not fit into a row. */
const longestFields = 1000
/** The size if the terminal does not report one. */
const defaultSize = { columns: 80, rows: 24 } as const

interface ShownChange extends Pick<ChangeRow, "seq" | "list" | "kind" | "id" | "at"> {
  readonly fields: string
}

export interface LiveState {
  readonly location: string
  /** The newest changes, the newest last. */
  newest: ReadonlyArray<ShownChange>
  readonly counts: { [kind in ChangeRow["kind"]]: number }
  lists: ReadonlyArray<Pick<ListFreshness, "list" | "completeScan">>
}

export const startLive = (location: string): LiveState => ({
  location,
  newest: [],
  counts: { insert: 0, update: 0, missing: 0, returned: 0 },
  lists: []
})

export const addChanges = (state: LiveState, rows: ReadonlyArray<ChangeRow>): void => {
  for (const { kind } of rows) state.counts[kind]++
  const shown = rows.slice(-mostRows).map((row): ShownChange => {
    const { at, id, kind, list, seq } = row
    return { at, id, kind, list, seq, fields: changedFields(row).slice(0, longestFields) }
  })
  state.newest = [...state.newest, ...shown].slice(-mostRows)
}

/** Makes the function that returns the lines of the screen. No line is wider, and there are no more lines than rows. */
export const makeScreen = (
  { firstNames, makeTable }: typeof Table,
  { truncateTo }: typeof TextWidth,
  colors: boolean
) =>
(
  { counts, lists, location, newest }: LiveState,
  size: { readonly columns: number; readonly rows: number },
  now: DateTime.DateTime
): ReadonlyArray<string> => {
  const table = makeTable(
    [
      { name: "seq", kind: "integer" },
      { name: "list", minWidth: 15 },
      { name: "age", align: "right", wholeUpTo: 8 },
      { name: "change", minWidth: 8 },
      { name: "id", wholeUpTo: 36 },
      { name: "fields", minWidth: 6, shorten: namesIn(firstNames) }
    ],
    size.columns,
    { onTerminal: true, colors }
  )
  const room = Math.max(0, size.rows - headLines - 1)
  const shown = newest.slice(-Math.max(1, room))
  const lines = table.print(shown.map((change) => [
    String(change.seq),
    change.list,
    sinceText(change.at, now),
    change.kind,
    change.id,
    change.fields
  ])).split("\n").slice(0, -1)
  const all = Object.values(counts).reduce((sum, number) => sum + number, 0)
  const kinds = Object.entries(counts).filter(([, number]) => number > 0).map(([kind, number]) =>
    `${grouped(number)} ${kind}`
  )
  const head = [
    `Ctrl-C ends. Changes, the newest last, in ${printable(location)}`,
    all === 0
      ? "No changes yet."
      : `${all > shown.length ? "Newest of " : ""}${counted(all, "change")}: ${kinds.join(", ")}`,
    `Age: ${
      lists.map((list) => {
        const age = ageOf(list, now)
        return `${list.list} ${
          age === undefined ? list.completeScan === undefined ? "never" : "unknown" : ageText(age)
        }`
      }).join(", ")
    }`,
    ""
  ].map((line) => truncateTo(line, size.columns))
  // A wide id takes more than one line, so fewer rows than expected may fit.
  const fitting = all === 0 ? [] : [lines[0] ?? "", ...lines.slice(1).slice(-Math.max(1, room))]
  return [...head, ...fitting].slice(0, size.rows)
}

/** The lines before the table. */
const headLines = 4

/** Returns the time since a change. A clock that was set back gives no negative time. */
const sinceText = (at: string, now: DateTime.DateTime): string => {
  const ms = DateTime.toEpochMillis(now) - Date.parse(at)
  return Number.isNaN(ms) ? "" : ageText(Duration.millis(Math.max(0, ms)))
}

const redrawEvery = Duration.millis(250)
/** Freshness is read less often than the screen is drawn. */
const freshnessEvery = Duration.seconds(5)

/** Shows changes as they arrive, until the stream fails or the fiber is interrupted. */
export const showLive = Effect.fnUntraced(function*<E, R>(
  reader: Reader,
  lists: ReadonlyArray<Lists.AnyList>,
  batches: Stream.Stream<ChangeBatch, E, R>
) {
  const [table, textWidth] = yield* Effect.promise(() =>
    Promise.all([import("../output/Table.ts"), import("../output/TextWidth.ts")])
  )
  const terminal = yield* Terminal.Terminal
  const screen = makeScreen(table, textWidth, yield* canColor)
  const state = startLive(reader.location)
  const draw = Effect.gen(function*() {
    const size = {
      columns: (yield* terminal.columns) || defaultSize.columns,
      rows: (yield* terminal.rows) || defaultSize.rows
    }
    const lines = screen(state, size, yield* DateTime.now)
    // Each line erases what an earlier one left behind it, and the last line erases the rest of the screen.
    yield* print(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join("\r\n")}\u001b[J`)
  })
  const refresh = Effect.map(freshnessOf(reader, lists), (found) => {
    state.lists = found
  })
  yield* Effect.acquireUseRelease(
    print(enterText),
    () =>
      Effect.all([
        Stream.runForEach(batches, ({ rows }) => Effect.sync(() => addChanges(state, rows))),
        Effect.forever(Effect.andThen(refresh, Effect.sleep(freshnessEvery))),
        Effect.forever(Effect.andThen(draw, Effect.sleep(redrawEvery)))
      ], { concurrency: "unbounded", discard: true }),
    () => print(leaveText)
  )
})
