/** `--where`: conditions on the fields of records that were read. Numbers are compared exactly. */
import { type FieldPath, folded, readPath, unquoted } from "@payments/copy"
import { compareNumbers, isNumber } from "@payments/core"
import { plainText, type ReadField } from "../output/PrintedRecord.ts"

/** The operators, the longer ones first. */
const operators = ["!=", "<=", ">=", "==", "=", "<", ">", "~"] as const

export type Condition =
  | { readonly path: FieldPath; readonly operator: "present" | "absent" }
  | {
    readonly path: FieldPath
    readonly operator: Exclude<typeof operators[number], "==">
    readonly value: string
    /** Whether the value is in double quotes: it matches only text. */
    readonly isText: boolean
  }

/** The syntax, for messages. */
export const conditionSyntax =
  "FIELD OPERATOR VALUE such as 'amount>=1000' or 'status!=paid'; the operators are = != < <= > >= and ~ (contains). FIELD alone: has a value; !FIELD: has none"

export const parseCondition = (text: string): Condition | undefined => {
  const isNegated = /^\s*!/.test(text)
  const found = readPath(text, isNegated ? text.indexOf("!") + 1 : 0)
  if (found === undefined) return undefined
  const { end, path } = found
  if (end === text.length) return { path, operator: isNegated ? "absent" : "present" }
  const operator = operators.find((candidate) => text.startsWith(candidate, end))
  if (isNegated || operator === undefined) return undefined
  const given = text.slice(end + operator.length).trim()
  const isText = given.startsWith("\"")
  const value = isText ? unquoted(given) : given
  return value === undefined ? undefined : { path, operator: operator === "==" ? "=" : operator, value, isText }
}

export const meets = (condition: Condition, read: ReadField): boolean => {
  const json = read(condition.path)
  switch (condition.operator) {
    case "present":
      return json !== undefined && json !== "null"
    case "absent":
      return json === undefined || json === "null"
    case "=":
      return json !== undefined && isEqual(condition, json)
    case "!=":
      return json === undefined || !isEqual(condition, json)
    case "~":
      return json !== undefined && folded(plainText(json)).includes(folded(condition.value))
    default:
      return json !== undefined && comparisons[condition.operator](orderOf(condition, json))
  }
}

/** Whether an order meets an operator. */
const comparisons = {
  "<": (order: number) => order < 0,
  "<=": (order: number) => order <= 0,
  ">": (order: number) => order > 0,
  ">=": (order: number) => order >= 0
}

interface Value {
  readonly value: string
  readonly isText: boolean
}

const isEqual = ({ isText, value }: Value, json: string): boolean => {
  if (isText) return json.startsWith("\"") && plainText(json) === value
  return isNumber(json) && isNumber(value) ? compareNumbers(json, value) === 0 : plainText(json) === value
}

/** Returns the order of a field and the value; NaN if they cannot be compared. Text is compared character by character. */
const orderOf = ({ isText, value }: Value, json: string): number => {
  if (json.startsWith("\"")) {
    const text = plainText(json)
    return text < value ? -1 : text > value ? 1 : 0
  }
  return !isText && isNumber(json) && isNumber(value) ? compareNumbers(json, value) : Number.NaN
}
