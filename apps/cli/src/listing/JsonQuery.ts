/**
 * `--query`: JMESPath (https://jmespath.site) over the records that were read. The library computes with JavaScript's numbers,
 * which round integers beyond 2^53. So a number whose text would change is a {@link SpelledNumber}, which the library only passes
 * on. The operators and functions here replace those of the library that read numbers: they fail where a number would be rounded.
 */
import {
  compile,
  getRegisteredFunctions,
  isRegistered,
  type JSONValue,
  registerFunction,
  tokenize,
  TreeInterpreter,
  TYPE_ANY
} from "@jmespath-community/jmespath"
import { exactNumber, isJsonObject, isNumber, parseWithNumbers } from "@payments/core"
import { closest } from "fastest-levenshtein"

/** Why an expression is not valid, or why its result would not be exact. The message repeats no value of the expression. */
export class JsonQueryError extends Error {}

/** A number that JavaScript would spell otherwise, or round. To the library it is an object with members. */
class SpelledNumber {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
  toJSON(): unknown {
    // The types of this version of TypeScript do not have this function, which every supported Node has.
    return (JSON as unknown as { readonly rawJSON: (text: string) => unknown }).rawJSON(this.text)
  }
  /** Computing with this object would round it. */
  valueOf(): never {
    throw inexact("this expression")
  }
}

/** A value of an expression. The library does not know {@link SpelledNumber}, so it must only pass values on. */
type Value = unknown

const inexact = (name: string) =>
  new JsonQueryError(
    `${name} would round a number beyond 2^53 or with decimal places. Export the list and use payments query`
  )

const valueOf = (text: string): number | SpelledNumber => {
  const number = exactNumber(text)
  return number !== undefined && String(number) === text ? number : new SpelledNumber(text)
}

const isNumeric = (value: Value): value is number | SpelledNumber =>
  typeof value === "number" || value instanceof SpelledNumber

/** Returns the number, or fails if JavaScript cannot hold it. */
const numberOf = (name: string, value: Value): number => {
  if (!isNumeric(value)) throw new JsonQueryError(`${name} needs numbers`)
  const number = typeof value === "number" ? value : exactNumber(value.text)
  if (number === undefined) throw inexact(name)
  return number
}

type Operation = (one: number, other: number) => number

/** Computes with integers. The result must be one that is not rounded. */
const compute = (name: string, operation: Operation) => (one: Value, other: Value): number => {
  const [left, right] = [numberOf(name, one), numberOf(name, other)]
  const result = operation(left, right)
  if (![left, right, result].every(Number.isSafeInteger)) throw inexact(name)
  return result
}

/** A quotient has endless digits in general, so it has those of a JavaScript number. */
const divide = (name: string, operation: Operation) => (one: Value, other: Value): number => {
  const [left, right] = [numberOf(name, one), numberOf(name, other)]
  if (right === 0) throw new JsonQueryError(`${name} cannot divide by 0`)
  const result = operation(left, right)
  if (Math.abs(result) > Number.MAX_SAFE_INTEGER) throw inexact(name)
  return result
}

const add = (one: number, other: number): number => one + other
const multiply = (one: number, other: number): number => one * other
const quotient = (one: number, other: number): number => one / other

const sum = (name: string, values: Value): number => arrayOf(name, values).reduce<number>(compute(name, add), 0)

const isEqual = (one: Value, other: Value): boolean => {
  if (isNumeric(one) && isNumeric(other)) return numberOf("==", one) === numberOf("==", other)
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((element, index) => isEqual(element, other[index]))
  }
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one)
    return names.length === Object.keys(other).length &&
      names.every((name) => Object.hasOwn(other, name) && isEqual(one[name], other[name]))
  }
  return one === other
}

const isObject = (value: Value): value is { readonly [name: string]: Value } =>
  isJsonObject(value) && !(value instanceof SpelledNumber)

const objectOf = (name: string, value: Value, needed = "an object"): { readonly [name: string]: Value } => {
  if (!isObject(value)) throw new JsonQueryError(`${name} needs ${needed}`)
  return value
}

/** Compares two numbers or two texts. Fails for other values. */
const compare = (name: string, one: Value, other: Value): number => {
  if (isNumeric(one) && isNumeric(other)) return numberOf(name, one) - numberOf(name, other)
  if (typeof one === "string" && typeof other === "string") return one < other ? -1 : one > other ? 1 : 0
  throw new JsonQueryError(`${name} needs values that all are numbers or all are text`)
}

/** As JMESPath defines it, the order of values that are not numbers is null. */
const ordering = (name: string, accepts: (order: number) => boolean) => (one: Value, other: Value): Value =>
  isNumeric(one) && isNumeric(other) ? accepts(compare(name, one, other)) : null

const arrayOf = (name: string, value: Value): ReadonlyArray<Value> => {
  if (!Array.isArray(value)) throw new JsonQueryError(`${name} needs an array`)
  return value
}

