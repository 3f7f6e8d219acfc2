/**
 * Prints a comparison: the totals that differ, then the records, then the counts of each list. `table` is for people. In
 * `ndjson` and `csv` each row says what it is; `json` is one document. The texts of members are exact.
 */
import {
  type ListComparison,
  type MemberDifference,
  printable,
  type RecordDifference,
  type TotalDifference
} from "@payments/copy"
import { grouped } from "@payments/program"
import { Effect } from "effect"
import type { RowFormat } from "./RowsOutput.ts"
import type { TableStyle } from "./Table.ts"
import type * as TextWidth from "./TextWidth.ts"

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
  /** The generation of {@link at}. */
  readonly generation?: string | undefined
}

/** Formats the parts of a comparison as text. */
export interface DiffFormatter {
  readonly head: (a: Side, b: Side) => string
  readonly totals: (totals: ReadonlyArray<TotalDifference>) => string
  readonly records: (records: ReadonlyArray<RecordDifference>) => string
  /** `isComplete`: whether everything was compared and printed. */
  readonly end: (lists: ReadonlyArray<ComparedList>, isComplete: boolean) => string
}

/** Makes the formatter. */
export const makeDiffFormatter = (
  format: RowFormat,
  width: number,
  style: TableStyle
): Effect.Effect<DiffFormatter> => {
  const toOutput = style.onTerminal ? printable : (text: string) => text
  switch (format) {
    case "table":
      return Effect.map(
        Effect.promise(() => import("./TextWidth.ts")),
        (module) => blocks(module, width, style.onTerminal)
      )
    case "csv":
      return Effect.map(
        Effect.promise(() => import("@payments/copy/csv")),
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

const sideText = ({ at, destination }: Side): string =>
  at === undefined ? destination : `${destination} after change ${at}`

const isEqual = ({ differing, onlyA, onlyB, totalsDiffer }: ComparedList): boolean =>
  differing + onlyA + onlyB === 0 && !totalsDiffer

/** Formats the comparison as blocks of lines: one for each day and status, and one for each record. Nothing is shortened. */
const blocks = ({ widthOf, wrapTo }: typeof TextWidth, width: number, onTerminal: boolean): DiffFormatter => {
  /** Formats changed texts under a heading, each on one line, or if they are long on two or more. */
  const block = (
    heading: string,
    lines: ReadonlyArray<readonly [name: string, from: string, to: string]>
  ): string => {
    const names = lines.map(([name]) => printable(name))
    const indent = Math.min(longestName, Math.max(0, ...names.map((name) => widthOf(name)))) + 4
    return [
      printable(heading),
      ...lines.flatMap(([, from, to], index) => {
        const name = `  ${names[index] ?? ""}`
        const start = `${name}${" ".repeat(Math.max(2, indent - widthOf(name)))}`
        const room = Math.max(10, width - widthOf(start))
        const [old, arrow] = [printable(from), `→ ${printable(to)}`]
        const [first = "", ...more] = widthOf(`${old} ${arrow}`) <= room
          ? [`${old} ${arrow}`]
          : [...wrapTo(old, room), ...wrapTo(arrow, room)]
        return [`${start}${first}`, ...more.map((part) => `${" ".repeat(widthOf(start))}${part}`)]
      }),
      ""
    ].join("\n")
  }
  const digits = (number: bigint): string => onTerminal ? grouped(number) : String(number)
  let hasTotals = false
  let hasRecords = false
  return {
    head: (a, b) => `A: ${printable(sideText(a))}\nB: ${printable(sideText(b))}\n`,
    totals: (rows) => {
      if (rows.length === 0) return ""
      const heading = hasTotals ? "" : "\nTotals that differ, A → B:\n"
      hasTotals = true
      const groups = Map.groupBy(rows, ({ day, list, status }) => `${list}  ${day ?? "NULL"}  ${status ?? "NULL"}`)
      return `${heading}${
        Array.from(groups, ([group, figures]) =>
          block(
            group,
            figures.map(({ a, b, figure }) => [
              figure,
              digits(a),
              `${digits(b)} (${b > a ? "+" : ""}${digits(b - a)})`
            ])
          )).join("")
      }`
    },
    records: (rows) => {
      if (rows.length === 0) return ""
      const equalTotals = hasTotals ? "" : "\nAll totals by day and status are equal.\n"
      const heading = hasRecords ? "" : `${equalTotals}\nRecords that differ, A → B:\n`
      hasRecords = true
      return `${heading}${
        rows.map(({ change, id, list, members }) =>
          change === "differs"
            ? block(
              `${list}  ${id}`,
              members.map(({ a, b, member }) => [member, a ?? "(absent)", b ?? "(absent)"])
            )
            : block(`${list}  ${id}  ${change}`, [])
        ).join("")
      }`
    },
    end: (lists, isComplete) => isComplete ? `${["", ...lists.map(listText)].join("\n")}\n` : ""
  }
}

/** A longer name does not move the texts of the other lines to the right. */
const longestName = 24

const listText = (compared: ComparedList): string => {
  const { a, b, differing, list, onlyA, onlyB, totalsDiffer } = compared
  if (isEqual(compared)) return `${list}: equal, ${grouped(a)} records`
  const parts = [
    ...(differing === 0 ? [] : [`${grouped(differing)} differ${differing === 1 ? "s" : ""}`]),
    ...(onlyA === 0 ? [] : [`${grouped(onlyA)} only in A`]),
    ...(onlyB === 0 ? [] : [`${grouped(onlyB)} only in B`]),
    ...(differing + onlyA + onlyB === 0 && totalsDiffer ? [alteredText] : [])
  ]
  return `${list}: ${parts.join(", ")} (A has ${grouped(a)} records, B has ${grouped(b)})`
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

const sideMembers = ({ at, destination, generation }: Side): string =>
  objectOf({
    destination: JSON.stringify(destination),
    at: at === undefined ? undefined : String(at),
    generation: at === undefined || generation === undefined ? undefined : JSON.stringify(generation)
  })

const ndjson = (toOutput: (text: string) => string): DiffFormatter => {
  const line = (type: string, members: { readonly [name: string]: string | undefined }) =>
    `${toOutput(objectOf({ type: JSON.stringify(type), ...members }))}\n`
  return {
    head: () => "",
    totals: (rows) => rows.map((row) => line("total", totalMembers(row))).join(""),
    records: (rows) =>
      rows.map((row) => row.members.map((member) => line("record", recordMembers(row, member))).join("")).join(""),
    end: (lists, isComplete) => isComplete ? lists.map((list) => line("list", listMembers(list))).join("") : ""
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
    }
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
  end: () => ""
})
