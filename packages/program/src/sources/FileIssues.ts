/** Checks the values of the sources file against its schema. No message repeats a value. */
import { Result, Schema, SchemaAST, SchemaIssue } from "effect"
import { closest } from "fastest-levenshtein"
import { namePattern, SourceSettings, SourcesFile } from "./SourceSchema.ts"
import { isTable, type TomlPath } from "./Toml.ts"

export interface FileIssue {
  readonly path: TomlPath
  /** A sentence. */
  readonly problem: string
}

/** Finds all values that do not match the schema. */
export const issuesIn = (value: unknown): ReadonlyArray<FileIssue> => {
  const sources = isTable(value) && isTable(value["sources"]) ? value["sources"] : {}
  return [
    ...issuesOf(SourcesFile, [], value),
    // The schema of the file does not look into a source with a wrong name.
    ...Object.keys(sources).filter((name) => !namePattern.test(name) && isTable(sources[name])).flatMap((name) =>
      issuesOf(SourceSettings, ["sources", name], sources[name])
    )
  ]
}

const issuesOf = (
  schema: Schema.Decoder<unknown>,
  at: TomlPath,
  value: unknown
): ReadonlyArray<FileIssue> => {
  const decoded = Schema.decodeUnknownResult(schema)(value, { errors: "all", onExcessProperty: "error" })
  if (Result.isSuccess(decoded)) return []
  return format(decoded.failure.issue).issues.map(({ message, path }) => {
    const keys = [...at, ...(path ?? []).map((part) => typeof part === "object" ? part.key : part)]
    return { path: keys, problem: sentenceOf(keys, message) }
  })
}

const [unknownKey, noTable] = ["unknown key", "must be a table"] as const

/** Whether the tables of consumers stand there. */
const isHandoff = (path: TomlPath): boolean =>
  path.at(-1) === "handoff" && path.length === (path[0] === "sources" ? 3 : 2) && path[0] !== "statements"

const format = SchemaIssue.makeFormatterStandardSchemaV1({
  leafHook: (issue) => {
    if (issue._tag === "UnexpectedKey") return unknownKey
    if (issue._tag === "MissingKey") return "is not set"
    if (issue._tag !== "InvalidType" || issue.ast.annotations?.["message"] !== undefined) {
      return SchemaIssue.defaultLeafHook(issue)
    }
    return issue.ast._tag === "Arrays" ? "must be an array" : noTable
  }
})

const sentenceOf = (path: TomlPath, message: string): string => {
  const parent = path.slice(0, -1)
  // What has no table may be a value in the wrong place.
  if (message === noTable && isHandoff(parent)) return `${pathName(parent)} must have a table for each consumer.`
  if (message !== unknownKey) return `${pathName(path)} ${message}.`
  const key = String(path.at(-1))
  if (parent.length === 1 && parent[0] === "sources") {
    return "The name of a source has 1 to 40 small letters, digits, _ and -."
  }
  if (parent.length === 1 && parent[0] === "statements") {
    return "The name of a statement has 1 to 40 small letters, digits, _ and -."
  }
  if (isHandoff(parent)) {
    return "The name of a consumer has 1 to 40 small letters, digits, _ and -."
  }
  const name = /^[a-z_-]{1,40}$/i.test(key)
    ? pathName(path)
    : `A setting of ${parent.length === 0 ? "the file" : pathName(parent)}`
  if (parent.at(-2) === "handoff" && /^(key|token|secret|password)s?$/i.test(key)) {
    return `${name} is not a setting, because no key stands in this file. Set secret_file, secret_env or secret_command.`
  }
  if (/^(invoices_)?(api_)?(key|token|secret|password)$/i.test(key)) {
    return `${name} is not a setting, because no key stands in this file. Set api_key_file, api_key_env or api_key_command.`
  }
  if (key === "personal_key") {
    return `${name} is not a setting, because no key stands in this file. Set personal_key_file, personal_key_env or personal_key_command.`
  }
  return `${name} is not a setting. The nearest one is ${closest(key, [...settingsAt(parent)])}.`
}

/**
 * Writes a path as in TOML: `sources.north.window.days`. An index is left out: its line says which element it is. A
 * source's name that looks like no name is left out, because it may be a secret.
 */
export const pathName = (path: TomlPath): string =>
  path.filter((key) => typeof key === "string").map((key, index) =>
    index === 1 && path[0] === "sources" && !/^[a-z_-][a-z0-9_-]{0,39}$/i.test(key) && !namePattern.test(key)
      ? "…"
      : key
  ).join(".")

/** Returns the names of the settings of a table, from the schema. */
const settingsAt = (path: TomlPath): ReadonlyArray<string> => {
  let ast: SchemaAST.AST | undefined = SourcesFile.ast
  for (const key of path) {
    ast = SchemaAST.isObjects(ast)
      ? ast.propertySignatures.find(({ name }) => name === key)?.type ?? ast.indexSignatures[0]?.type
      : undefined
    if (ast === undefined) return []
  }
  return SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}
