/**
 * The columns of a list's table, derived from the fields of its record (§2): snake case, embedded objects flattened, every
 * string a text column, amounts 64-bit integers. What the columns cannot hold is intact in `raw`.
 */
import { type Lists, membersOf } from "@payments/core"
import { type SchemaAST, String } from "effect"

/** One typed column. */
export interface Column {
  readonly name: string
  readonly kind: "text" | "integer" | "boolean"
  /** The field, and the field inside it for an embedded object. */
  readonly path: readonly [string] | readonly [string, string]
}

/** A column of a list's table, as the destination has recorded it. */
export interface RecordedColumn {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly name: string
  /** The kind of a {@link Column}, or one that only a later program knows. */
  readonly kind: string
  /** Rows from this number on lack the column's value; undefined where every row has it. */
  readonly unfilledFrom: number | undefined
}

/** The table of a list. */
export const tableOf = (list: Lists.AnyList): string => String.camelToSnake(list.name)

/** What a column holds. */
export type Cell = string | number | null

/** How the records of a list become rows. */
export interface Layout {
  readonly table: string
  /** All of them, `id` first. */
  readonly columns: ReadonlyArray<Column>
  readonly amounts: ReadonlyArray<Column>
  /** The paths of a record's fields that the document does not show; those that do not look like names as `(other)`. */
  readonly undocumentedIn: (record: unknown) => ReadonlyArray<string>
}

const layouts = new Map<Lists.AnyList, Layout>()

/** The layout of a list. */
export const layoutOf = (list: Lists.AnyList): Layout => {
  const known = layouts.get(list)
  if (known !== undefined) return known
  const columns = columnsOf(list)
  const layout: Layout = {
    table: tableOf(list),
    columns,
    amounts: columns.filter(({ kind }) => kind === "integer"),
    undocumentedIn: strangersTo(columns)
  }
  layouts.set(list, layout)
  return layout
}

const strangersTo = (columns: ReadonlyArray<Column>) => {
  const fields = new Map<string, Set<string> | undefined>()
  for (const { path: [field, inner] } of columns) {
    const inners = fields.get(field)
    fields.set(field, inner === undefined ? undefined : (inners ?? new Set()).add(inner))
  }
  const nameOf = (field: string) => /^[A-Za-z_]\w{0,63}$/.test(field) ? field : "(other)"
  return (record: unknown): ReadonlyArray<string> => {
    let strangers: Set<string> | undefined
    if (typeof record !== "object" || record === null) return none
    for (const field in record) {
      const inners = fields.get(field)
      if (inners === undefined) {
        if (!fields.has(field)) (strangers ??= new Set()).add(nameOf(field))
        continue
      }
      const value = memberOf(record, field)
      if (typeof value !== "object" || value === null) continue
      for (const inner in value) {
        if (!inners.has(inner)) (strangers ??= new Set()).add(`${field}.${nameOf(inner)}`)
      }
    }
    return strangers === undefined ? none : [...strangers]
  }
}

const none: ReadonlyArray<string> = []

/** The columns of a list, `id` first, in the document's order. */
export const columnsOf = (list: Lists.AnyList): ReadonlyArray<Column> =>
  fieldsOf(list.record.ast).flatMap(([field, ast]): ReadonlyArray<Column> => {
    const name = String.camelToSnake(field)
    return ast._tag === "Objects"
      ? fieldsOf(ast).map(([inner, innerAst]) => ({
        name: `${name}_${String.camelToSnake(inner)}`,
        kind: kindOf(innerAst),
        path: [field, inner] as const
      }))
      : [{ name, kind: kindOf(ast), path: [field] as const }]
  })

/** What a column holds of a record: null where the field is absent, null or of another type. */
export const valueOf = (column: Column, record: unknown): Cell => cellOf(column.kind, fieldOf(column, record))

/** The cells of a record, in the order of the columns, and in how many a text is replaced because no column can hold it. */
export const cellsOf = (
  { columns }: Layout,
  record: unknown
): { readonly cells: ReadonlyArray<Cell>; readonly replaced: number } => {
  let replaced = 0
  const cells = columns.map((column) => {
    const value = fieldOf(column, record)
    const cell = cellOf(column.kind, value)
    if (typeof cell === "string" && cell !== value) replaced++
    return cell
  })
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

/** The values of a record's amount columns, in their order; NaN stands for null. */
export const amountsOf = ({ amounts }: Layout, record: unknown): ReadonlyArray<number> =>
  amounts.map((column) => {
    const value = valueOf(column, record)
    return typeof value === "number" ? value : Number.NaN
  })

/**
 * The record that columns and sums are taken from: without the amounts that parsing has rounded to an integer
 * (`9007199254740990.6`), which such a record was quarantined for. Its text must be given as it came.
 */
export const readable = ({ amounts }: Layout, record: unknown, text: string): unknown => {
  if (typeof record !== "object" || record === null || Array.isArray(record)) return record
  // Integers of up to 15 digits are what they look like.
  if (!/\d[.eE]|\d{16}/.test(text)) return record
  const members = membersOf(text)
  const rounded = amounts.map(({ path: [field] }) => field).filter((field) => {
    const value = memberOf(record, field)
    return typeof value === "number" && significant(`${value}`) !== significant(members.get(field) ?? "")
  })
  return rounded.length === 0 ? record : { ...record, ...Object.fromEntries(rounded.map((field) => [field, null])) }
}

/** The digits that tell a number from its neighbours: a rounded one has others than its source. */
const significant = (number: string): string => {
  const digits = number.replace(/[eE].*$/, "").replaceAll(/\D/g, "")
  let from = 0
  while (digits[from] === "0") from++
  // Not by a regular expression: it would begin anew at every zero inside.
  let to = digits.length
  while (to > from && digits[to - 1] === "0") to--
  return digits.slice(from, to)
}

const fieldOf = ({ path: [field, inner] }: Column, record: unknown): unknown => {
  const outer = memberOf(record, field)
  return inner === undefined ? outer : memberOf(outer, inner)
}

/** Text that every destination can hold: not every database takes NUL, and half a surrogate pair has no UTF-8 form. */
const storable = (text: string): string =>
  text.isWellFormed() && !text.includes("\0") ? text : text.toWellFormed().replaceAll("\0", "\ufffd")

/** Parsed JSON has no getters, and no documented field is named like a member that every object has. */
const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as { readonly [name: string]: unknown })[name] : undefined

/** The fields of a struct, without the null that each may also be. */
const fieldsOf = (ast: SchemaAST.AST): ReadonlyArray<readonly [string, SchemaAST.AST]> =>
  ast._tag === "Objects"
    ? ast.propertySignatures.map(({ name, type }) => [globalThis.String(name), withoutNull(type)] as const)
    : []

const withoutNull = (ast: SchemaAST.AST): SchemaAST.AST =>
  ast._tag === "Union" ? ast.types.find(({ _tag }) => _tag !== "Null") ?? ast : ast

const kindOf = (ast: SchemaAST.AST): Column["kind"] =>
  ast._tag === "Number" ? "integer" : ast._tag === "Boolean" ? "boolean" : "text"
