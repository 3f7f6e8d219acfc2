/**
 * The JSON that the programs print for other programs. Each output has a version, which its last member
 * `schemaVersion` says: that of the object, or of each row if the output is an array or lines. The version is raised if
 * a member is removed, may be absent, or gets another type. A new member does not raise it. It comes after the others,
 * because scripts compare the beginnings of lines.
 */
import { Schema } from "effect"

export interface JsonOutput {
  /** The name of its schema in `docs/schemas/`. */
  readonly name: string
  readonly version: number
  /** What it is, as the end of a sentence. */
  readonly description: string
  /** The commands that print it, without the name of the program. Empty for an output of every command. */
  readonly commands: ReadonlyArray<string>
  /** Of one object, of a row, or of an array of rows. */
  readonly schema: Schema.Top
  /** Whether lines have the members of somebody else, such as records. Then they have no version. */
  readonly hasForeignLines: boolean
}

interface Members {
  readonly [name: string]: Schema.Top
}

/**
 * Makes an output. `document` has the members of the object that `--format json` prints, and `row` those of a line of
 * `ndjson`. Without `document`, `--format json` prints an array of rows.
 */
export const jsonOutput = (
  { document, hasForeignLines = false, row, ...output }:
    & Pick<JsonOutput, "name" | "version" | "description" | "commands">
    & { readonly document?: Members; readonly row?: Members; readonly hasForeignLines?: boolean }
): JsonOutput => {
  const parts = [
    ...document === undefined ? [] : [versioned(output.version, document).annotate({ identifier: "Document" })],
    ...row === undefined ? [] : rowParts(versioned(output.version, row), document === undefined)
  ]
  const [only, ...others] = parts
  return {
    ...output,
    hasForeignLines,
    schema: only === undefined || others.length > 0 ? Schema.Union(parts) : only
  }
}

const versioned = (version: number, members: Members): Schema.Top => {
  const open = members[otherMembers]
  const { [otherMembers]: _others, ...known } = members
  const own = Schema.Struct({ ...known, schemaVersion: Schema.Literal(version) })
  return open === undefined ? own : Schema.StructWithRest(own, [Schema.Record(Schema.String, open)])
}

/** The name under which members that are known only at run time have their schema. */
export const otherMembers = "*"

const rowParts = (row: Schema.Top, isArray: boolean): ReadonlyArray<Schema.Top> => {
  const named = row.annotate({ identifier: "Row" })
  return isArray ? [Schema.Array(named), named] : [named]
}

/** Returns the object with its version as the last member. */
export const withVersion = <Value extends object>(
  { version }: JsonOutput,
  value: Value
): Value & { readonly schemaVersion: number } => ({ ...value, schemaVersion: version })

/** The last member of an object of the output, as text. */
export const versionText = ({ version }: JsonOutput): string => `"schemaVersion":${version}`

/** Returns the JSON schema of the object of an output. */
export const documentSchema = ({ schema }: JsonOutput): object =>
  Schema.toJsonSchemaDocument(schema).definitions["Document"] ?? {}

/** Returns the JSON schema (draft 2020-12) of each output. Readers must accept members that it does not have. */
export const jsonSchemas = (
  outputs: ReadonlyArray<JsonOutput>
): ReadonlyArray<{ readonly name: string; readonly schema: object }> =>
  outputs.map(({ description, name, schema: members, version }) => {
    const { definitions, schema } = Schema.toJsonSchemaDocument(members)
    return {
      name,
      schema: {
        $schema: "https://json-schema.org/draft/2020-12/schema",
        title: `${name}, version ${version}`,
        description,
        ...schema,
        $defs: definitions
      }
    }
  })
