/** `--sort`: the order of the records that were read. Numbers are compared exactly. */
import { type FieldPath, readPath } from "@payments/copy"
import { compareNumbers, isNumber } from "@payments/core"
import { plainText, type ReadField } from "../output/PrintedRecord.ts"

export interface SortKey {
  readonly path: FieldPath
  readonly isDescending: boolean
}

/** Parses `FIELD,FIELD:desc`. Returns undefined if the text is anything else. */
export const parseSortKeys = (text: string): ReadonlyArray<SortKey> | undefined => {
  const keys: Array<SortKey> = []
  for (let at = 0;; at++) {
    const found = readPath(text, at)
    if (found === undefined) return undefined
    const [, direction] = /^:(asc|desc)\s*(?=,|$)/.exec(text.slice(found.end)) ?? []
    keys.push({ path: found.path, isDescending: direction === "desc" })
    at = direction === undefined ? found.end : nextComma(text, found.end)
    if (at === text.length) return keys
    if (text[at] !== ",") return undefined
  }
}

const nextComma = (text: string, from: number): number => {
  const at = text.indexOf(",", from)
  return at === -1 ? text.length : at
}

/** A value to sort by: its kind, and its text. */
export interface SortValue {
  readonly kind: number
  readonly text: string
}

/** The kinds of values in their order. Null and absent fields come last in both directions. */
const kinds = { number: 0, text: 1, other: 2, none: 3 } as const

/** Returns the value of a record for each key. The texts do not keep the record in memory. */
export const sortValues = (keys: ReadonlyArray<SortKey>, read: ReadField): ReadonlyArray<SortValue> =>
  keys.map(({ path }) => {
    const json = read(path)
    if (json === undefined || json === "null") return { kind: kinds.none, text: "" }
    return json.startsWith("\"")
      ? { kind: kinds.text, text: detached(plainText(json)) }
      : { kind: isNumber(json) ? kinds.number : kinds.other, text: detached(json) }
  })

/** Copies a text. A part of a longer text would keep the whole page in memory. */
export const detached = (text: string): string => Buffer.from(text, "utf16le").toString("utf16le")

/** Makes the order of records by their values for the keys. Equal records keep their order if the sort is stable. */
export const sortOrder =
  (keys: ReadonlyArray<SortKey>) => (left: ReadonlyArray<SortValue>, right: ReadonlyArray<SortValue>): number => {
    for (const [index, { isDescending }] of keys.entries()) {
      const [one, other] = [left[index], right[index]]
      if (one === undefined || other === undefined) continue
      const order = compareValues(one, other)
      if (order !== 0) {
        return isDescending && one.kind !== kinds.none && other.kind !== kinds.none ? -order : order
      }
    }
    return 0
  }

const compareValues = (one: SortValue, other: SortValue): number => {
  if (one.kind !== other.kind) return one.kind - other.kind
  return one.kind === kinds.number
    ? compareNumbers(one.text, other.text)
    : Number(one.text > other.text) - Number(one.text < other.text)
}
