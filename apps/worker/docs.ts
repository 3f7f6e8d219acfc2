/**
 * Writes the table of metrics in `docs/metrics.md`, and the schemas of the JSON outputs. `npm run docs` runs it, and tests compare
 * the files with the registries.
 */
import { contract, MetricDefinitions } from "@payments/program"
import { writeOutputs } from "@payments/testkit/contract/SchemaFiles"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { all } from "./src/contract/WorkerOutputs.ts"

/** The page that contains the table. */
export const pageFile = join(import.meta.dirname, "../../docs/metrics.md")

const begin = "<!-- metrics: made by `npm run docs` -->"
const end = "<!-- end of metrics -->"

/** Returns the page with the current table. */
export const withMetrics = (page: string): string =>
  `${page.slice(0, page.indexOf(begin) + begin.length)}\n\n${table}\n\n${page.slice(page.indexOf(end))}`

const ownLabels = { list: ["source", "list"], handoff: ["source", "consumer"], source: ["source"], process: [] }

const row = (name: string, { buckets, help, labels = {}, per, type }: MetricDefinitions.Definition): string => {
  const closed = Object.entries(labels).map(([label, values]) =>
    values.length === 0 ? `\`${label}\`` : `\`${label}\`: ${values.map((value) => `\`${value}\``).join(", ")}`
  )
  const others = ownLabels[per].map((label) => `\`${label}\``)
  const bounds = buckets === undefined ? "" : ` Buckets: ${buckets.join(", ")} s.`
  const text = [others.join(", "), ...closed].filter((part) => part !== "").join("; ")
  return `| \`${name}\` | ${type} | ${text} | ${help.replaceAll(/payments_[a-z_]+/g, "`$&`")}${bounds} |`
}

const table = [
  "| name | type | labels | meaning |",
  "| --- | --- | --- | --- |",
  ...Object.entries(MetricDefinitions.definitions).map(([name, definition]) => row(name, definition))
].join("\n")

if (import.meta.main) {
  writeFileSync(pageFile, withMetrics(readFileSync(pageFile, "utf8")))
  writeOutputs("payments-worker", all, contract.jsonSchemas(all))
}
