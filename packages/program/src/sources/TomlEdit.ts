/**
 * Adds a table to the text of a TOML document, or removes one. All other lines stay byte for byte. The functions do not
 * check the result. In some documents, such as one with a table inside braces, it is not TOML or has another meaning.
 */
import { type AST, parseTOML } from "toml-eslint-parser"
import { namesIn, type TomlPath } from "./Toml.ts"

export type TomlValue = string | number | ReadonlyArray<string>

export const appendTable = (
  text: string,
  path: ReadonlyArray<string>,
  settings: { readonly [name: string]: TomlValue }
): string => {
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n"
  const lines = [
    `[${path.join(".")}]`,
    ...Object.entries(settings).map(([name, value]) => `${name} = ${tomlOf(value)}`)
  ]
  const separator = text === "" ? "" : text.endsWith("\n") ? lineEnd : lineEnd + lineEnd
  return `${text}${separator}${lines.map((line) => `${line}${lineEnd}`).join("")}`
}

const tomlOf = (value: TomlValue): string =>
  typeof value === "number"
    ? String(value)
    : typeof value === "string"
    ? quoted(value)
    : `[${value.map(quoted).join(", ")}]`

/** A JSON string is a TOML string, except that TOML requires an escape for the character DEL. */
const quoted = (text: string): string => JSON.stringify(text).replaceAll("\u007f", "\\u007f")

/**
 * Removes the lines of the table, of its tables and of its dotted keys, each with one blank line before it. Comments
 * before a removed line stay. The text must be TOML.
 */
export const removeTable = (text: string, path: TomlPath): string => {
  const { body: [{ body }] } = parseTOML(text, { tomlVersion: "1.1" })
  const lines = text.split("\n")
  const removed = new Set<number>()
  for (const { end, start } of body.flatMap((node) => nodesOf(node, path))) {
    for (let line = start.line - 1; line < end.line; line++) removed.add(line)
    if (lines[start.line - 2]?.trim() === "") removed.add(start.line - 2)
  }
  return lines.filter((_, line) => !removed.has(line)).join("\n")
}

/** The places that belong to the table at the path: of the node itself, or of its keys. */
const nodesOf = (node: AST.TOMLTable | AST.TOMLKeyValue, path: TomlPath): ReadonlyArray<AST.SourceLocation> => {
  if (node.type === "TOMLKeyValue") return startsWith(namesIn(node.key), path) ? [node.loc] : []
  if (startsWith(node.resolvedKey, path)) return [node.loc]
  return node.body.filter((member) => startsWith([...node.resolvedKey, ...namesIn(member.key)], path)).map(({ loc }) =>
    loc
  )
}

const startsWith = (path: TomlPath, beginning: TomlPath): boolean =>
  beginning.every((key, index) => path[index] === key)
