/** What a listing has read and printed, as a value. {@link takePage} gives the value after a page, and does nothing else. */
import type { FieldPath } from "@payments/copy"
import { isJsonObject } from "@payments/core"
import { fieldReader } from "../output/PrintedRecord.ts"
import type { ListedRecord } from "./ListedRecords.ts"
import { type Condition, meets } from "./Where.ts"

export interface ListingState {
  /** Pages read, including empty ones. */
  readonly pages: number
  /** Records read, without those that an earlier run has printed. */
  readonly read: number
  /** The records of `read` that meet the conditions. */
  readonly selected: number
  /** The cursor of the next page, or of a page that was printed in part; null at the start and at the end. */
  readonly cursor: string | null
  /** Keys of the records of that page that were printed. */
  readonly printedOfPage: ReadonlyArray<string>
  readonly done: boolean
  /** Whether the service no longer accepts the cursor, so that only a new listing can continue. */
  readonly isRefused: boolean
  /** Selected records that do not match the document. */
  readonly bad: number
  /** The number of the first of them, and its problem. */
  readonly firstBad: readonly [number: number, problem: string]
  /** Paths of undocumented fields that CSV does not show, with the number of their records. */
  readonly hidden: ReadonlyMap<string, number>
  /** The undocumented fields of `--fields` that no record has had so far. */
  readonly unseen: ReadonlySet<FieldPath>
}

export const startState = (
  { cursor, printedOfPage, unseen }: Pick<ListingState, "cursor" | "printedOfPage" | "unseen">
): ListingState => ({
  pages: 0,
  read: 0,
  selected: 0,
  cursor,
  printedOfPage,
  done: false,
  isRefused: false,
  bad: 0,
  firstBad: [0, ""],
  hidden: new Map(),
  unseen
})

export interface PageRules {
  readonly conditions: ReadonlyArray<Condition>
  readonly max: number | undefined
  /** The documented paths, and whether they are objects, if only those fields have a column. */
  readonly documented: ReadonlyMap<string, boolean> | undefined
}

interface ListedPage {
  readonly records: ReadonlyArray<ListedRecord>
  readonly next: string | null
}

/** Returns the records of a page to print, and the state once they are printed. */
export const takePage = (
  state: ListingState,
  { next, records }: ListedPage,
  { conditions, documented, max }: PageRules
): { readonly selected: ReadonlyArray<ListedRecord>; readonly state: ListingState } => {
  const printed = new Set(state.printedOfPage)
  const unprinted = records.filter(({ key }) => !printed.has(key))
  const read = max === undefined ? unprinted : unprinted.slice(0, max - state.read)
  const selected = conditions.length === 0 ? read : read.filter(({ text }) => {
    const field = fieldReader(text)
    return conditions.every((condition) => meets(condition, field))
  })
  const isPart = read.length < unprinted.length
  return {
    selected,
    state: {
      ...state,
      ...badAfter(state, read, selected),
      pages: state.pages + 1,
      read: state.read + read.length,
      selected: state.selected + selected.length,
      cursor: isPart ? state.cursor : next,
      printedOfPage: isPart ? [...state.printedOfPage, ...read.map(({ key }) => key)] : [],
      done: !isPart && next === null,
      hidden: documented === undefined ? state.hidden : hiddenAfter(state.hidden, documented, selected),
      unseen: unseenAfter(state.unseen, selected)
    }
  }
}

/** Counts the selected records that do not match the document. */
const badAfter = (
  { bad, firstBad, read: before }: ListingState,
  read: ReadonlyArray<ListedRecord>,
  selected: ReadonlyArray<ListedRecord>
): Pick<ListingState, "bad" | "firstBad"> => {
  const found = selected.filter(({ problem }) => problem !== undefined)
  const [first] = found
  return first?.problem === undefined || bad > 0
    ? { bad: bad + found.length, firstBad }
    : { bad: found.length, firstBad: [before + read.indexOf(first) + 1, first.problem] }
}

/** Counts the fields that have no column: undocumented ones, and those that should be objects but are not. */
const hiddenAfter = (
  hidden: ListingState["hidden"],
  documented: ReadonlyMap<string, boolean>,
  selected: ReadonlyArray<ListedRecord>
): ListingState["hidden"] => {
  const counts = new Map(hidden)
  const countIn = (value: unknown, parent: string): void => {
    if (!isJsonObject(value)) return
    for (const [name, inner] of Object.entries(value)) {
      const path = `${parent}${name}`
      const isObject = documented.get(path)
      if (isObject === true && isJsonObject(inner)) countIn(inner, `${path}.`)
      else if (isObject === undefined || (isObject && inner !== null)) counts.set(path, (counts.get(path) ?? 0) + 1)
    }
  }
  for (const { value } of selected) countIn(value, "")
  return counts
}

const unseenAfter = (
  unseen: ListingState["unseen"],
  selected: ReadonlyArray<ListedRecord>
): ListingState["unseen"] => {
  if (unseen.size === 0) return unseen
  const fields = selected.map(({ text }) => fieldReader(text))
  return new Set([...unseen].filter((path) => fields.every((field) => field(path) === undefined)))
}
