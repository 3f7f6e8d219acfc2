/** What `payments reconcile` prints: how the statement was read, the totals of each class, and the entries or rows. */
import {
  type ClassTotal,
  dayText,
  type Entry,
  type EntryClass,
  entryClasses,
  type EntryRow,
  heldBackText,
  type ListFreshness,
  printable,
  type Reconciled,
  type ReconcileOptions,
  type StatementShape
} from "@payments/copy"
import type { Lists } from "@payments/core"
import { counted, grouped, printOrEnd } from "@payments/program"
import { Effect, Stream } from "effect"
import { outputs } from "../contract/Outputs.ts"
import type { ControlOptions } from "./ControlSheet.ts"
import { type Column, jsonText, type Look, numberCell, printRows, tableCell } from "./Rows.ts"
import { conditionText, type RowsTarget, writeRows } from "./RowsTarget.ts"
import { printingTo } from "./WrittenFile.ts"

const integer = (value: bigint | null) => value === null ? null : { json: String(value) }

/** The columns of a class. `statement` and `copy` are sums of amounts. */
export interface TotalRow extends ClassTotal {
  readonly class: EntryClass | "total"
}

export const totalRows = ({ totals }: Pick<Reconciled, "totals">): ReadonlyArray<TotalRow> => {
  const rows = entryClasses.toReversed().map((name): TotalRow => ({ class: name, ...totals[name] }))
  const total = rows.reduce((sum, row): TotalRow => ({
    class: "total",
    entries: sum.entries + row.entries,
    lines: sum.lines + row.lines,
    records: sum.records + row.records,
    there: sum.there + row.there,
    fee: sum.fee + row.fee,
    here: sum.here + row.here
  }))
  return [...rows, total]
}

/** Fees have a column only if the statement has one. */
export const totalColumns = (hasFees: boolean): ReadonlyArray<Column<TotalRow>> => [
  { name: "class", of: (row) => row.class },
  { name: "lines", kind: "integer", of: ({ lines }) => numberCell(lines) },
  { name: "records", kind: "integer", of: ({ records }) => numberCell(records) },
  { name: "statement", kind: "integer", of: ({ there }) => integer(there) },
  ...hasFees ? [{ name: "fees", kind: "integer", of: ({ fee }: TotalRow) => integer(fee) } as const] : [],
  { name: "copy", kind: "integer", of: ({ here }) => integer(here) },
  { name: "difference", kind: "integer", of: ({ fee, here, there }) => signed(there + fee - here) }
]

/** A difference has a sign: plus if the statement has more. */
const signed = (difference: bigint) => ({
  json: String(difference),
  table: `${difference > 0n ? "+" : ""}${difference}`
})

/** A record's own `id` has another column. */
const keyColumns = (keys: ReadonlyArray<string>): ReadonlyArray<Column<Entry | EntryRow>> =>
  keys.map((name, index) => ({
    name: name === "id" ? "keyId" : name,
    wholeUpTo: 40,
    of: (row) => row.keys[index] ?? null
  }))

/** The columns of a row for each line and record, for programs. */
export const rowColumns = ({ day, keys }: Pick<Reconciled, "day" | "keys">): ReadonlyArray<Column<EntryRow>> => [
  { name: "class", of: (row) => row.class },
  { name: "entry", of: ({ entry }) => numberCell(entry) },
  { name: "line", of: ({ line }) => line === null ? null : numberCell(line) },
  { name: "id", of: ({ id }) => id },
  ...keyColumns(keys),
  ...day === undefined ? [] : [
    { name: "dayThere", of: ({ dayThere }: EntryRow) => dayThere },
    { name: "dayHere", of: ({ dayHere }: EntryRow) => dayHere }
  ],
  { name: "amountThere", kind: "integer", of: ({ amountThere }) => integer(amountThere) },
  { name: "fee", kind: "integer", of: ({ fee }) => integer(fee) },
  { name: "amountHere", kind: "integer", of: ({ amountHere }) => integer(amountHere) },
  { name: "difference", kind: "integer", of: ({ difference }) => difference === null ? null : signed(difference) },
  { name: "why", of: ({ why }) => why }
]

const linesText = ({ firstLines, lines }: Entry): string =>
  `${firstLines.join(", ")}${lines > firstLines.length ? `, +${lines - firstLines.length}` : ""}`

