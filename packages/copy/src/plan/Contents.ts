/**
 * What the records of a list look like: the values of its kinds and states, the steps from one status to the next, the fields
 * without a value, and the fields that changes change. A full scan continues with what the scan before it knew, so that it
 * can tell what is new. Values of other fields are never kept.
 */
import { isJsonObject, parseText } from "@payments/core"
import { Schema } from "effect"
import type { Drift, DriftName } from "../port/Drift.ts"
import { storedCode } from "../text/FieldNames.ts"
import type { Cell, Layout } from "./Columns.ts"

/** How many of the written records had each value, by subject. */
export interface Contents {
  readonly [subject: string]: { readonly [value: string]: number }
}

const isContents = (value: unknown): value is Contents =>
  isJsonObject(value) &&
  Object.values(value).every((counts) => isJsonObject(counts) && Object.values(counts).every(Number.isSafeInteger))

/** A schema of records would encode it entry by entry, for each commit. */
export const Contents = Schema.declare(isContents)

export const noContents: Contents = {}

/** The subjects other than the fields whose values are counted. No field has such a name. */
export const subjects = {
  scans: "(scans)",
  records: "(records)",
  steps: "(steps)",
  empty: "(empty)",
  changed: "(changed)"
}

/** More values of a field are counted together: a service may put any text there. */
const maxValues = 60
const otherValue = "(other)"

/** One lookup counts a value. */
type Counts = Map<string, { records: number }>

/** Counts the records of one plan. */
export class ContentCounts {
  readonly #layout: Layout
  readonly #values: ReadonlyArray<{ readonly index: number; readonly name: string; readonly counts: Counts }>
  readonly #empty: Array<number>
  readonly #steps: Counts = new Map()
  readonly #changed: Counts = new Map()
  #records = 0
  #updates = 0

  constructor(layout: Layout) {
    this.#layout = layout
    this.#values = layout.kinds.map((index) => ({ index, name: nameOf(layout, index), counts: new Map() }))
    this.#empty = layout.columns.map(() => 0)
  }

  /** Counts a row that is written, with a cell for each column. */
  addRow(cells: ReadonlyArray<Cell>): void {
    this.#records++
    for (const { counts, index } of this.#values) {
      const value = cells[index]
      if (typeof value !== "string") continue
      const counted = counts.get(value)
      // A value that was counted before has been looked at.
      if (counted === undefined) count(counts, storedCode(value))
      else counted.records++
    }
    for (let index = 0; index < this.#empty.length; index++) {
      if (cells[index] === null) this.#empty[index] = (this.#empty[index] ?? 0) + 1
    }
  }

  /** Counts the members that differ, and the step of the status. */
  addUpdate(fields: ReadonlyArray<string>, before: string | undefined, after: string): void {
    this.#updates++
    for (const field of fields) if (this.#layout.members.has(field)) count(this.#changed, field)
    if (!fields.includes("status") || before === undefined) return
    const [from, to] = [statusIn(before), statusIn(after)]
    if (from !== undefined && to !== undefined) count(this.#steps, `${from} → ${to}`)
  }

  /** Returns the contents with what was counted. */
  into(contents: Contents): Contents {
    if (this.#records === 0) return contents
    const { changed, empty, records, steps } = subjects
    const emptyFields: Counts = new Map(
      this.#empty.flatMap((number, index) => number === 0 ? [] : [[nameOf(this.#layout, index), { records: number }]])
    )
    const added: ReadonlyArray<readonly [string, Counts]> = [
      [records, new Map([["written", { records: this.#records }], ["changed", { records: this.#updates }]])],
      [empty, emptyFields],
      [steps, this.#steps],
      [changed, this.#changed],
      ...this.#values.map(({ counts, name }) => [name, counts] as const)
    ]
    return { ...contents, ...Object.fromEntries(added.map(([name, counts]) => [name, sum(contents[name], counts)])) }
  }
}

const nameOf = ({ columns }: Layout, index: number): string => columns[index]?.path.join(".") ?? ""

const statusIn = (text: string): string | undefined => {
  const record: unknown = parseText(text)
  const status = typeof record === "object" && record !== null && "status" in record ? record.status : undefined
  return typeof status === "string" ? storedCode(status) : undefined
}

const count = (counts: Counts, name: string): void => {
  const counted = counts.get(name)
  if (counted === undefined) counts.set(name, { records: 1 })
  else counted.records++
}

const sum = (before: Contents[string] = {}, added: Counts): Contents[string] => {
  if (added.size === 0) return before
  const counts = new Map(Object.entries(before))
  for (const [value, { records }] of added) {
    const name = counts.has(value) || counts.size < maxValues ? value : otherValue
    counts.set(name, (counts.get(name) ?? 0) + records)
  }
  return Object.fromEntries(counts)
}

/** Returns what either of both knows. */
export const merged = (one: Contents, other: Contents): Contents =>
  Object.fromEntries(
    [...new Set([...Object.keys(one), ...Object.keys(other)])].map((name) => {
      const [left = {}, right = {}] = [one[name], other[name]]
      const values = [...new Set([...Object.keys(left), ...Object.keys(right)])]
      return [name, Object.fromEntries(values.map((value) => [value, Math.max(left[value] ?? 0, right[value] ?? 0)]))]
    })
  )

/** Counts a complete scan of the whole list. */
export const afterScan = (contents: Contents): Contents => ({
  ...contents,
  [subjects.scans]: sum(contents[subjects.scans], new Map([["complete", { records: 1 }]]))
})

/** So many complete scans show nothing as new. */
const silentScans = 2
/** What is rare could have been absent by chance: so many records must show it, and this many times as often as chance would. */
const [leastRecords, leastRatio] = [5, 30]

/** Returns what `after` has and `before` has not. `before` is what was known when the scan or pass began. */
export const driftOf = (before: Contents, after: Contents): ReadonlyArray<Drift> => {
  if ((before[subjects.scans]?.["complete"] ?? 0) < silentScans) return []
  const total = (contents: Contents, of: "written" | "changed") => contents[subjects.records]?.[of] ?? 0
  const newIn = (subject: string) =>
    Object.entries(after[subject] ?? {}).flatMap(([value, records]) =>
      before[subject]?.[value] === undefined ? [{ value, records }] : []
    )
  /** Whether so many of the new records are too many for chance, if none of the earlier ones showed it. */
  const isUnlikely = (records: number, of: "written" | "changed") => {
    const earlier = total(before, of)
    return records >= leastRecords && records * earlier >= leastRatio * (total(after, of) - earlier)
  }
  const unlikely = (fact: DriftName, subject: string, of: "written" | "changed") =>
    newIn(subject).flatMap(({ records, value }) => isUnlikely(records, of) ? [{ fact, what: value, records }] : [])
  const values = Object.keys(after).filter((name) => !name.startsWith("(")).flatMap((name) =>
    Object.keys(before[name] ?? {}).length === 0
      ? []
      : newIn(name).map(({ records, value }): Drift => ({ fact: "new-value", what: `${name} ${value}`, records }))
  )
  return [
    ...values,
    ...unlikely("new-step", subjects.steps, "changed"),
    ...unlikely("new-gap", subjects.empty, "written"),
    ...unlikely("new-change", subjects.changed, "changed")
  ]
}
