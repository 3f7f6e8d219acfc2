/**
 * Derives the columns of a list's table from the fields of its record (§2). Names are in snake case, embedded objects are
 * flattened, strings are text columns, and amounts are 64-bit integers. The exact text in `raw` has everything that the
 * columns cannot store.
 */
import { compareNumbers, Lists, membersOf, parseText } from "@payments/core"
import { Function, String } from "effect"
import { storedName } from "../text/FieldNames.ts"

export interface Column {
  readonly name: string
  readonly kind: Lists.FieldMeaning["kind"]
  readonly path: Lists.FieldMeaning["path"]
  readonly meaning: Lists.FieldMeaning["meaning"]
}

export interface RecordedColumn {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly name: string
  /** The kind of a {@link Column}, or one that only a later program knows. */
  readonly kind: string
  /** Rows with this number or a higher one may lack the column's value. Undefined if every row has it. */
  readonly unfilledFrom: number | undefined
}

export const tableOf = (list: Lists.AnyList): string => String.camelToSnake(list.name)

export type Cell = string | number | null

/** The mapping of a list's records to rows. */
export interface Layout {
  readonly table: string
  /** `id` first. */
  readonly columns: ReadonlyArray<Column>
  readonly amounts: ReadonlyArray<Column>
  /** The indexes of the columns with kinds and states. */
  readonly kinds: ReadonlyArray<number>
  /** The documented members of a record. */
  readonly members: ReadonlySet<string>
  /** Returns the paths of a record's undocumented fields. A path that does not look like a name is replaced by `(other)`. */
  readonly undocumentedIn: (record: unknown) => ReadonlyArray<string>
}

export const layoutOf = Function.memoize((list: Lists.AnyList): Layout => {
  const columns = columnsOf(list)
  return {
    table: tableOf(list),
    columns,
    amounts: columns.filter(({ kind }) => kind === "integer"),
    kinds: Lists.fieldMeanings(list).flatMap(({ isKind }, index) => isKind ? [index] : []),
    members: new Set(columns.map(({ path: [member] }) => member)),
    undocumentedIn: undocumentedFields(columns)
  }
})

const undocumentedFields = (columns: ReadonlyArray<Column>) => {
  const fields = new Map<string, Set<string> | undefined>()
  for (const { path: [field, inner] } of columns) {
    const inners = fields.get(field)
    fields.set(field, inner === undefined ? undefined : (inners ?? new Set()).add(inner))
  }
  return (record: unknown): ReadonlyArray<string> => {
    let paths: Set<string> | undefined
    if (typeof record !== "object" || record === null) return none
    for (const field in record) {
      const inners = fields.get(field)
      if (inners === undefined) {
        if (!fields.has(field)) (paths ??= new Set()).add(storedName(field))
        continue
      }
      const value = memberOf(record, field)
      if (typeof value !== "object" || value === null) continue
      for (const inner in value) {
        if (!inners.has(inner)) (paths ??= new Set()).add(`${field}.${storedName(inner)}`)
      }
    }
    return paths === undefined ? none : [...paths]
  }
}

const none: ReadonlyArray<string> = []

/** In the document's order, `id` first. */
export const columnsOf = (list: Lists.AnyList): ReadonlyArray<Column> =>
  Lists.fieldMeanings(list).map(({ kind, meaning, path }) => ({
    name: path.map(String.camelToSnake).join("_"),
    kind,
    path,
    meaning
  }))

/** Returns null if the field is absent, null or of another type. */
export const valueOf = (column: Column, record: unknown): Cell => cellOf(column.kind, fieldOf(column, record))

/**
 * Returns the cells in the order of the columns, followed by `others`, and the number of cells with replaced characters.
 * Not every database can store all characters. One array has both, because a copy would double what each row allocates.
 */
export const cellsOf = (
  { columns }: Layout,
  record: unknown,
  others: ReadonlyArray<Cell>
): { readonly cells: ReadonlyArray<Cell>; readonly replaced: number } => {
  let replaced = 0
  // oxlint-disable-next-line unicorn/no-new-array -- `Array.from` takes 1 µs longer, and each row needs one
  const cells = new Array<Cell>(columns.length + others.length)
  columns.forEach((column, index) => {
    const value = fieldOf(column, record)
    const cell = cellOf(column.kind, value)
    if (typeof cell === "string" && cell !== value) replaced++
    cells[index] = cell
  })
  others.forEach((cell, index) => cells[columns.length + index] = cell)
  return { cells, replaced }
}

const cellOf = (kind: Column["kind"], value: unknown): Cell => {
  switch (kind) {
    case "text":
      return typeof value === "string" ? storable(value) : null
    case "integer":
      return typeof value === "number" && Number.isSafeInteger(value) ? value : null
    case "boolean":
      return typeof value === "boolean" ? Number(value) : null
  }
}

/** With NaN for null. */
export const amountsOf = ({ amounts }: Layout, record: unknown): ReadonlyArray<number> =>
  amounts.map((column) => {
    const value = valueOf(column, record)
    return typeof value === "number" ? value : Number.NaN
  })

/**
 * Returns the record for columns and sums. An amount that parsing has rounded to an integer (`9007199254740990.6`) is
 * null in it. A record with such an amount does not decode, so it is quarantined. `text` is the record's exact text.
 */
export const withoutRoundedAmounts = ({ amounts }: Layout, record: unknown, text: string): unknown => {
  if (typeof record !== "object" || record === null || Array.isArray(record)) return record
  // Parsing does not round integers of up to 15 digits. Other numbers, as members, are rare; times in strings are not.
  if (!/:\s*-?(?:\d{16}|\d+[.eE][\d.eE+-]*\s*[,}])/.test(text)) return record
  const members = membersOf(text)
  const rounded = amounts.map(({ path: [field] }) => field).filter((field) => {
    const value = memberOf(record, field)
    return typeof value === "number" && compareNumbers(`${value}`, members.get(field) ?? "") !== 0
  })
  return rounded.length === 0 ? record : { ...record, ...Object.fromEntries(rounded.map((field) => [field, null])) }
}

/** Parses a row's text for columns and sums. Returns undefined if another program has altered it and it is not JSON. */
export const recordIn = (layout: Layout, text: string): unknown => {
  try {
    return withoutRoundedAmounts(layout, parseText(text), text)
  } catch {
    return undefined
  }
}

const fieldOf = ({ path: [field, inner] }: Column, record: unknown): unknown => {
  const outer = memberOf(record, field)
  return inner === undefined ? outer : memberOf(outer, inner)
}

/** Returns text that every database can store. NUL is not valid in every database, and a lone surrogate has no UTF-8 form. */
export const storable = (text: string): string =>
  text.isWellFormed() && !text.includes("\0") ? text : text.toWellFormed().replaceAll("\0", "\ufffd")

/** Reads a member. Parsed JSON has no getters, and no documented field has the name of a member of `Object.prototype`. */
const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as { readonly [name: string]: unknown })[name] : undefined