/** The columns of an entry, for people. */
export const entryColumns = (
  { day, hasFees, keys }: Pick<Reconciled, "day" | "hasFees" | "keys">,
  wide: boolean
): ReadonlyArray<Column<Entry>> => [
  { name: "class", of: (row) => row.class },
  { name: "line", of: linesText },
  {
    name: "id",
    wholeUpTo: 40,
    ...wide ? {} : { minTerminalWidth: 110 },
    of: ({ id, records }) => id === null ? "" : records > 1 ? `${id} +${records - 1}` : id
  },
  ...keyColumns(keys),
  ...day === undefined ? [] : [{
    name: "date",
    of: ({ dayHere, dayThere }: Entry) =>
      dayThere !== null && dayHere !== null && dayThere !== dayHere
        ? `${dayThere} / ${dayHere}`
        : dayThere ?? dayHere ?? ""
  }],
  { name: "statement", kind: "integer", of: ({ amountThere }) => amountThere === null ? "" : integer(amountThere) },
  ...hasFees
    ? [{ name: "fee", kind: "integer", of: ({ fee }: Entry) => fee === null ? "" : integer(fee) } as const]
    : [],
  { name: "copy", kind: "integer", of: ({ amountHere }) => amountHere === null ? "" : integer(amountHere) },
  { name: "difference", kind: "integer", of: ({ difference }) => difference === null ? "" : signed(difference) },
  { name: "why", of: ({ why }) => why ?? "" }
]

/** The members of the JSON document after its items, without brackets. */
export const documentMembers = (reconciled: Reconciled): string => {
  const totals = totalRows(reconciled).map((row) =>
    `{"class":${JSON.stringify(row.class)},"entries":${row.entries},"lines":${row.lines},"records":${row.records},` +
    `"amountThere":${row.there},"fee":${row.fee},"amountHere":${row.here},"difference":${
      row.there + row.fee - row.here
    }}`
  )
  const { lastDay, statement } = reconciled
  return [
    `"totals":[${totals.join(",")}]`,
    `"statement":${JSON.stringify(shapeMembers(statement))}`,
    `"through":${jsonText(lastDay === undefined ? null : dayText(lastDay))}`,
    `"equal":${isEqual(reconciled)}`
  ].join(",")
}

const shapeMembers = ({ camt, csv, dates, decimal, encoding, firstDay, format, lastDay, lines }: StatementShape) => ({
  format,
  encoding,
  ...csv === undefined ? {} : { separator: csv.separator, headerLine: csv.headerLine },
  ...decimal === undefined ? {} : { decimal: decimal === "," ? "comma" : "point" },
  ...dates === undefined ? {} : { dates },
  ...camt === undefined ? {} : { notBooked: camt.notBooked },
  lines,
  firstDay: firstDay === undefined ? null : dayText(firstDay),
  lastDay: lastDay === undefined ? null : dayText(lastDay)
})

export const isEqual = ({ totals }: Pick<Reconciled, "totals">): boolean =>
  totals.different.entries + totals["missing here"].entries + totals["missing there"].entries === 0

/** What a line of the file is called. */
const nounsOf = ({ format }: Pick<StatementShape, "format">) =>
  format === "csv" ? ["line", "lines"] as const : ["entry", "entries"] as const

/** Says how the statement was read, so that nothing was recognized in silence. */
export const shapeText = (file: string, shape: StatementShape): string => {
  const { camt, csv, dates, decimal, encoding, firstDay, format, hasMark, lastDay, lines, withoutKey } = shape
  const days = firstDay === undefined || lastDay === undefined
    ? ""
    : firstDay === lastDay
    ? ` of ${dayText(firstDay)}`
    : ` of ${dayText(firstDay)} to ${dayText(lastDay)}`
  const [noun, nouns] = nounsOf(shape)
  const parts = [
    format === "csv" ? "CSV" : "camt.053",
    `${encoding.toUpperCase()}${hasMark ? " with a byte order mark" : ""}`,
    ...csv === undefined ? [] : [`separator ${csv.separator}`],
    ...csv === undefined || csv.headerLine === 1 ? [] : [`columns named in line ${csv.headerLine}`],
    ...decimal === undefined ? [] : [`decimal ${decimal === "," ? "comma" : "point"}`],
    ...dates === undefined ? [] : [`dates ${dates}`],
    `${counted(lines, noun, nouns)}${days}`
  ]
  const notes = [
    ...camt === undefined || camt.notBooked === 0
      ? []
      : [` ${counted(camt.notBooked, "entry is", "entries are")} not booked, and left out.`],
    ...withoutKey === 0
      ? []
      : [
        ` ${counted(withoutKey, `${noun} has`, `${nouns} have`)} nothing to compare ${
          withoutKey === 1 ? "it" : "them"
        } by, the first one is ${noun} ${shape.firstWithoutKey}.`
      ]
  ]
  return `${printable(file)}: ${parts.join(", ")}.${notes.join("")}`
}

