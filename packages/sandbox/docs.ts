/**
 * The catalogue in `docs/sandbox.md`, made from the schemas of the faults and from the scenarios. `npm run docs` writes
 * it; a test holds it to them.
 */
import { catalogue, conditions } from "@payments/core/testing"
import { scenarios } from "@payments/sandbox"
import type { Schema, SchemaAST } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Where the page stands. */
export const pageFile = join(import.meta.dirname, "../../docs/sandbox.md")

const begin = "<!-- made by `npm run docs` -->"
const end = "<!-- end -->"

/** The page with its catalogue made anew. */
export const withCatalogue = (page: string): string =>
  `${page.slice(0, page.indexOf(begin) + begin.length)}\n\n${text()}\n\n${page.slice(page.indexOf(end))}`

const describe = (schema: Schema.Top): string => {
  // The description of an optional field stands on what it holds.
  const own = schema.ast.annotations?.["description"] ?? schema.ast.checks?.at(-1)?.annotations?.["description"]
  const values = literalsOf(schema.ast)
  return [typeof own === "string" ? own : "", values.map((value) => `\`${value}\``).join(", ")]
    .filter((part) => part !== "").join(": ")
}

/** The values that a setting may have, where they are few. */
const literalsOf = (ast: SchemaAST.AST): ReadonlyArray<string> =>
  ast._tag === "Literal"
    ? [String(ast.literal)]
    : ast._tag === "Union" && ast.types.every(({ _tag }) => _tag === "Literal")
    ? ast.types.flatMap(literalsOf)
    : []

const table = (head: readonly [string, string], rows: ReadonlyArray<readonly [string, string]>): string =>
  [head, ["---", "---"], ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n")

const text = (): string => {
  const { reset } = catalogue
  const faults = Object.entries(catalogue).map(([name, schema]) => {
    const own = Object.entries<Schema.Top>(schema.fields)
      .filter(([field]) => field !== "fault" && !conditions.includes(field))
      .map(([field, setting]) => `\`${field}\`: ${describe(setting)}`)
    return [`\`${name}\``, [describe(schema), ...own].join("<br>")] as const
  })
  const when = Object.entries<Schema.Top>(reset.fields)
    .filter(([field]) => conditions.includes(field))
    .map(([field, setting]) => [`\`${field}\``, describe(setting)] as const)
  return [
    "### Which faults are there?",
    table(["fault", "what happens, and its settings"], faults),
    "### Which requests does a fault apply to?",
    "Every fault accepts these conditions. It applies to a request that meets all of them.",
    table(["condition", "requests"], when),
    "### Which scenarios are there?",
    table(
      ["scenario", "what it is like"],
      Object.entries(scenarios).map(([name, { description }]) => [`\`${name}\``, description])
    )
  ].join("\n\n")
}

if (import.meta.main) writeFileSync(pageFile, withCatalogue(readFileSync(pageFile, "utf8")))
