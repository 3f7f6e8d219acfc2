/**
 * The columns of a list's table, derived from the fields of its record (§2): snake case, embedded objects flattened, every
 * string a text column, amounts 64-bit integers. What the columns cannot hold is intact in `raw`.
 */
import type { Lists } from "@payments/core"
import { type SchemaAST, String } from "effect"

/** One typed column. */
export interface Column {
  readonly name: string
  readonly kind: "text" | "integer" | "boolean"
  /** The field, and the field inside it for an embedded object. */
  readonly path: readonly [string] | readonly [string, string]
}

/** The table of a list. */
export const tableOf = (list: Lists.AnyList): string => String.camelToSnake(list.name)

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
export const valueOf = (column: Column, record: unknown): string | number | null => {
  const [field, inner] = column.path
  const outer = memberOf(record, field)
  const value = inner === undefined ? outer : memberOf(outer, inner)
  switch (column.kind) {
    case "text":
      return typeof value === "string" ? value : null
    case "integer":
      return typeof value === "number" && Number.isSafeInteger(value) ? value : null
    case "boolean":
      return typeof value === "boolean" ? Number(value) : null
  }
}

const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined

/** The fields of a struct, without the null that each may also be. */
const fieldsOf = (ast: SchemaAST.AST): ReadonlyArray<readonly [string, SchemaAST.AST]> =>
  ast._tag === "Objects"
    ? ast.propertySignatures.map(({ name, type }) => [globalThis.String(name), withoutNull(type)] as const)
    : []

const withoutNull = (ast: SchemaAST.AST): SchemaAST.AST =>
  ast._tag === "Union" ? ast.types.find(({ _tag }) => _tag !== "Null") ?? ast : ast

const kindOf = (ast: SchemaAST.AST): Column["kind"] =>
  ast._tag === "Number" ? "integer" : ast._tag === "Boolean" ? "boolean" : "text"
