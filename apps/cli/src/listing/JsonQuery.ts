/**
 * `--query`: JMESPath (https://jmespath.site) over the records that were read. The library computes with JavaScript's numbers,
 * which round integers beyond 2^53. So a number whose text would change is an {@link ExactNumber}, and the functions here
 * replace every operator and function of the library that computes with or compares numbers. They are exact or fail.
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
import { compareNumbers, isNumber, parseWithNumbers } from "@payments/core"
import { BigDecimal } from "effect"
import { closest } from "fastest-levenshtein"

/** Why an expression is not valid, or why its result would not be exact. The message repeats no value of the expression. */
export class JsonQueryError extends Error {}

/** A number that a JavaScript number would change. To the library it is an object with members. */
class ExactNumber {
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

/** A value of an expression. The library does not know {@link ExactNumber}, so it must only pass values on. */
type Value = unknown

const inexact = (name: string) =>
  new JsonQueryError(
    `${name} would round a number beyond 2^53 or with many digits. Export the list and use payments query`
  )

/** Returns the value of a number's text. */
const numberOf = (text: string): number | ExactNumber => {
  const number = Number(text)
  return String(number) === text ? number : new ExactNumber(text)
}

const isNumeric = (value: Value): value is number | ExactNumber =>
  typeof value === "number" || value instanceof ExactNumber

const textOf = (value: number | ExactNumber): string => typeof value === "number" ? String(value) : value.text

/** A computation with longer numbers could take all memory. */
const longestOperand = 400

const decimalOf = (name: string, value: Value): BigDecimal.BigDecimal => {
  if (!isNumeric(value)) throw new JsonQueryError(`${name} needs numbers`)
  const text = textOf(value)
  const exponent = Number(/e(.*)$/i.exec(text)?.[1] ?? 0)
  if (text.length > longestOperand || Math.abs(exponent) > longestOperand) throw inexact(name)
  const decimal = BigDecimal.fromString(text)
  if (decimal._tag === "None") throw inexact(name)
  return decimal.value
}

/** Returns a decimal as a number if that is exact. */
const valueOfDecimal = (decimal: BigDecimal.BigDecimal): number | ExactNumber => {
  const { scale, value } = BigDecimal.normalize(decimal)
  const digits = (value < 0n ? -value : value).toString()
  const text = scale <= 0
    ? digits + "0".repeat(-scale)
    : `${digits.padStart(scale + 1, "0").slice(0, -scale)}.${digits.padStart(scale + 1, "0").slice(-scale)}`
  return numberOf(value < 0n ? `-${text}` : text)
}

const compute =
  (name: string, operation: (one: BigDecimal.BigDecimal, other: BigDecimal.BigDecimal) => BigDecimal.BigDecimal) =>
  (one: Value, other: Value): Value => valueOfDecimal(operation(decimalOf(name, one), decimalOf(name, other)))

const sum = (values: ReadonlyArray<Value>): number | ExactNumber =>
  valueOfDecimal(values.reduce(
    (total: BigDecimal.BigDecimal, value) => BigDecimal.sum(total, decimalOf("sum()", value)),
    BigDecimal.fromBigInt(0n)
  ))

/** A quotient has endless digits in general, so it is computed with JavaScript's numbers, where they are exact enough. */
const divide =
  (name: string, operation: (one: number, other: number) => number) => (one: Value, other: Value): Value => {
    if (!isNumeric(one) || !isNumeric(other)) throw new JsonQueryError(`${name} needs numbers`)
    const [left, right] = [Number(textOf(one)), Number(textOf(other))]
    if (right === 0) throw new JsonQueryError(`${name} cannot divide by 0`)
    const result = operation(left, right)
    for (const value of [left, right, result]) if (Math.abs(value) > Number.MAX_SAFE_INTEGER) throw inexact(name)
    return result
  }

const isEqual = (one: Value, other: Value): boolean => {
  if (isNumeric(one) && isNumeric(other)) return compareNumbers(textOf(one), textOf(other)) === 0
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
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)

const objectOf = (name: string, value: Value, needed = "an object"): { readonly [name: string]: Value } => {
  if (!isObject(value)) throw new JsonQueryError(`${name} needs ${needed}`)
  return value
}

/** Compares two numbers or two texts. Fails for other values. */
const compare = (name: string, one: Value, other: Value): number => {
  if (isNumeric(one) && isNumeric(other)) return compareNumbers(textOf(one), textOf(other))
  if (typeof one === "string" && typeof other === "string") return one < other ? -1 : one > other ? 1 : 0
  throw new JsonQueryError(`${name} needs values that all are numbers or all are text`)
}

/** As JMESPath defines it, the order of values that are not numbers is null. */
const ordering = (accepts: (order: number) => boolean) => (one: Value, other: Value): Value =>
  isNumeric(one) && isNumeric(other) ? accepts(compareNumbers(textOf(one), textOf(other))) : null

const arrayOf = (name: string, value: Value): ReadonlyArray<Value> => {
  if (!Array.isArray(value)) throw new JsonQueryError(`${name} needs an array`)
  return value
}

/** Returns the element whose key is the largest (`sign` 1) or the smallest (-1), the first of equals. */
const extreme = (name: string, sign: 1 | -1, values: ReadonlyArray<Value>, key: (value: Value) => Value): Value => {
  const [first, ...rest] = values.map((value) => ({ value, key: key(value) }))
  if (first === undefined) return null
  // Checks the type of the key, also if it is the only one.
  compare(name, first.key, first.key)
  return rest.reduce(
    (best, candidate) => sign * compare(name, candidate.key, best.key) > 0 ? candidate : best,
    first
  ).value
}

/** Returns the function that an expression reference such as `&amount` stands for. */
const keyOf = (name: string, reference: Value) => (value: Value): Value => {
  if (!isObject(reference) || reference["expref"] !== true) {
    throw new JsonQueryError(`${name} needs a reference such as &amount`)
  }
  // The library gives a function its references as syntax trees.
  return TreeInterpreter.visit(reference as never, value as never)
}

const same = (value: Value): Value => value

const sorted = (name: string, values: ReadonlyArray<Value>, key: (value: Value) => Value): Value =>
  values.map((value) => ({ value, key: key(value) }))
    .toSorted((one, other) => compare(name, one.key, other.key))
    .map(({ value }) => value)

const round =
  (name: string, operation: (decimal: BigDecimal.BigDecimal) => BigDecimal.BigDecimal) => (value: Value): Value =>
    valueOfDecimal(operation(decimalOf(name, value)))

const typeOf = (value: Value): string =>
  value === null ? "null" : isNumeric(value) ? "number" : Array.isArray(value) ? "array" : typeof value

/** Returns the JSON text of a value. */
const jsonOf = (value: Value): string => JSON.stringify(value) ?? "null"

/** The operators and functions that are exact here, by name. The names of operators cannot be called in an expression. */
const functions: {
  readonly [name: string]: readonly [parameters: number | "any", call: (...values: ReadonlyArray<Value>) => Value]
} = {
  "op EQ": [2, isEqual],
  "op NE": [2, (one, other) => !isEqual(one, other)],
  "op GT": [2, ordering((order) => order > 0)],
  "op GTE": [2, ordering((order) => order >= 0)],
  "op LT": [2, ordering((order) => order < 0)],
  "op LTE": [2, ordering((order) => order <= 0)],
  "op +": [2, compute("+", BigDecimal.sum)],
  "op -": [2, compute("-", BigDecimal.subtract)],
  "op *": [2, compute("*", BigDecimal.multiply)],
  "op /": [2, divide("/", (one, other) => one / other)],
  "op //": [2, divide("//", (one, other) => Math.floor(one / other))],
  "op %": [2, divide("%", (one, other) => one % other)],
  "op negate": [1, round("-", BigDecimal.negate)],
  "op plus": [1, round("+", (decimal) => decimal)],
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
  abs: [1, round("abs()", BigDecimal.abs)],
  ceil: [1, round("ceil()", (decimal) => BigDecimal.ceil(decimal))],
  floor: [1, round("floor()", (decimal) => BigDecimal.floor(decimal))],
  sum: [1, (values) => sum(arrayOf("sum()", values))],
  avg: [1, (values) => {
    const { length } = arrayOf("avg()", values)
    return length === 0 ? null : divide("avg()", (one, other) => one / other)(sum(arrayOf("avg()", values)), length)
  }],
  max: [1, (values) => extreme("max()", 1, arrayOf("max()", values), same)],
  min: [1, (values) => extreme("min()", -1, arrayOf("min()", values), same)],
  max_by: [2, (values, key) => extreme("max_by()", 1, arrayOf("max_by()", values), keyOf("max_by()", key))],
  min_by: [2, (values, key) => extreme("min_by()", -1, arrayOf("min_by()", values), keyOf("min_by()", key))],
  sort: [1, (values) => sorted("sort()", arrayOf("sort()", values), same)],
  sort_by: [2, (values, key) => sorted("sort_by()", arrayOf("sort_by()", values), keyOf("sort_by()", key))],
  // The library would fail for a key that every object inherits, such as `constructor`.
  group_by: [2, (values, key) => {
    const keyOfValue = keyOf("group_by()", key)
    return Object.fromEntries(Map.groupBy(arrayOf("group_by()", values), (value) => {
      const group = keyOfValue(value)
      if (typeof group !== "string") throw new JsonQueryError("group_by() needs keys that all are text")
      return group
    }))
  }],
  contains: [2, (searched, value) =>
    typeof searched === "string"
      ? typeof value === "string" ? searched.includes(value) : null
      : arrayOf("contains()", searched).some((element) => isEqual(element, value))],
  to_number: [
    1,
    (value) => isNumeric(value) ? value : typeof value === "string" && isNumber(value) ? numberOf(value) : null
  ],
  to_string: [1, (value) => typeof value === "string" ? value : jsonOf(value)],
  type: [1, typeOf]
}

for (const [name, [parameters, call]] of Object.entries(functions)) {
  registerFunction(
    name,
    // The library's type of values lacks ExactNumber.
    (values) => call(...values) as JSONValue,
    parameters === "any"
      ? [{ types: [TYPE_ANY], variadic: true }]
      : Array.from({ length: parameters }, () => ({ types: [TYPE_ANY] })),
    { override: true }
  )
}

type Node = ReturnType<typeof compile>

const arithmetic: { readonly [operator: string]: string } = {
  Plus: "op +",
  Minus: "op -",
  Multiply: "op *",
  Star: "op *",
  Divide: "op /",
  Div: "op //",
  Modulo: "op %"
}

const call = (name: string, ...children: ReadonlyArray<Node>): Node => ({
  type: "Function",
  name,
  children: [...children]
})

const anExactNumber = new ExactNumber("0")

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
      return call(arithmetic[inner.operator] ?? inner.operator, inner.left, inner.right)
    case "Unary":
      return call(inner.operator === "Minus" ? "op negate" : "op plus", inner.operand)
    case "Field":
      // The library would find a name that every object inherits, and the members of an ExactNumber.
      return inner.name in anExactNumber
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

/** The functions that a tree calls. */
const calledIn = (node: unknown): ReadonlyArray<string> => {
  if (typeof node !== "object" || node === null) return []
  if ("type" in node && node.type === "Literal") return []
  const names = "type" in node && node.type === "Function" && "name" in node ? [String(node.name)] : []
  return [...names, ...Object.values(node).flatMap(calledIn)]
}

/** Replaces numbers in backticks that the library would round by calls of `to_number`. */
const withExactLiterals = (expression: string): string => {
  let text = ""
  let at = 0
  for (const { start, type } of tokenize(expression)) {
    if (String(type) !== "Literal" || expression[start] !== "`") continue
    const literal = /^`((?:[^`\\]|\\[^])*)`/.exec(expression.slice(start))
    if (literal === null) continue
    const [whole, source = ""] = literal
    const json = source.trim()
    let isRounded = false
    const value = parseWithNumbers(json.replaceAll("\\`", "`"), (number) => {
      const parsed = numberOf(number)
      isRounded ||= typeof parsed !== "number"
      return parsed
    })
    if (!isRounded) continue
    if (!(value instanceof ExactNumber)) throw inexact("a literal in backticks")
    text += `${expression.slice(at, start)}to_number('${value.text}')`
    at = start + whole.length
  }
  return text + expression.slice(at)
}

/** The result of an expression, as JSON texts with exact numbers. */
export interface JsonResult {
  readonly json: string
  /** The elements of the result if it is an array; otherwise the result. */
  readonly elements: ReadonlyArray<string>
}

/** An expression that is ready to run. */
export interface JsonQuery {
  readonly expression: string
  /** Runs the expression on the texts of all records. Throws a {@link JsonQueryError}. */
  readonly run: (records: Iterable<string>) => JsonResult
}

/** Parses an expression. Throws a {@link JsonQueryError} if it is not valid. */
export const parseJsonQuery = (expression: string): JsonQuery => {
  const tree = guarded("not a valid JMESPath expression: ", () => exact(compile(withExactLiterals(expression))))
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
        const values = Array.from(records, (text) => parseWithNumbers(text, numberOf))
        // The library's type of values lacks ExactNumber.
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
