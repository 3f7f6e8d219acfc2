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
import { millisBetween, stepBetween } from "./Instants.ts"

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
  changed: "(changed)",
  late: "(late)",
  open: "(open)"
}

/** How long before the last complete scan a record was created that this scan did not return. */
const delays = [["up to 1 min", 60_000], ["up to 1 h", 3_600_000], ["up to 1 day", 86_400_000]] as const
const longestDelay = "more than 1 day"

/** More values of a field are counted together: a service may put any text there. */
const maxValues = 60
export const otherValue = "(other)"

/** One lookup counts a value. */
type Counts = Map<string, { records: number }>

/** Counts the records of one plan. */
export class ContentCounts {
  readonly #layout: Layout
  readonly #values: ReadonlyArray<{ readonly index: number; readonly name: string; readonly counts: Counts }>
  readonly #empty: Array<number>
  readonly #steps: Counts = new Map()
  readonly #changed: Counts = new Map()
  readonly #late: Counts = new Map()
  readonly #created: number
  readonly #since: string | undefined
  #records = 0
  #updates = 0
  #appeared = 0

  /** `since` is when the last complete scan began, if there is one. */
  constructor(layout: Layout, since: string | undefined) {
    this.#layout = layout
    this.#since = since
    this.#created = since === undefined ? -1 : layout.columns.findIndex(({ path }) => path.join(".") === "createdAt")
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

  /** Counts a row that no earlier scan has returned. */
  addInsert(cells: ReadonlyArray<Cell>): void {
    const created = cells[this.#created]
    if (this.#since === undefined || typeof created !== "string") return
    const step = stepBetween(created, this.#since)
    if (step === undefined) return
    this.#appeared++
    if (step <= 0) return
    const early = millisBetween(created, this.#since) ?? 0
    count(this.#late, delays.find(([, ms]) => early <= ms)?.[0] ?? longestDelay)
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
    const { changed, empty, late, records, steps } = subjects
    const emptyFields: Counts = new Map(
      this.#empty.flatMap((number, index) => number === 0 ? [] : [[nameOf(this.#layout, index), { records: number }]])
    )
    const added: ReadonlyArray<readonly [string, Counts]> = [
      [
        records,
        new Map([
          ["written", { records: this.#records }],
          ["changed", { records: this.#updates }],
          ["appeared", { records: this.#appeared }]
        ])
      ],
      [empty, emptyFields],
      [steps, this.#steps],
      [changed, this.#changed],
      [late, this.#late],
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

/** A status may be the name of a member that every object inherits, such as `constructor`. */
const countIn = (contents: Contents, subject: string, value: string): number | undefined => {
  const counts = Object.hasOwn(contents, subject) ? contents[subject] : undefined
  return counts !== undefined && Object.hasOwn(counts, value) ? counts[value] : undefined
}

/** Returns what either of both knows. */
export const merged = (one: Contents, other: Contents): Contents =>
  Object.fromEntries(
    [...new Set([...Object.keys(one), ...Object.keys(other)])].map((subject) => {
      const values = new Set([...Object.keys(one[subject] ?? {}), ...Object.keys(other[subject] ?? {})])
      return [
        subject,
        Object.fromEntries([...values].map((value) => {
          const [left, right] = [countIn(one, subject, value), countIn(other, subject, value)]
          // What one of them has settled is settled.
          const isSettled = subject === subjects.open && (left === settled || right === settled)
          return [value, isSettled ? settled : Math.max(left ?? 0, right ?? 0)]
        }))
      ]
    })
  )

/** Counts a complete scan of the whole list. */
export const afterScan = (contents: Contents): Contents => ({
  ...contents,
  [subjects.scans]: sum(contents[subjects.scans], new Map([["complete", { records: 1 }]]))
})

/** So many complete scans show nothing as new. */
const silentScans = 2
/** What is rare could have been absent by chance: so many records must show it, and chance must be less likely than this. */
const [leastRecords, mostLikely] = [5, 1e-7]
/** What was named, or is too frequent among the records since to be new. */
const settled = 0

/** What can be new by chance: its subject, and what it is counted among. */
const byChance = [
  { fact: "new-step", subject: subjects.steps, among: "changed" },
  { fact: "new-gap", subject: subjects.empty, among: "written" },
  { fact: "new-change", subject: subjects.changed, among: "changed" },
  { fact: "new-delay", subject: subjects.late, among: "appeared" }
] as const satisfies ReadonlyArray<{ readonly fact: DriftName; readonly subject: string; readonly among: string }>

/**
 * Whether chance hardly explains that all the records that show something are among the `later` ones: each would be there with the
 * same probability.
 */
export const exceedsChance = (records: number, earlier: number, later: number): boolean =>
  records >= leastRecords && (later / (earlier + later)) ** records <= mostLikely

export interface Concluded {
  readonly drift: ReadonlyArray<Drift>
  /** With what is new, but not named yet because too few records show it. */
  readonly contents: Contents
}

/** Names what `after` has and `before` has not. `before` is what was known, and named, when the scan or pass began. */
export const conclude = (before: Contents, after: Contents): Concluded => {
  if ((countIn(before, subjects.scans, "complete") ?? 0) < silentScans) return { drift: [], contents: after }
  const drift: Array<Drift> = []
  for (const [field, values] of Object.entries(after)) {
    if (field.startsWith("(") || Object.keys(before[field] ?? {}).length === 0) continue
    for (const [value, records] of Object.entries(values)) {
      if (countIn(before, field, value) !== undefined) continue
      drift.push({ fact: "new-value", what: `${field} ${value}`, records })
    }
  }
  const open = new Map(Object.entries(after[subjects.open] ?? {}))
  for (const { among, fact, subject } of byChance) {
    const total = countIn(after, subjects.records, among) ?? 0
    for (const [what, records] of Object.entries(after[subject] ?? {})) {
      const key = `${fact} ${what}`
      // Undefined: it is known from the silent scans. Otherwise the number of records before the first that showed it.
      const earlier = countIn(before, subject, what) === undefined
        ? countIn(before, subjects.records, among) ?? 0
        : open.get(key)
      if (earlier === undefined || open.get(key) === settled) continue
      open.set(key, records < leastRecords ? earlier : settled)
      if (exceedsChance(records, earlier, total - earlier)) {
        drift.push({ fact, what, records })
      }
    }
  }
  return { drift, contents: open.size === 0 ? after : { ...after, [subjects.open]: Object.fromEntries(open) } }
}
