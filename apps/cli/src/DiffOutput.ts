/**
 * Prints a comparison: the totals that differ, then the records, then the counts of each list. A table is for people. In
 * `ndjson` and `csv` each row says what it is; `json` is one document. The texts of members are exact.
 */
import type { ListComparison, MemberDifference, RecordDifference, TotalDifference } from "@payments/export"
import { printable } from "@payments/export"
import { Effect } from "effect"
import type { Column, RowFormat } from "./RowsOutput.ts"
import type * as Table from "./Table.ts"

/** The counts of a list. */
export interface ComparedList extends ListComparison {
  readonly list: string
  readonly totalsDiffer: boolean
}

/** One side of a comparison. */
export interface Side {
  readonly destination: string
  /** The change after which the rows are compared; undefined for the rows as they are. */
  readonly at: number | undefined
}

/** Formats the parts of a comparison as text. */
export interface DiffFormatter {
  readonly head: (a: Side, b: Side) => string
  readonly totals: (totals: ReadonlyArray<TotalDifference>) => string
  readonly records: (records: ReadonlyArray<RecordDifference>) => string
  /** `isComplete`: whether everything was compared and printed. */
  readonly end: (lists: ReadonlyArray<ComparedList>, isComplete: boolean) => string
  /** The columns that do not fit on the terminal. */
  readonly omittedColumns: () => ReadonlyArray<string>
}

/** Makes the formatter. */
export const makeDiffFormatter = (
  format: RowFormat,
  width: number,
  style: Table.TableStyle
): Effect.Effect<DiffFormatter> => {
  const toOutput = style.onTerminal ? printable : (text: string) => text
  switch (format) {
    case "table":
      return Effect.map(Effect.promise(() => import("./Table.ts")), (module) => tables(module, width, style))
    case "csv":
      return Effect.map(
        Effect.promise(() => import("@payments/export/csv")),
        ({ csvText, fieldText }) =>
          csv((rows) =>
            csvText(
              rows.map((row) => row.map((text) => text === null ? null : fieldText(toOutput(text), "keep"))),
              "keep"
            ), (text) => fieldText(text, "escape"))
      )
    case "ndjson":
      return Effect.succeed(ndjson(toOutput))
    case "json":
      return Effect.succeed(json(toOutput))
  }
}

const count = new Intl.NumberFormat("en-US")

const sideText = ({ at, destination }: Side): string =>
  at === undefined ? destination : `${destination} after change ${at}`

const isEqual = ({ differing, onlyA, onlyB, totalsDiffer }: ComparedList): boolean =>
  differing + onlyA + onlyB === 0 && !totalsDiffer

/** The width of the column of a member's texts. */
const maxText = 60

const tables = ({ makeTable }: typeof Table, width: number, style: Table.TableStyle): DiffFormatter => {
  const integer = (name: string): Column => ({ name, kind: "integer" })
  const totals = makeTable(
    [
      { name: "list", minWidth: 8 },
      { name: "day", minWidth: 10 },
      { name: "status", minWidth: 8 },
      { name: "figure", minWidth: 8 },
      integer("A"),
      integer("B"),
      integer("B - A")
    ],
    width,
    style
  )
  const records = makeTable(
    [
      { name: "list", minWidth: 8 },
      { name: "id", wholeUpTo: 40 },
      { name: "member", minWidth: 10 },
      { name: "A", minWidth: 10, initialWidth: 10 },
      { name: "B", minWidth: 10, initialWidth: 10 }
    ],
    width,
    style
  )
  let hasTotals = false
  let hasRecords = false
  return {
    head: (a, b) => `A: ${printable(sideText(a))}\nB: ${printable(sideText(b))}\n`,
    totals: (rows) => {
      if (rows.length === 0) return ""
      const heading = hasTotals ? "" : "\nTotals that differ:\n"
      hasTotals = true
      return `${heading}${
        totals.print(
          rows.map((
            { a, b, day, figure, list, status }
          ) => [list, nullText(day), nullText(status), figure, String(a), String(b), signed(b - a)])
        )
      }`
    },
    records: (rows) => {
      if (rows.length === 0) return ""
      const heading = hasRecords
        ? ""
        : `\n${hasTotals ? "" : "All totals by day and status are equal.\n"}Records that differ:\n`
      hasRecords = true
      return `${heading}${
        records.print(rows.flatMap(({ change, id, list, members }) =>
          members.map((member) =>
            change === "differs"
              ? [list, id, member.member, shortText(member.a), shortText(member.b)]
              : [
                list,
                id,
                member.member,
                change === "only in A" ? "present" : "absent",
                change === "only in B" ? "present" : "absent"
              ]
          )
        ))
      }`
    },
    end: (lists, isComplete) => isComplete ? `${["", ...lists.map(listText)].join("\n")}\n` : "",
    omittedColumns: () => [...totals.omittedColumns(), ...records.omittedColumns()]
  }
}

const nullText = (text: string | null): string => text ?? "NULL"
const signed = (number: bigint): string => number > 0n ? `+${number}` : String(number)
const shortText = (text: string | undefined): string =>
  text === undefined ? "(absent)" : text.length > 10 * maxText ? `${text.slice(0, 10 * maxText)}…` : text

