/**
 * `Schema.is` for values from `JSON.parse`, several times faster. These values are plain: they have no getters, no
 * inherited fields and nothing undefined. Most fields of a record are a string or null, which this check compares
 * directly. The check is built from the schema, so a new field needs no change here. It calls `Schema.is` for all types
 * that it does not know, and generates no code.
 */
import { Schema, SchemaAST } from "effect"

/** Returns a check of values parsed from JSON against the schema. It ignores undocumented fields. */
export const recordCheck = (schema: Schema.Struct<Schema.Struct.Fields>): (value: unknown) => boolean => {
  const node = nodeOf(schema.ast)
  return (value) => matches(node, value)
}

/** The types that a value may have. */
interface Node {
  readonly string: boolean
  readonly null: boolean
  readonly boolean: boolean
  readonly integer: boolean
  readonly struct: ReadonlyArray<Field> | undefined
  /** Checks all other types, with `Schema.is`. */
  readonly otherwise: ((value: unknown) => boolean) | undefined
}

interface Field {
  readonly name: string
  readonly optional: boolean
  readonly node: Node
}

const noType: Node = {
  string: false,
  null: false,
  boolean: false,
  integer: false,
  struct: undefined,
  otherwise: undefined
}

const matches = (node: Node, value: unknown): boolean => {
  switch (typeof value) {
    case "string":
      if (node.string) return true
      break
    case "number":
      if (node.integer && Number.isSafeInteger(value)) return true
      break
    case "boolean":
      if (node.boolean) return true
      break
    case "object":
      if (value === null) {
        if (node.null) return true
      } else if (node.struct !== undefined && !Array.isArray(value) && fieldsMatch(node.struct, value)) return true
  }
  return node.otherwise !== undefined && node.otherwise(value)
}

const fieldsMatch = (fields: ReadonlyArray<Field>, value: object): boolean => {
  const record = value as { readonly [name: string]: unknown } // JSON objects have string keys
  for (const field of fields) {
    const member = record[field.name]
    // Strings first, since most fields are strings.
    if (typeof member === "string" && field.node.string) continue
    if (member === undefined ? !field.optional : !matches(field.node, member)) return false
  }
  return true
}

const nodeOf = (ast: SchemaAST.AST): Node => {
  if (ast === Schema.Int.ast) return { ...noType, integer: true }
  if (ast.checks === undefined && ast.encoding === undefined) {
    if (SchemaAST.isString(ast)) return { ...noType, string: true }
    if (SchemaAST.isNull(ast)) return { ...noType, null: true }
    if (SchemaAST.isBoolean(ast)) return { ...noType, boolean: true }
    if (SchemaAST.isUnion(ast) && ast.options === undefined) return ast.types.map(nodeOf).reduce(either, noType)
    if (SchemaAST.isObjects(ast)) {
      // `Schema.is` checks a struct with an index signature or with a name that `fieldOf` refuses.
      const fields = ast.indexSignatures.length === 0 ? ast.propertySignatures.map(fieldOf) : [undefined]
      if (fields.every((field) => field !== undefined)) return { ...noType, struct: fields }
    }
  }
  return { ...noType, otherwise: Schema.is(Schema.make<Schema.Codec<unknown>>(ast)) }
}

/**
 * Returns undefined for names that every object inherits, such as `toString`: a lookup would find them in any record.
 */
const fieldOf = ({ name, type }: SchemaAST.PropertySignature): Field | undefined =>
  typeof name === "string" && !(name in Object.prototype)
    ? { name, optional: SchemaAST.isOptional(type), node: nodeOf(type) }
    : undefined

const either = (one: Node, other: Node): Node => ({
  string: one.string || other.string,
  null: one.null || other.null,
  boolean: one.boolean || other.boolean,
  integer: one.integer || other.integer,
  struct: one.struct ?? other.struct,
  otherwise: anyOf([one.otherwise, other.otherwise, ...asOtherwise(one.struct, other.struct)])
})

/** A node has one struct, so the second struct of a union becomes a separate test. */
const asOtherwise = (
  first: ReadonlyArray<Field> | undefined,
  second: ReadonlyArray<Field> | undefined
): ReadonlyArray<Node["otherwise"]> =>
  first === undefined || second === undefined ? [] : [(value) => matches({ ...noType, struct: second }, value)]

const anyOf = (tests: ReadonlyArray<Node["otherwise"]>): Node["otherwise"] => {
  const defined = tests.filter((test) => test !== undefined)
  return defined.length === 0 ? undefined : (value) => defined.some((test) => test(value))
}
