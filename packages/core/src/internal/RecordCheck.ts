/**
 * `Schema.is` for values that `JSON.parse` made, several times faster: such values are plain (no getters, no inherited
 * fields, nothing undefined), and most fields want a string or null. Made from the schema itself, so that a new field
 * needs no second edit; what it does not know by heart it leaves to `Schema.is`. It generates no code.
 */
import { Schema, SchemaAST } from "effect"

/** Whether a value parsed from JSON is of the schema's type, undocumented fields aside. */
export const recordCheck = (schema: Schema.Struct<Schema.Struct.Fields>): (value: unknown) => boolean => {
  const node = nodeOf(schema.ast)
  return (value) => holds(node, value)
}

/** What a value may be. */
interface Node {
  readonly string: boolean
  readonly null: boolean
  readonly boolean: boolean
  readonly integer: boolean
  readonly struct: ReadonlyArray<Field> | undefined
  /** Whatever else it may be, as `Schema.is` tells it. */
  readonly otherwise: ((value: unknown) => boolean) | undefined
}

interface Field {
  readonly name: string
  readonly optional: boolean
  readonly node: Node
}

const nothing: Node = {
  string: false,
  null: false,
  boolean: false,
  integer: false,
  struct: undefined,
  otherwise: undefined
}

const holds = (node: Node, value: unknown): boolean => {
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
      } else if (node.struct !== undefined && !Array.isArray(value) && fieldsHold(node.struct, value)) return true
  }
  return node.otherwise !== undefined && node.otherwise(value)
}

const fieldsHold = (fields: ReadonlyArray<Field>, value: object): boolean => {
  const record = value as { readonly [name: string]: unknown } // JSON objects have string keys
  for (const field of fields) {
    const held = record[field.name]
    // The usual field first: it is most of the work.
    if (typeof held === "string" && field.node.string) continue
    if (held === undefined ? !field.optional : !holds(field.node, held)) return false
  }
  return true
}

const nodeOf = (ast: SchemaAST.AST): Node => {
  if (ast === Schema.Int.ast) return { ...nothing, integer: true }
  if (ast.checks === undefined && ast.encoding === undefined) {
    if (SchemaAST.isString(ast)) return { ...nothing, string: true }
    if (SchemaAST.isNull(ast)) return { ...nothing, null: true }
    if (SchemaAST.isBoolean(ast)) return { ...nothing, boolean: true }
    if (SchemaAST.isUnion(ast) && ast.options === undefined) return ast.types.map(nodeOf).reduce(either, nothing)
    if (SchemaAST.isObjects(ast)) {
      const fields = ast.indexSignatures.length === 0 ? ast.propertySignatures.map(fieldOf) : [undefined]
      if (fields.every((field) => field !== undefined)) return { ...nothing, struct: fields }
    }
  }
  return { ...nothing, otherwise: Schema.is(Schema.make<Schema.Codec<unknown>>(ast)) }
}

/** A field that every object inherits would be found where it is absent. */
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

/** A union has room for one struct; a second one is told apart beside it. */
const asOtherwise = (
  first: ReadonlyArray<Field> | undefined,
  second: ReadonlyArray<Field> | undefined
): ReadonlyArray<Node["otherwise"]> =>
  first === undefined || second === undefined ? [] : [(value) => holds({ ...nothing, struct: second }, value)]

const anyOf = (tests: ReadonlyArray<Node["otherwise"]>): Node["otherwise"] => {
  const defined = tests.filter((test) => test !== undefined)
  return defined.length === 0 ? undefined : (value) => defined.some((test) => test(value))
}