/** Returns the function that an expression reference such as `&amount` stands for. */
const keyOf = (name: string, reference: Value) => (value: Value): Value => {
  if (!isObject(reference) || reference["expref"] !== true) {
    throw new JsonQueryError(`${name} needs a reference such as &amount`)
  }
  // The library gives a function its references as syntax trees.
  return TreeInterpreter.visit(reference as never, value as never)
}

/** Returns the elements of an array with their keys. Without a reference, an element is its own key. */
const keyed = (name: string, values: Value, reference?: Value) => {
  const key = reference === undefined ? (value: Value) => value : keyOf(name, reference)
  return arrayOf(name, values).map((value) => ({ value, key: key(value) }))
}

/** Makes the function that returns the element whose key is the largest (`sign` 1) or the smallest (-1), the first of equals. */
const extreme = (name: string, sign: 1 | -1) => (values: Value, reference?: Value): Value => {
  const [first, ...rest] = keyed(name, values, reference)
  if (first === undefined) return null
  // Checks the type of the key, also if it is the only one.
  compare(name, first.key, first.key)
  return rest.reduce(
    (best, candidate) => sign * compare(name, candidate.key, best.key) > 0 ? candidate : best,
    first
  ).value
}

const sorted = (name: string) => (values: Value, reference?: Value): Value =>
  keyed(name, values, reference).toSorted((one, other) => compare(name, one.key, other.key)).map(({ value }) => value)

const typeOf = (value: Value): string => {
  if (value === null) return "null"
  if (isNumeric(value)) return "number"
  return Array.isArray(value) ? "array" : typeof value
}

const jsonOf = (value: Value): string => JSON.stringify(value) ?? "null"

/** The operators and functions that never round, by name. An expression cannot call the operators, whose names have a space. */
const functions: {
  readonly [name: string]: readonly [parameters: number | "any", call: (...values: ReadonlyArray<Value>) => Value]
} = {
  "op EQ": [2, isEqual],
  "op NE": [2, (one, other) => !isEqual(one, other)],
  "op GT": [2, ordering(">", (order) => order > 0)],
  "op GTE": [2, ordering(">=", (order) => order >= 0)],
  "op LT": [2, ordering("<", (order) => order < 0)],
  "op LTE": [2, ordering("<=", (order) => order <= 0)],
  "op Plus": [2, compute("+", add)],
  "op Minus": [2, compute("-", (one, other) => one - other)],
  "op Multiply": [2, compute("*", multiply)],
  "op Star": [2, compute("*", multiply)],
  "op Divide": [2, divide("/", quotient)],
  "op Div": [2, divide("//", (one, other) => Math.floor(one / other))],
  "op Modulo": [2, divide("%", (one, other) => one % other)],
  "op unary Minus": [1, (value) => -numberOf("-", value)],
  "op unary Plus": [1, (value) => numberOf("+", value)],
  "op own": [
    2,
    (object, name) => isObject(object) && Object.hasOwn(object, String(name)) ? object[String(name)] : null
  ],
  "op hash": [
    "any",
    (...members) =>
      Object.fromEntries(members.flatMap((name, at) => at % 2 === 0 ? [[String(name), members[at + 1]]] : []))
  ],
  "op object": [1, (value) => isObject(value) ? value : null],
  length: [
    1,
    (value) =>
      typeof value === "string"
        ? [...value].length
        : Array.isArray(value)
        ? value.length
        : Object.keys(objectOf("length()", value, "text, an array or an object")).length
  ],
  keys: [1, (value) => Object.keys(objectOf("keys()", value))],
  values: [1, (value) => Object.values(objectOf("values()", value))],
  items: [1, (value) => Object.entries(objectOf("items()", value))],
  merge: [
    "any",
    (...values) => Object.fromEntries(values.flatMap((value) => Object.entries(objectOf("merge()", value))))
  ],
  abs: [1, (value) => Math.abs(numberOf("abs()", value))],
  ceil: [1, (value) => Math.ceil(numberOf("ceil()", value))],
  floor: [1, (value) => Math.floor(numberOf("floor()", value))],
  sum: [1, (values) => sum("sum()", values)],
  avg: [1, (values) => {
    const { length } = arrayOf("avg()", values)
    return length === 0 ? null : divide("avg()", quotient)(sum("avg()", values), length)
  }],
  max: [1, extreme("max()", 1)],
  min: [1, extreme("min()", -1)],
  max_by: [2, extreme("max_by()", 1)],
  min_by: [2, extreme("min_by()", -1)],
  sort: [1, sorted("sort()")],
  sort_by: [2, sorted("sort_by()")],
  // The library would fail for a key that every object inherits, such as `constructor`.
  group_by: [2, (values, reference) => {
    const groups = Map.groupBy(keyed("group_by()", values, reference), ({ key }) => {
      if (typeof key !== "string") throw new JsonQueryError("group_by() needs keys that all are text")
      return key
    })
    return Object.fromEntries(Array.from(groups, ([key, group]) => [key, group.map(({ value }) => value)]))
  }],
  contains: [2, (searched, value) =>
    typeof searched === "string"
      ? typeof value === "string" ? searched.includes(value) : null
      : arrayOf("contains()", searched).some((element) => isEqual(element, value))],
  to_number: [
    1,
    (value) => isNumeric(value) ? value : typeof value === "string" && isNumber(value) ? valueOf(value) : null
  ],
  type: [1, typeOf]
}

