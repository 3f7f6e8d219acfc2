/**
 * The control sheet of a workbook: what was asked, how many rows the answer has, their sums, and what is known about the copy. A
 * reader of the file can check the rows with it, and the copy with `payments verify`.
 */
import {
  ageOf,
  type Cell,
  type Certificate,
  Destination,
  freshnessOf,
  heldBackText,
  type ListFreshness,
  ruleNameOf,
  ruleWords
} from "@payments/copy"
import type { Lists } from "@payments/core"
import { ageText, counted, grouped } from "@payments/program"
import { DateTime, Effect } from "effect"
import { type Cells, numberCell } from "./Rows.ts"
import { limits, sheetNames } from "./SheetCell.ts"
import type { Written } from "./Workbook.ts"

/** What was asked, as names and values. */
export type Asked = ReadonlyArray<readonly [name: string, value: string]>

/** What is known about a copy at a moment. */
export interface CopyState {
  readonly destination: Destination.StoredDestination
  readonly lists: ReadonlyArray<ListFreshness>
  readonly rule: string | undefined
}

/** Reads what is known about a copy. Undefined if this user may not read it. */
export const copyState = (destination: Destination.StoredDestination, lists: ReadonlyArray<Lists.AnyList>) =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(destination)
    const state: CopyState = {
      destination,
      lists: yield* freshnessOf(reader, lists),
      rule: (yield* reader.personal).rule
    }
    return state
  })).pipe(Effect.orElseSucceed(() => undefined))

export interface ControlOptions {
  readonly asked: Asked
  /** Undefined for an answer of the service. */
  readonly destination: Destination.StoredDestination | undefined
  readonly lists: ReadonlyArray<Lists.AnyList>
  /** The copy before the rows were read. */
  readonly before: CopyState | undefined
  /** Whether the columns of numbers have sums; by default true. Rows of several lists are no sum. */
  readonly hasSums?: boolean
  /** Whether the rows are those of now, which the certificates describe. */
  readonly isNow: boolean
  /** More sentences. It runs after the rows are written. */
  readonly notes: () => ReadonlyArray<string>
}

/** Returns a function that makes the rows of the control sheet, when those of the others are written. */
export const controlSheet =
  ({ asked, before, destination, hasSums = true, isNow, lists, notes }: ControlOptions) => (written: Written) =>
    Effect.gen(function*() {
      const now = yield* DateTime.now
      const after = destination === undefined ? undefined : yield* copyState(destination, lists)
      const changed = before !== undefined && after !== undefined && isNow && stateText(before) !== stateText(after)
      const entries: ReadonlyArray<Cells> = [
        ["created", DateTime.formatIso(now)],
        ...asked,
        ["read from", destination === undefined ? "the service" : Destination.shown(destination)],
        ["rows", numberCell(written.rows)],
        ...written.sums.filter(({ sum }) => hasSums && sum.numbers > 0).map(({ name, sum }): Cells => [
          `sum of ${name}`,
          sumCell(sum.text()),
          numberCell(sum.numbers),
          numberCell(sum.nulls)
        ]),
        ...after === undefined
          ? [["certificate", destination === undefined ? "none" : "none: the state of the copy cannot be read"]]
          : [
            ["rule for personal data", ruleText(after.rule)],
            ...isNow ? after.lists.flatMap((list) => certificateRows(list, now)) : []
          ],
        ...[
          ...writtenNotes(written),
          ...changed
            ? ["The copy was written to while the rows were read: they may be newer than its certificates."]
            : [],
          ...isNow ? [] : ["The rows are those of an earlier point, so no certificate describes them."],
          ...notes()
        ].map((note): Cells => ["note", note])
      ]
      return [["", "", "numbers", "empty"], ...entries.flatMap(withParts)]
    })

const sumCell = (text: string | undefined): Cell =>
  text === undefined ? "not exact: there are numbers with an exponent" : { json: text }

const ruleText = (rule: string | undefined): string => `${ruleWords(rule)} (${ruleNameOf(rule)})`

/** What changes if an export writes to the copy. */
const stateText = ({ lists, rule }: CopyState): string =>
  JSON.stringify([rule, lists.map(({ completeScan, lastChange, rows }) => [completeScan?.scan, lastChange, rows])])

const certificateRows = (list: ListFreshness, now: DateTime.DateTime): ReadonlyArray<Cells> => {
  const { completeScan, list: name, missing, rows } = list
  if (completeScan === undefined) return [[name, "No export has read the whole list yet, so rows may be missing."]]
  const { certificate, endedAt, scan } = completeScan
  const age = ageOf(list, now)
  const heldBack = heldBackText(certificate)
  return [
    [`${name}: rows of the copy`, numberCell(rows)],
    [`${name}: of these missing in the service`, numberCell(missing)],
    [`${name}: last complete export`, `scan ${scan}, ended at ${endedAt}`],
    [`${name}: age`, age === undefined ? "unknown, because a clock was set back" : ageText(age)],
    ...certificate === undefined ? [[`${name}: certificate`, "none: another program has altered it"]] : [
      [`${name}: certified records`, numberCell(certificate.distinct)],
      ...Object.entries(certificate.sums).map(([column, sum]): Cells => [`${name}: certified sum of ${column}`, {
        json: sum
      }]),
      [`${name}: digest`, certificate.digest],
      [`${name}: do not match the document`, quarantineCell(certificate)]
    ],
    ...heldBack === undefined ? [] : [[`${name}: held back`, heldBack]]
  ]
}

/** Of a quarantined record, a column is null if its field is not of the documented type. Only one with an id has a row. */
const quarantineCell = ({ quarantined, withoutId }: Certificate): Cell =>
  quarantined === 0
    ? numberCell(0)
    : `${grouped(quarantined)}; their columns may be null${
      withoutId === 0 ? "" : `, and those without an id (${grouped(withoutId)}) have no row`
    }`

/** What a reader of the sheets, or of stderr, must know about their cells. */
export const writtenNotes = ({ numbersAsText, sheets, textsWithControls }: Written): ReadonlyArray<string> => [
  ...sheets === 1
    ? []
    : [
      `A sheet has room for ${grouped(limits.rows)} rows, so the others are in ${
        sheets === 2 ? `${sheetNames.rows} 2` : `${sheetNames.rows} 2 to ${sheetNames.rows} ${sheets}`
      }.`
    ],
  ...numbersAsText === 0
    ? []
    : [
      `${
        counted(numbersAsText, "number is", "numbers are")
      } text, because a spreadsheet shows only 15 digits of a number.`
    ],
  ...textsWithControls === 0
    ? []
    : [
      `${
        counted(textsWithControls, "text has", "texts have")
      } control characters. A workbook cannot have them, so they are written as \\u0007.`
    ]
]

/** Up to so many characters, each of which may be two code units. */
const longest = new RegExp(`[^]{1,${Math.floor(limits.text / 2)}}`, "gu")

/** A long value, such as a statement, has several cells, one below the other. */
const withParts = (row: Cells): ReadonlyArray<Cells> => {
  const [name = "", value = null] = row
  if (typeof value !== "string" || value.length <= limits.text) return [row]
  const parts = value.match(longest) ?? []
  return parts.map((part, index) => [index === 0 ? name : "", part])
}
