/**
 * Writes `docs/settings.md` and `docs/payments.schema.json` from the schema of the sources file and the list of environment
 * variables, and `docs/personal-data.md` from the fields of the records. `npm run docs` runs it, and a test compares the files
 * with their sources.
 */
import { Lists } from "@payments/core"
import { SchemaAST } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { variableMeaning, variables } from "./src/settings/Variables.ts"
import {
  ClusterTable,
  HandoffSettings,
  jsonSchema,
  SourceSettings,
  SourcesFile,
  StatementSettings
} from "./src/sources/SourceSchema.ts"

const docs = join(import.meta.dirname, "../../docs")

/** The files that this program writes, with their content. */
export const generatedFiles = (): ReadonlyArray<{ readonly file: string; readonly text: string }> => [
  { file: join(docs, "settings.md"), text: page() },
  { file: join(docs, "payments.schema.json"), text: `${JSON.stringify(jsonSchema(), null, 2)}\n` },
  { file: join(docs, "personal-data.md"), text: personalDataPage() }
]

const descriptionOf = (ast: SchemaAST.AST): string => {
  // If a type has checks, Effect adds its annotations to the last check.
  const description = ast.annotations?.["description"] ?? ast.checks?.at(-1)?.annotations?.["description"]
  if (typeof description !== "string") throw new Error("A setting has no description.")
  return description
}

/** The rows of a table's settings. The settings of an inner table follow it. */
const rowsOf = (ast: SchemaAST.AST, prefix = ""): ReadonlyArray<string> =>
  SchemaAST.isObjects(ast)
    ? ast.propertySignatures.flatMap(({ name, type }) => [
      `| \`${prefix}${String(name)}\` | ${descriptionOf(type).replaceAll("|", "\\|")} |`,
      ...rowsOf(type, `${prefix}${String(name)}.`)
    ])
    : []

/** The order of the variables. Others follow these. */
const order =
  `BASE_URL INVOICES_BASE_URL API_KEY API_KEY_FILE INVOICES_API_KEY INVOICES_API_KEY_FILE ACCOUNT INVOICE_PARAMS
  MAX_REQUESTS_PER_SECOND UNCHECKED_FILTERS TRACE_HEADERS CONFIG SOURCE TO RATE_LIMIT_STORE EVERY ONCE HOST PORT ALLOW_HOST
  TOKEN_FILE LOG_FORMAT CLUSTER CLUSTER_PREFIX RUNNER PATIENCE ON_LOCKED IGNORE_FIELD PERSONAL OMIT PSEUDONYMIZE KEEP
  UNDOCUMENTED PERSONAL_KEY PERSONAL_KEY_FILE MISSING_LIMIT`.split(/\s+/)

const inOrder = (names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const place = (name: string) => (order.indexOf(name.replace("PAYMENTS_", "")) + names.length) % names.length
  return names.toSorted((one, other) => place(one) - place(other))
}

const page = (): string =>
  `# Settings

<!-- made by \`npm run docs\` from packages/program/src/settings/SettingTable.ts -->

Both programs read the sources file or the environment. [How they are used together](configuration.md#which-settings-are-there)

## What can the sources file contain?

It is [TOML](https://toml.io). For completion in an editor, its first line can name [the JSON
Schema](payments.schema.json): \`#:schema ./payments.schema.json\`.

| at the top | meaning |
| --- | --- |
${
    SourcesFile.ast.propertySignatures.map(({ name, type }) =>
      `| ${
        name === "concurrency"
          ? `\`concurrency\` | ${descriptionOf(type)}`
          : name === "cluster"
          ? "`[cluster]` | several workers with this file share the sources"
          : name === "defaults"
          ? "`[defaults]` | settings that all sources share"
          : name === "statements"
          ? "`[statements.NAME]` | how the statements of a bank or a provider are [reconciled](finance.md#what-does-not-match)"
          : "`[sources.NAME]` | a source: 1 to 40 small letters, digits, `_` and `-`"
      } |`
    ).join("\n")
  }

The table \`[cluster]\` is for \`payments-worker\` only:

| setting of the cluster | meaning |
| --- | --- |
${rowsOf(ClusterTable.ast).join("\n")}

A source, or \`[defaults]\`, has these settings. A source needs \`base_url\` and a key, and for exports \`to\`. Durations have a
unit: \`90s\`, \`5m\`, \`2h\`, \`90d\`. Relative paths are relative to the folder of the file. A setting of a source replaces the
whole setting of \`[defaults]\`; one way to get a key, or one schedule, replaces the other ways.

| setting of a source | meaning |
| --- | --- |
${rowsOf(SourceSettings.ast).join("\n")}

\`[sources.NAME.handoff.CONSUMER]\` [hands the changes](handoff.md) of a source off to a consumer. It needs \`url\` and one way to get its
keys.

| setting of a hand-off | meaning |
| --- | --- |
${rowsOf(HandoffSettings.ast).join("\n")}

\`payments reconcile --statement NAME\` uses the settings of \`[statements.NAME]\`. Its flags override them.

| setting of a statement | meaning |
| --- | --- |
${rowsOf(StatementSettings.ast).join("\n")}

## Which environment variables are there?

| variable | meaning |
| --- | --- |
${inOrder(variables).map((name) => `| \`${name}\` | ${variableMeaning(name)} |`).join("\n")}
`

const personalDataPage = (): string =>
  `# Personal data

<!-- made by \`npm run docs\` from packages/core/src/model/Records.ts -->

Which fields identify a person? The API's document does not say, so this table is this project's reading of it.

- **person**: a customer or their account, alone or with other data. Free text counts too, and so do
  addresses without a documented form, because they may name a customer.
- **payment**: a payment, an invoice or another object of the service.
- **nobody**: amounts, states, dates and kinds.

Fields that the document does not have may contain anything, so they count as \`person\`.

**Exports** follow [the rule of their source](erasure.md): \`personal\`, \`omit\`, \`pseudonymize\`, \`keep\` and \`undocumented\`
in the [settings](settings.md#what-can-the-sources-file-contain). It is applied before anything is written, also with \`--to -\`.
Without a rule, every field is kept. Commands that read a destination print what it has, and \`payments erase\` removes a person
from it.

**Listings** of the service, and \`payments find\` without a copy, print every field. [\`payments mcp\`](agents.md) leaves out what
identifies a person, or with \`--personal pseudonymize\` replaces it by pseudonyms, unless it is started with \`--personal include\`.

${
    Lists.all.map((list) =>
      `## ${list.title}\n\n| field | identifies |\n| --- | --- |\n${
        Lists.fieldMeanings(list).map(({ identifies, path }) => `| \`${path.join(".")}\` | ${identifies} |`).join("\n")
      }\n`
    ).join("\n")
  }`

if (import.meta.main) { for (const { file, text } of generatedFiles()) writeFileSync(file, text) }