for (const [name, [parameters, call]] of Object.entries(functions)) {
  registerFunction(
    name,
    // The library's type of values lacks SpelledNumber.
    (values) => call(...values) as JSONValue,
    parameters === "any"
      ? [{ types: [TYPE_ANY], variadic: true }]
      : Array.from({ length: parameters }, () => ({ types: [TYPE_ANY] })),
    { override: true }
  )
}

type Node = ReturnType<typeof compile>

const call = (name: string, ...children: ReadonlyArray<Node>): Node => ({
  type: "Function",
  name,
  children: [...children]
})

const aSpelledNumber = new SpelledNumber("0")

/** Replaces the operators by calls of the functions here, in the whole tree. */
const exact = (node: Node): Node => {
  if (node.type === "Literal") return node
  const inner = Object.fromEntries(
    Object.entries(node).map((
      [name, child]
    ) => [name, Array.isArray(child) ? child.map(exactChild) : exactChild(child)])
    // Each child is replaced by a child of the same kind.
  ) as unknown as Node
  switch (inner.type) {
    case "Comparator":
      return call(`op ${inner.name}`, inner.left, inner.right)
    case "Arithmetic":
      return call(`op ${inner.operator}`, inner.left, inner.right)
    case "Unary":
      return call(`op unary ${inner.operator}`, inner.operand)
    case "Field":
      // The library would find a name that every object inherits, and the members of a SpelledNumber.
      return inner.name in aSpelledNumber
        ? call("op own", { type: "Current" }, { type: "Literal", value: inner.name })
        : inner
    case "MultiSelectHash":
      // The library would assign the names, which loses a member of the name __proto__.
      return call(
        "op hash",
        ...inner.children.flatMap((pair): ReadonlyArray<Node> =>
          pair.type === "KeyValuePair" ? [{ type: "Literal", value: pair.name }, pair.value] : []
        )
      )
    case "ValueProjection":
      return { ...inner, left: call("op object", inner.left) }
    default:
      return inner
  }
}

const exactChild = (child: unknown): unknown =>
  typeof child === "object" && child !== null && "type" in child ? exact(child as Node) : child // only nodes have a type

const calledIn = (node: unknown): ReadonlyArray<string> => {
  if (typeof node !== "object" || node === null) return []
  if ("type" in node && node.type === "Literal") return []
  const names = "type" in node && node.type === "Function" && "name" in node ? [String(node.name)] : []
  return [...names, ...Object.values(node).flatMap(calledIn)]
}

/** Refuses numbers in backticks that the library would round. */
const checkLiterals = (expression: string): void => {
  for (const { start, type } of tokenize(expression)) {
    const [, literal] = /^`((?:[^`\\]|\\[^])*)`/.exec(expression.slice(start)) ?? []
    if (String(type) !== "Literal" || literal === undefined) continue
    parseWithNumbers(literal.trim().replaceAll("\\`", "`"), (text) => numberOf("a literal in backticks", valueOf(text)))
  }
}

/** The result of an expression, as JSON texts with exact numbers. */
export interface JsonResult {
  readonly json: string
  /** The elements of the result if it is an array; otherwise the result. */
  readonly elements: ReadonlyArray<string>
}

export interface JsonQuery {
  readonly expression: string
  /** Runs the expression on the texts of all records. Throws a {@link JsonQueryError}. */
  readonly run: (records: Iterable<string>) => JsonResult
}

/** Parses an expression. Throws a {@link JsonQueryError} if it is not valid. */
export const parseJsonQuery = (expression: string): JsonQuery => {
  const tree = guarded("not a valid JMESPath expression: ", () => {
    checkLiterals(expression)
    return exact(compile(expression))
  })
  const unknown = calledIn(tree).find((name) => !isRegistered(name))
  if (unknown !== undefined) {
    const known = getRegisteredFunctions().filter((name) => /^[a-z_]+$/.test(name))
    throw new JsonQueryError(
      `there is no function of the name ${unknown}. The nearest one is ${closest(unknown, known)}`
    )
  }
  return {
    expression,
    run: (records) =>
      guarded("", () => {
        const values = Array.from(records, (text) => parseWithNumbers(text, valueOf))
        // The library's type of values lacks SpelledNumber.
        const result: unknown = TreeInterpreter.search(tree, values as never)
        return { json: jsonOf(result), elements: Array.isArray(result) ? result.map(jsonOf) : [jsonOf(result)] }
      })
  }
}

/** Turns an error of the library into a {@link JsonQueryError}, without the texts that it repeats from the expression. */
const guarded = <A>(prefix: string, run: () => A): A => {
  try {
    return run()
  } catch (error) {
    if (error instanceof JsonQueryError) throw error
    const message = error instanceof Error ? error.message : ""
    const safe = message.replace(/, value: [^]*$/, "").replace(/(token|\(\w+\)): [^]*$/, "$1")
    throw new JsonQueryError(`${prefix}${safe.replace(/^syntax( error)?[:,] /i, "")}`)
  }
}
