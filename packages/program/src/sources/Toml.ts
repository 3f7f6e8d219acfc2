/**
 * Parses TOML (https://toml.io/en/v1.1.0) and keeps the line of every key. Messages say what is wrong with the syntax.
 * They never repeat text of the document, because it may be a secret.
 */
import { Result } from "effect"
import { type AST, ParseError, parseTOML } from "toml-eslint-parser"

/** Such as `["sources", "north", "every"]`. */
export type TomlPath = ReadonlyArray<PropertyKey>

export interface TomlDocument {
  /** Tables are objects without a prototype, so that a key such as `__proto__` is only a key. */
  readonly value: Container
  /** The line of the key, or of the innermost table around it. Lines start at 1. */
  readonly lineOf: (path: TomlPath) => number
}

export interface TomlProblem {
  readonly line: number
  readonly problem: string
}

/** A table or an array. */
export type Container = { [key: PropertyKey]: unknown }

export const isTable = (value: unknown): value is Container =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)

/** Deeper tables are refused. The settings need four levels. */
const deepest = 20

export const parseToml = (text: string): Result.Result<TomlDocument, TomlProblem> => {
  try {
    return Result.succeed(documentOf(parseTOML(text, { tomlVersion: "1.1" })))
  } catch (error) {
    if (error instanceof ParseError) return Result.fail(problemOf(error, text))
    // The parser is recursive, and very deep tables exhaust the stack.
    if (error instanceof RangeError) return Result.fail({ line: 1, problem: "Tables or arrays are nested too deeply." })
    throw error
  }
}

/**
 * The parser reports a line that ends too early, such as `[sources.north` or `base_url =`, at the next word or at the
 * end. This returns the line itself: the last one before that place that is more than a comment.
 */
const problemOf = ({ index, lineNumber, message }: ParseError, text: string): TomlProblem => {
  const lines = text.slice(0, index).split("\n")
  const line = lines.findLastIndex((one) => !/^\s*(?:#|$)/.test(one))
  const last = lines[line] ?? ""
  if (/^[^#'"=]+=\s*(?:#.*)?$/.test(last)) return { line: line + 1, problem: "The key has no value." }
  const endsEarly = /must be on the same line$|^Unterminated table-key$|^Unspecified values/.test(message)
  if (!endsEarly) return { line: lineNumber, problem: `${message}.` }
  const isTableName = /^\s*\[[^\]]*$/.test(last)
  return { line: line + 1, problem: isTableName ? "The name of a table has no closing bracket." : `${message}.` }
}

/** Returns the names of a dotted key. */
export const namesIn = ({ keys }: AST.TOMLKey): TomlPath =>
  keys.map((part) => part.type === "TOMLBare" ? part.name : part.value)

const documentOf = ({ body: [{ body }] }: AST.TOMLProgram): TomlDocument => {
  const root: Container = Object.create(null)
  const lines = new Map<string, number>()

  /** Keeps the first line of a path, because the keys in a table can name the table again. */
  const note = (path: TomlPath, line: number): void => {
    if (path.length > deepest) throw new RangeError()
    const key = JSON.stringify(path)
    if (!lines.has(key)) lines.set(key, line)
  }

  /** Creates missing containers. A number is an index in an array of tables. */
  const containerAt = (path: TomlPath, line: number): Container => {
    let at = root
    for (const [index, key] of path.entries()) {
      note(path.slice(0, index + 1), line)
      at[key] ??= typeof path[index + 1] === "number" ? [] : Object.create(null)
      // The parser refuses a document in which a key is both a table and another value.
      at = at[key] as Container
    }
    return at
  }

  const add = (path: TomlPath, value: AST.TOMLContentNode, line: number): void => {
    note(path, line)
    if (value.type === "TOMLValue") {
      containerAt(path.slice(0, -1), line)[path.at(-1) ?? ""] = value.value
    } else if (value.type === "TOMLArray") {
      containerAt(path.slice(0, -1), line)[path.at(-1) ?? ""] = []
      for (const [index, element] of value.elements.entries()) add([...path, index], element, element.loc.start.line)
    } else {
      containerAt(path, line)
      addAll(path, value.body)
    }
  }

  const addAll = (path: TomlPath, members: ReadonlyArray<AST.TOMLKeyValue>): void => {
    for (const { key, loc, value } of members) {
      add([...path, ...namesIn(key)], value, loc.start.line)
    }
  }

  for (const node of body) {
    if (node.type === "TOMLKeyValue") {
      addAll([], [node])
    } else {
      containerAt(node.resolvedKey, node.loc.start.line)
      addAll(node.resolvedKey, node.body)
    }
  }
  return {
    value: root,
    lineOf: (path) => {
      for (let length = path.length; length > 0; length--) {
        const line = lines.get(JSON.stringify(path.slice(0, length)))
        if (line !== undefined) return line
      }
      return 1
    }
  }
}
