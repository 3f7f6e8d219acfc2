/**
 * Conditions on the fields of records, in the SQL of a destination. They select the same records as the conditions of a
 * listing, and compare values as those do. Amounts are compared as numbers, everything else as text, character by
 * character. A copy has NULL for null and for an absent field, so `null` selects both. Values are parameters of the
 * statement, so none can become SQL.
 */
import { Lists } from "@payments/core"
import { type Column, columnsOf, storable } from "../plan/Columns.ts"
import type { Dialect } from "../statement/Dialect.ts"

/** A condition on a field. */
export type FieldCondition =
  & {
    /** The names of the path: those of the field, or that of its column. */
    readonly path: { readonly names: ReadonlyArray<string>; readonly header: string }
  }
  & (
    | { readonly operator: "present" | "absent" }
    | {
      readonly operator: "=" | "!=" | "<" | "<=" | ">" | ">=" | "~"
      readonly value: string
      /** Whether the value matches only text. */
      readonly isText: boolean
      /** Whether no file may show the value: it came from a file, or may be personal data. */
      readonly isHidden?: boolean
    }
  )

export interface SqlCondition {
  /** Returns the expression. `parameter` is that of the value, such as `$2`. */
  readonly sql: (parameter: string) => string
  readonly value: string | undefined
}

/** Returns the SQL of a condition on the records of a list, or why there is none. */
export const sqlCondition = (
  dialect: Dialect,
  list: Lists.AnyList,
  condition: FieldCondition
): SqlCondition | string => {
  const column = columnOfPath(list, condition.path.names)
  if (column === undefined) {
    return `${list.label} have no column for ${condition.path.header}. Their columns are ${
      columnsOf(list).map(({ name }) => name).join(", ")
    }.`
  }
  const { name } = column
  if (!("value" in condition)) {
    return { sql: () => `${name} IS ${condition.operator === "absent" ? "" : "NOT "}NULL`, value: undefined }
  }
  const { operator, value } = condition
  if (value === "null" && !condition.isText && (operator === "=" || operator === "!=")) {
    const isNull = `${name} IS NULL`
    const not = operator === "=" ? "" : "NOT "
    // A listing compares the text "null" with it too.
    return column.kind === "text"
      ? { sql: (parameter) => `${not}(${isNull} OR ${name} = ${parameter})`, value }
      : { sql: () => `${not}(${isNull})`, value: undefined }
  }
  if (operator === "~") return { sql: contains(dialect, column), value: storable(value) }
  const operand = operandOf(dialect, column, condition)
  return operand === undefined
    ? `${condition.path.header} is ${
      column.kind === "integer" ? "a whole number: give one of at most 64 bits" : "true or false: compare with = or !="
    }.`
    : {
      sql: (parameter) =>
        operator === "!="
          ? `(${name} IS NULL OR ${name} <> ${operand.sql(parameter)})`
          : `${name} ${operator} ${operand.sql(parameter)}`,
      value: column.kind === "integer" ? integerOf(value) : storable(value)
    }
}

/** Whether the values of a path may be personal data. Those of an undocumented field may. */
export const mayBePersonal = (list: Lists.AnyList, names: ReadonlyArray<string>): boolean => {
  const path = columnOfPath(list, names)?.path.join(".")
  return path === undefined || Lists.personalFields(list).includes(path)
}

/** Returns the column of a path: the names of its field, or the name of the column. */
export const columnOfPath = (list: Lists.AnyList, names: ReadonlyArray<string>): Column | undefined => {
  const path = names.join(".")
  return columnsOf(list).find((column) => column.path.join(".") === path) ??
    columnsOf(list).find((column) => names.length === 1 && column.name === path)
}

/** Returns the SQL of the compared value; undefined if the column's type cannot have this value or operator. */
const operandOf = (
  dialect: Dialect,
  column: Column,
  { isText, operator, value }: Extract<FieldCondition, { readonly value: string }>
): Pick<SqlCondition, "sql"> | undefined => {
  switch (column.kind) {
    case "text":
      return { sql: dialect.inByteOrder }
    case "integer":
      return isText || integerOf(value) === undefined
        ? undefined
        : { sql: (parameter) => `CAST(${parameter} AS BIGINT)` }
    case "boolean":
      return isText || !/^(true|false)$/.test(value) || !/^!?=$/.test(operator)
        ? undefined
        : { sql: (parameter) => `(${parameter} = 'true')` }
  }
}

/** Returns the digits of a whole number of at most 64 bits, also of 1e3 or 1000.0; undefined for other text. */
const integerOf = (text: string): string | undefined => {
  const [, sign = "", whole = "", fraction = "", exponent = "0"] =
    /^(-?)(\d{1,30})(?:\.(\d{1,30}))?(?:[eE]([+-]?\d{1,2}))?$/.exec(text) ?? []
  if (whole === "") return undefined
  const power = Number(exponent) - fraction.length
  const digits = BigInt(whole + fraction)
  const scale = 10n ** BigInt(Math.abs(power))
  if (power < 0 && digits % scale !== 0n) return undefined
  const size = power < 0 ? digits / scale : digits * scale
  const integer = sign === "-" ? -size : size
  return BigInt.asIntN(64, integer) === integer ? String(integer) : undefined
}

/** Returns the condition that a column contains the text of a parameter, in upper or lower case. */
export const contains = (dialect: Dialect, { kind, name }: Column) => (parameter: string): string =>
  dialect.contains(kind === "text" ? name : `CAST(${name} AS TEXT)`, parameter)