const listText = (compared: ComparedList): string => {
  const { a, b, differing, list, onlyA, onlyB, totalsDiffer } = compared
  if (isEqual(compared)) return `${list}: equal, ${count.format(a)} records`
  const parts = [
    ...(differing === 0 ? [] : [`${count.format(differing)} differ`]),
    ...(onlyA === 0 ? [] : [`${count.format(onlyA)} only in A`]),
    ...(onlyB === 0 ? [] : [`${count.format(onlyB)} only in B`]),
    ...(differing + onlyA + onlyB === 0 && totalsDiffer ? [alteredText] : [])
  ]
  return `${list}: ${parts.join(", ")} (A has ${count.format(a)} records, B has ${count.format(b)})`
}

/** The totals come from columns, and records are compared by the hashes of their texts. */
const alteredText = "the totals differ but no record does, so another program has changed columns: run payments verify"

/** A JSON object from names and the JSON texts of their values. A member without a value is omitted. */
const objectOf = (members: { readonly [name: string]: string | undefined }): string =>
  `{${
    Object.entries(members).flatMap(([name, text]) => text === undefined ? [] : [`${JSON.stringify(name)}:${text}`])
      .join(
        ","
      )
  }}`

const totalMembers = ({ a, b, day, figure, list, status }: TotalDifference) => ({
  list: JSON.stringify(list),
  day: JSON.stringify(day),
  status: JSON.stringify(status),
  figure: JSON.stringify(figure),
  a: String(a),
  b: String(b)
})

const recordMembers = (
  { change, id, list }: RecordDifference,
  { a, b, member }: MemberDifference
) => ({
  list: JSON.stringify(list),
  id: JSON.stringify(id),
  change: JSON.stringify(change),
  member: JSON.stringify(member),
  a,
  b
})

const listMembers = (compared: ComparedList) => ({
  list: JSON.stringify(compared.list),
  equal: String(isEqual(compared)),
  recordsA: String(compared.a),
  recordsB: String(compared.b),
  onlyA: String(compared.onlyA),
  onlyB: String(compared.onlyB),
  differing: String(compared.differing)
})

const sideMembers = ({ at, destination }: Side): string =>
  objectOf({ destination: JSON.stringify(destination), at: at === undefined ? undefined : String(at) })

const none = () => []

const ndjson = (toOutput: (text: string) => string): DiffFormatter => {
  const line = (type: string, members: { readonly [name: string]: string | undefined }) =>
    `${toOutput(objectOf({ type: JSON.stringify(type), ...members }))}\n`
  return {
    head: () => "",
    totals: (rows) => rows.map((row) => line("total", totalMembers(row))).join(""),
    records: (rows) =>
      rows.map((row) => row.members.map((member) => line("record", recordMembers(row, member))).join("")).join(""),
    end: (lists, isComplete) => isComplete ? lists.map((list) => line("list", listMembers(list))).join("") : "",
    omittedColumns: none
  }
}

const json = (toOutput: (text: string) => string): DiffFormatter => {
  let part: "totals" | "records" = "totals"
  let isFirst = true
  const item = (members: { readonly [name: string]: string | undefined }) => {
    const separator = isFirst ? "\n" : ",\n"
    isFirst = false
    return `${separator}${toOutput(objectOf(members))}`
  }
  const startRecords = () => {
    if (part === "records") return ""
    part = "records"
    isFirst = true
    return `\n],"records":[`
  }
  return {
    head: (a, b) => `{"a":${toOutput(sideMembers(a))},"b":${toOutput(sideMembers(b))},"totals":[`,
    totals: (rows) => rows.map((row) => item(totalMembers(row))).join(""),
    records: (rows) =>
      `${startRecords()}${
        rows.map((row) => row.members.map((member) => item(recordMembers(row, member))).join("")).join("")
      }`,
    end: (lists, isComplete) => {
      const start = startRecords()
      isFirst = true
      const items = lists.map((list) => item(listMembers(list))).join("")
      // Whether an unfinished comparison found no difference says nothing.
      const equal = isComplete ? `,"equal":${lists.every(isEqual)}` : ""
      return `${start}\n],"lists":[${items}\n]${equal},"complete":${isComplete}}\n`
    },
    omittedColumns: none
  }
}

const csv = (
  text: (rows: ReadonlyArray<ReadonlyArray<string | null>>) => string,
  escaped: (text: string) => string
): DiffFormatter => ({
  head: () => text([["type", "list", "day", "status", "figure", "id", "change", "member", "a", "b"]]),
  totals: (rows) =>
    text(rows.map(({ a, b, day, figure, list, status }) => [
      "total",
      list,
      day === null ? null : escaped(day),
      status === null ? null : escaped(status),
      figure,
      null,
      null,
      null,
      String(a),
      String(b)
    ])),
  records: (rows) =>
    text(
      rows.flatMap(({ change, id, list, members }) =>
        members.map((
          { a, b, member }
        ) => ["record", list, null, null, null, escaped(id), change, escaped(member), a ?? null, b ?? null])
      )
    ),
  end: () => "",
  omittedColumns: none
})
