/** The files of `docs/schemas/`, which `npm run docs` writes and tests compare. */
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { refusalOf } from "./SchemaChanges.ts"

/** The JSON schema of an output. */
export interface OutputSchema {
  readonly name: string
  readonly schema: object
}

/** An output, as the page about JSON describes it. */
export interface DescribedOutput {
  readonly name: string
  readonly version: number
  readonly description: string
  readonly commands: ReadonlyArray<string>
}

export const schemaFolder = join(import.meta.dirname, "../../../../docs/schemas")

const fileOf = ({ name }: OutputSchema): string => join(schemaFolder, `${name}.json`)

const textOf = (output: OutputSchema): string => `${JSON.stringify(output.schema, null, 2)}\n`

/** Returns the committed schema of an output; undefined if it has none. */
export const committedSchema = (output: OutputSchema): object | undefined =>
  existsSync(fileOf(output)) ? JSON.parse(readFileSync(fileOf(output), "utf8")) as object : undefined // a JSON schema

/** The page with the table of all outputs. */
export const outputsPage = join(import.meta.dirname, "../../../../docs/json.md")

/** Returns the page with the current table of a program's outputs. */
export const withOutputs = (page: string, program: string, outputs: ReadonlyArray<DescribedOutput>): string => {
  const [begin, end] = [
    `<!-- outputs of ${program}: made by \`npm run docs\` -->`,
    `<!-- end of outputs of ${program} -->`
  ]
  const rows = outputs.map(({ commands, description, name, version }) =>
    `| [\`${name}\`](schemas/${name}.json) | ${version} | ${commands.map((words) => `\`${words}\``).join(", ")} | ${
      description.replaceAll("|", "\\|")
    } |`
  )
  const table = ["| output | version | command | what it is |", "| --- | --- | --- | --- |", ...rows].join("\n")
  return `${page.slice(0, page.indexOf(begin) + begin.length)}\n\n${table}\n\n${page.slice(page.indexOf(end))}`
}

/** Writes the schemas of a program's outputs, and their table. */
export const writeOutputs = (
  program: string,
  outputs: ReadonlyArray<DescribedOutput>,
  schemas: ReadonlyArray<OutputSchema>
): void => {
  writeSchemas(schemas)
  writeFileSync(outputsPage, withOutputs(readFileSync(outputsPage, "utf8"), program, outputs))
}

/** Returns why the outputs break the rule about versions, a line for each. */
export const refusals = (outputs: ReadonlyArray<OutputSchema>): ReadonlyArray<string> =>
  outputs.flatMap((output) => {
    const before = committedSchema(output)
    return (before === undefined ? undefined : refusalOf(output.name, before, output.schema)) ?? []
  })

/** Returns the names of the outputs whose committed schema is not the current one. */
export const staleSchemas = (outputs: ReadonlyArray<OutputSchema>): ReadonlyArray<string> =>
  outputs.filter((output) => !existsSync(fileOf(output)) || readFileSync(fileOf(output), "utf8") !== textOf(output))
    .map(({ name }) => name)

/** Writes the schemas. Fails, and writes none, if one breaks the rule about versions: its file is what the rule compares. */
const writeSchemas = (outputs: ReadonlyArray<OutputSchema>): void => {
  const refused = refusals(outputs)
  if (refused.length > 0) throw new Error(refused.join("\n"))
  for (const output of outputs) writeFileSync(fileOf(output), textOf(output))
}
