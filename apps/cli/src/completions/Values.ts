/** The values of flags and arguments that take text, for completions. */
import { Questions } from "@payments/copy"
import { Lists } from "@payments/core"
import { sourceNames } from "@payments/program/sources"
import { Effect, type FileSystem } from "effect"

export interface Candidate {
  readonly value: string
  readonly description?: string | undefined
}

export interface Values {
  readonly candidates: ReadonlyArray<Candidate>
  /** The shell adds the names of files after this text. */
  readonly files?: { readonly prefix: string }
  /** Whether more text can follow a value, so that the shell adds no space. */
  readonly continues?: boolean
}

/** The words before the one at the cursor. */
export interface Context {
  /** The names of the command and its parents, without the program. */
  readonly path: ReadonlyArray<string>
  readonly operands: ReadonlyArray<string>
  readonly flags: ReadonlyMap<string, string>
}

export const filesOf = (prefix: string): Values => ({ candidates: [], files: { prefix } })

export const none: Values = { candidates: [] }

type ValuesOf = (context: Context, word: string) => Values | Effect.Effect<Values, never, FileSystem.FileSystem>

const file: ValuesOf = () => filesOf("")

/** Destinations begin with the kind of destination. A path follows. */
const destination: ValuesOf = (_, word) => {
  const [prefix] = /^(sqlite|file):/.exec(word) ?? []
  return prefix === undefined
    ? {
      candidates: [
        { value: "sqlite:", description: "an SQLite file" },
        { value: "file:", description: "a folder of files" },
        { value: "postgres://", description: "a PostgreSQL database" }
      ],
      continues: true
    }
    : filesOf(prefix)
}

/** Commands about hand-offs write plain files. */
const target: ValuesOf = (context, word) =>
  ["sandbox", "handoff"].includes(context.path[0] ?? "") ? filesOf("") : destination(context, word)

/** Returns the paths of the fields of a list, such as `customerDetails.name`; without a list, those of all lists. */
const fieldPaths = (label: string | undefined): ReadonlyArray<string> => {
  const named = Lists.all.filter((list) => list.label === label)
  return [
    ...new Set(
      (named.length === 0 ? Lists.all : named)
        .flatMap(Lists.fieldPaths)
    )
  ]
}

/** Fields that are separated by commas. Those that are given already are left out. */
const fields: ValuesOf = ({ path }, word) => {
  const given = word.split(",").slice(0, -1)
  return {
    candidates: fieldPaths(path[0]).filter((field) => !given.includes(field))
      .map((field) => ({ value: [...given, field].join(",") })),
    continues: true
  }
}

const condition: ValuesOf = ({ path }) => ({
  candidates: fieldPaths(path[0]).map((value) => ({ value })),
  continues: true
})

const query: ValuesOf = () => ({
  candidates: Questions.questions.map(({ description, name }) => ({ value: name, description }))
})

/** The names of the sandbox's scenarios. The sandbox itself takes long to load. */
export const scenarioNames = ["calm", "flaky", "throttled", "hostile", "outage", "drift"]

const scenario: ValuesOf = () => ({ candidates: scenarioNames.map((value) => ({ value })), files: { prefix: "" } })

const source: ValuesOf = ({ flags }) =>
  Effect.map(sourceNames(flags.get("config")), (names) => ({ candidates: names.map((value) => ({ value })) }))

/** The values by the flag, or by the command and the name of its argument. A flag has the same kind of values in all commands. */
export const valueKinds: { readonly [flag: string]: ValuesOf } = {
  "--source": source,
  "--config": file,
  "--cursor-file": file,
  "--output": file,
  "--customer-ids": file,
  "--html": file,
  "--with": file,
  "--svg": file,
  "--key-file": file,
  "--other-key-file": file,
  "--from": destination,
  "--to": target,
  "--secret-file": file,
  "--headers": file,
  "--body": file,
  "--request": file,
  "--fields": fields,
  "--on": fields,
  "--group": fields,
  "--sort": fields,
  "--ignore-field": fields,
  "--where": condition,
  "--faults": scenario,
  "--on-locked": () => ({ candidates: [{ value: "refuse" }, { value: "wait" }] }),
  "diff destination": destination,
  "query sql": query,
  "source remove name": source
}

/** Returns the values of a flag, such as `--config`, or of an argument, such as `query sql`. */
export const valuesOf = (
  name: string,
  context: Context,
  word: string
): Effect.Effect<Values, never, FileSystem.FileSystem> => {
  const values = valueKinds[name]?.(context, word) ?? none
  return Effect.isEffect(values) ? values : Effect.succeed(values)
}
