/**
 * Writes the catalogue of faults and scenarios in `docs/sandbox.md`, from their definitions. `npm run docs` runs it, and a
 * test compares the page with the definitions.
 */
import { Behaviour, catalogue, conditions } from "@payments/core/testing"
import { receiverFaults, receiverScenarios, scenarios } from "@payments/sandbox"
import type { Schema, SchemaAST } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** The page that contains the catalogue. */
export const pageFile = join(import.meta.dirname, "../../docs/sandbox.md")

const begin = "<!-- made by `npm run docs` -->"
const end = "<!-- end -->"

/** Returns the page with the current catalogue. */
export const withCatalogue = (page: string): string =>
  `${page.slice(0, page.indexOf(begin) + begin.length)}\n\n${text()}\n\n${page.slice(page.indexOf(end))}`

const describe = (schema: Schema.Top): string => {
  // If a type has checks, Effect adds its annotations to the last check.
  const own = schema.ast.annotations?.["description"] ?? schema.ast.checks?.at(-1)?.annotations?.["description"]
  const values = literalsOf(schema.ast)
  return [typeof own === "string" ? own : "", values.map((value) => `\`${value}\``).join(", ")]
    .filter((part) => part !== "").join(": ")
}

/** Returns the values of a setting that has only literal values. */
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
    "Every fault accepts these conditions. It applies to a request that matches all of them.",
    table(["condition", "requests"], when),
    "### What can it do where the document is silent?",
    "`--behaviour NAME=VALUE,…`, or `behaviour` in code. The first value is the default.",
    table(
      ["choice", "what it is about, and its values"],
      Object.entries<Schema.Top>(Behaviour.fields).map(([name, choice]) => [`\`${name}\``, describe(choice)])
    ),
    "### Which scenarios are there?",
    table(
      ["scenario", "what it is like"],
      Object.entries(scenarios).map(([name, { description }]) => [`\`${name}\``, description])
    ),
    "### Which faults can a receiver have?",
    "`applied` says whether the changes are applied before the fault. It is true after a status of 2xx in any case.",
    table(
      ["fault of a receiver", "`applied` by default"],
      Object.entries(receiverFaults).map(([name, isApplied]) => [`\`${name}\``, String(isApplied)])
    ),
    table(
      ["scenario of a receiver", "what it is like"],
      Object.entries(receiverScenarios).map(([name, { description }]) => [`\`${name}\``, description])
    )
  ].join("\n\n")
}

if (import.meta.main) writeFileSync(pageFile, withCatalogue(readFileSync(pageFile, "utf8")))