/** Names the number of lines and records of each class. */
export const totalsText = ({ totals }: Pick<Reconciled, "totals">): string => {
  const numberOf = (name: EntryClass) =>
    name === "missing here"
      ? totals[name].lines
      : name === "missing there" || name === "expected"
      ? totals[name].records
      : totals[name].entries
  return `${entryClasses.toReversed().map((name) => `${grouped(numberOf(name))} ${name}`).join(", ")}.`
}

/**
 * Writes the totals, and below them the entries; or for programs and for workbooks a row for each line and record. `look` is that of
 * stdout.
 */
export const writeReconciled = (
  reconciled: Reconciled,
  classes: ReadonlyArray<EntryClass>,
  { control, look, target }: { readonly look: Look; readonly target: RowsTarget; readonly control: ControlOptions }
) =>
  look.format === "table"
    ? printingTo(target.output, printTables(reconciled, classes, look.width))
    : writeRows(rowColumns(reconciled), reconciled.rows(classes), { ...target, format: target.format ?? look.format }, {
      empty: "No such lines and records.",
      members: look.format === "json" ? documentMembers(reconciled) : undefined,
      output: outputs.reconcile,
      control
    })

/** What was compared, and the totals of each class, for a control sheet. */
export const askedOf = (
  { file, group, list, on, where, withinDays }: Pick<
    ReconcileOptions,
    "file" | "group" | "list" | "on" | "where" | "withinDays"
  >,
  reconciled: Reconciled
): ControlOptions["asked"] => [
  ["list", list.label],
  ["statement", shapeText(file, reconciled.statement)],
  ["compared", on.join(", ")],
  ...group === undefined ? [] : [["grouped by", group] as const],
  ["days by which a date may differ", String(withinDays)],
  ...where.map((condition) => ["condition", conditionText(condition)] as const),
  ...totalRows(reconciled).map((row) =>
    [
      `class ${row.class}`,
      totalColumns(reconciled.hasFees).slice(1).map(({ name, of }) => `${name} ${tableCell(of(row))}`).join(", ")
    ] as const
  )
]

const printTables = Effect.fnUntraced(
  function*(reconciled: Reconciled, classes: ReadonlyArray<EntryClass>, width: number) {
    yield* printRows(totalColumns(reconciled.hasFees), Stream.make(totalRows(reconciled)), "table", { empty: "" })
    if (classes.every((name) => reconciled.totals[name].entries === 0)) return
    yield* printOrEnd("\n")
    const columns = entryColumns(reconciled, width >= 110)
    yield* printRows(columns, reconciled.entries(classes), "table", { empty: "" })
  }
)

/** What a reader must know to trust the result. */
export const notesOf = (
  list: Lists.AnyList,
  { completeScan }: Pick<ListFreshness, "completeScan">,
  { day, dueBefore, lastDay, statement }: Reconciled
): ReadonlyArray<string> => {
  const heldBack = heldBackText(completeScan?.certificate)
  const age = completeScan === undefined
    ? `${list.label}: no export has read the whole list yet, so records may be missing here.`
    : heldBack === undefined
    ? `The copy has the ${list.title} as of ${completeScan.endedAt.slice(0, 16).replace("T", " ")} UTC.`
    : `${list.label}: ${heldBack}.`
  const mapping = day === undefined ? "" : `, or its column with --map ${day}=COLUMN`
  const [noun, nouns] = nounsOf(statement)
  return [
    age,
    ...lastDay !== undefined
      ? statement.lines === 0 ? ["The statement has no booked entries."] : []
      : [
        statement.lines === 0
          ? "The statement has no booked entries and names no last day, so records count as missing there also if they are due later. Name it with --through."
          : `The statement's ${nouns} have no dates, so records count as missing there also if they are due later. Name its last day with --through${mapping}.`
      ],
    // The period of a statement of camt.053 includes its lines without a date.
    ...statement.withoutDay === 0 || lastDay === undefined || lastDay !== statement.lastDay ||
        statement.camt?.through !== undefined
      ? []
      : [
        `${
          counted(statement.withoutDay, `${noun} has`, `${nouns} have`)
        } no date, so the statement's last day may be later than ${dayText(lastDay)}. Name it with --through.`
      ],
    ...dueBefore === 0 || statement.firstDay === undefined || day === undefined
      ? []
      : [
        `${grouped(dueBefore)} of the records that are missing there ${
          dueBefore === 1 ? "has" : "have"
        } a ${day} before the statement's first day. Leave them out with --where '${day}>=${
          dayText(statement.firstDay)
        }'.`
      ]
  ]
}
