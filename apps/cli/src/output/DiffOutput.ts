/**
 * Prints a comparison: the totals that differ, then the records, then the counts of each list. `table` is for people. In
 * `ndjson` and `csv` each row says what it is; `json` is one document. The texts of members are exact.
 */
import { type Cell, type ListComparison, printable, type RecordDifference, type TotalDifference } from "@payments/copy"
import { contract, counted, grouped } from "@payments/program"
import { Effect } from "effect"
import { outputs } from "../contract/Outputs.ts"
import { jsonText, type Look, makeRowWriter, numberCell, type RowWriter, type Shape, shownAs } from "./Rows.ts"
import type * as TextWidth from "./TextWidth.ts"

export interface ComparedList extends ListComparison {
  readonly list: string
  readonly totalsDiffer: boolean
}

export interface Side {
  readonly destination: string
  /** The change after which the rows are compared; undefined for the rows as they are. */
  readonly at: number | undefined
  /** The generation of {@link at}. */
  readonly generation?: string | undefined
}

export interface DiffFormatter {
  readonly head: (a: Side, b: Side) => string
  readonly totals: (totals: ReadonlyArray<TotalDifference>) => string
  readonly records: (records: ReadonlyArray<RecordDifference>) => string
  /** `isComplete`: whether everything was compared and printed. */
  readonly end: (lists: ReadonlyArray<ComparedList>, isComplete: boolean) => string
}

export const makeDiffFormatter = (look: Look): Effect.Effect<DiffFormatter> => {
  if (look.format === "json") return Effect.succeed(json(shownAs(look)))
  return look.format === "table"
    ? Effect.map(
      Effect.promise(() => import("./TextWidth.ts")),
      (module) => blocks(module, look.width, look.style.onTerminal)
    )
    : Effect.map(makeRowWriter(diffShape, look), (writer) => rowByRow(writer, look.format === "ndjson"))
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
  if (isEqual(compared)) return `${list}: equal, ${counted(a, "record")}`
  const parts = [
    ...(differing === 0 ? [] : [`${grouped(differing)} differ${differing === 1 ? "s" : ""}`]),
    ...(onlyA === 0 ? [] : [`${grouped(onlyA)} only in A`]),
    ...(onlyB === 0 ? [] : [`${grouped(onlyB)} only in B`]),
    ...(differing + onlyA + onlyB === 0 && totalsDiffer ? [alteredText] : [])
  ]
  return `${list}: ${parts.join(", ")} (A has ${counted(a, "record")}, B has ${grouped(b)})`
}

/** The totals come from columns, and records are compared by the hashes of their texts. */
const alteredText = "the totals differ but no record does, so another program has changed columns: run payments verify"

/** The members of a row, as cells. A member that is undefined is absent. */
interface Members {
  readonly [name: string]: Cell | undefined
}

const jsonOf = (members: Members): string =>
  `{${
    Object.entries(members).flatMap(([name, cell]) =>
      cell === undefined ? [] : [`${JSON.stringify(name)}:${jsonText(cell)}`]
    ).join(",")
  }}`

const totalMembers = ({ a, b, day, figure, list, status }: TotalDifference): Members => ({
  list,
  day,
  status,
  figure,
  a: { json: String(a) },
  b: { json: String(b) }
})

const recordMembers = ({ change, id, list, members }: RecordDifference): ReadonlyArray<Members> =>
  members.map(({ a, b, member }) => ({
    list,
    id,
    change,
    member,
    a: a === undefined ? undefined : { json: a },
    b: b === undefined ? undefined : { json: b }
  }))

const listMembers = (compared: ComparedList): Members => ({
  list: compared.list,
  equal: { json: String(isEqual(compared)) },
  recordsA: numberCell(compared.a),
  recordsB: numberCell(compared.b),
  onlyA: numberCell(compared.onlyA),
  onlyB: numberCell(compared.onlyB),
  differing: numberCell(compared.differing)
})

const sideMembers = ({ at, destination, generation }: Side): Members => ({
  destination,
  at: at === undefined ? undefined : numberCell(at),
  generation: at === undefined ? undefined : generation
})

const csvColumns = ["type", "list", "day", "status", "figure", "id", "change", "member", "a", "b"]

const diffShape: Shape<Members> = {
  columns: csvColumns.map((name) => ({ name })),
  cells: (members) => csvColumns.map((name) => members[name] ?? null),
  json: jsonOf,
  output: outputs.diff
}

/** Formats each difference as a row that says what it is. CSV lacks the counts of the lists, which are other columns. */
const rowByRow = (writer: RowWriter<Members>, hasLists: boolean): DiffFormatter => {
  const rows = (type: string, members: ReadonlyArray<Members>) => writer.rows(members.map((row) => ({ type, ...row })))
  return {
    head: () => writer.rows([]),
    totals: (totals) => rows("total", totals.map(totalMembers)),
    records: (records) => rows("record", records.flatMap(recordMembers)),
    end: (lists, isComplete) => isComplete && hasLists ? rows("list", lists.map(listMembers)) : ""
  }
}

const json = (toOutput: (text: string) => string): DiffFormatter => {
  let part: "totals" | "records" = "totals"
  let isFirst = true
  const items = (rows: ReadonlyArray<Members>): string =>
    rows.map((members) => {
      const separator = isFirst ? "\n" : ",\n"
      isFirst = false
      return `${separator}${toOutput(jsonOf(members))}`
    }).join("")
  const startRecords = () => {
    if (part === "records") return ""
    part = "records"
    isFirst = true
    return `\n],"records":[`
  }
  return {
    head: (a, b) => `{"a":${toOutput(jsonOf(sideMembers(a)))},"b":${toOutput(jsonOf(sideMembers(b)))},"totals":[`,
    totals: (rows) => items(rows.map(totalMembers)),
    records: (rows) => `${startRecords()}${items(rows.flatMap(recordMembers))}`,
    end: (lists, isComplete) => {
      const start = startRecords()
      isFirst = true
      // Whether an unfinished comparison found no difference says nothing.
      const equal = isComplete ? `,"equal":${lists.every(isEqual)}` : ""
      return `${start}\n],"lists":[${items(lists.map(listMembers))}\n]${equal},"complete":${isComplete},${
        contract.versionText(outputs.diff)
      }}\n`
    }
  }
}
