/**
 * Reads the sources file and reports all of its mistakes at once, each with its line. No message repeats a value,
 * because it may be a secret in the wrong place.
 */
import { printable } from "@payments/copy"
import { readPlainFile } from "@payments/core"
import { Effect, type FileSystem, Record, Result, Schema } from "effect"
import { dirname } from "node:path"
import { type Finding, SourcesError } from "../outcome/SourcesError.ts"
import { issuesIn, pathName } from "./FileIssues.ts"
import { checkTable, type FileSource, identityOf, type Note, sourceOf, tableOf } from "./FileSource.ts"
import { StatementSettings } from "./SourceSchema.ts"
import { type Container, isTable, parseToml, type TomlDocument } from "./Toml.ts"
import { clusterIn, type FileCluster } from "./WorkerCluster.ts"

/** A file without mistakes. */
export interface SourcesDocument {
  /** Its absolute path. */
  readonly file: string
  readonly concurrency: number | undefined
  readonly cluster: FileCluster | undefined
  /** In the order of the file. */
  readonly sources: ReadonlyArray<FileSource>
  readonly statements: { readonly [name: string]: StatementSettings }
}

/** Larger than any file that people write: enough for thousands of sources. */
const maxBytes = 1024 * 1024

/** Fails with all mistakes of the file. */
export const readSourcesFile = Effect.fnUntraced(function*(
  file: string
): Effect.fn.Return<SourcesDocument, SourcesError, FileSystem.FileSystem> {
  const { mode, text } = yield* readText(file)
  const document = yield* parseSourcesFile(file, text)
  // Windows has no such permissions, and Node reports all of them.
  if ((mode & 0o002) !== 0 && process.platform !== "win32") {
    yield* Effect.logWarning(
      `${printable(file)}: every user may change it (mode ${mode.toString(8)}), and so where keys are sent${
        document.sources.some(hasCommand) ? " and which commands run" : ""
      }. Restrict it: chmod 600.`
    )
  }
  return document
})

export const readText = (file: string) =>
  Effect.mapError(
    readPlainFile(file, { maxBytes }),
    ({ kind, problem }) => {
      const advice = kind === "notFound"
        ? " Name another one with --config or PAYMENTS_CONFIG, or create it: payments source add."
        : ""
      return new SourcesError({
        file,
        findings: [{ line: undefined, problem: `The sources file ${problem}.${advice}` }]
      })
    }
  )

/** Fails with all mistakes of the text. */
export const parseSourcesFile = Effect.fnUntraced(function*(
  file: string,
  text: string
): Effect.fn.Return<SourcesDocument, SourcesError, FileSystem.FileSystem> {
  const fail = (findings: ReadonlyArray<Finding>) => new SourcesError({ file, findings })
  const parsed = parseToml(text)
  if (Result.isFailure(parsed)) return yield* fail([parsed.failure])
  const document = parsed.success
  const findings: Array<Finding> = []
  const note: Note = (path, problem) => void findings.push({ line: document.lineOf(path), problem })
  const sources = yield* sourcesIn(document, dirname(file), note)
  const cluster = clusterIn(tableIn(document.value, "cluster"), dirname(file), note)
  if (findings.length > 0) return yield* fail(inOrder(findings))
  const { concurrency } = document.value
  return {
    file,
    concurrency: typeof concurrency === "number" ? concurrency : undefined,
    cluster,
    sources,
    statements: Record.map(tableIn(document.value, "statements"), (table) => decodeStatement(table))
  }
})

/** The schema of the file has checked it. */
const decodeStatement = Schema.decodeUnknownSync(StatementSettings)

/** Sorts findings by line and drops repetitions: every source inherits the mistakes of `[defaults]`. */
const inOrder = (findings: ReadonlyArray<Finding>): ReadonlyArray<Finding> =>
  [...new Map(findings.map((finding) => [`${finding.line} ${finding.problem}`, finding])).values()]
    .toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0))

const hasCommand = ({ settings }: FileSource): boolean =>
  settings.api_key_command !== undefined || settings.invoices_api_key_command !== undefined ||
  Object.values(settings.handoff ?? {}).some(({ secret_command: command }) => command !== undefined)

const sourcesIn = Effect.fnUntraced(function*(
  document: TomlDocument,
  folder: string,
  note: Note
) {
  const issues = issuesIn(document.value)
  for (const { path, problem } of issues) note(path, problem)
  const invalid = new Set(
    issues.flatMap(({ path }) => path.map((_, index) => JSON.stringify(path.slice(0, index + 1))))
  )
  const isInvalid = (path: ReadonlyArray<PropertyKey>) => invalid.has(JSON.stringify(path))
  const defaults = tableOf(["defaults"], tableIn(document.value, "defaults"), isInvalid)
  checkTable(defaults, note)
  const tables = tableIn(document.value, "sources")
  const sources: Array<FileSource> = []
  const destinations = new Map<string, string>()
  for (const name of Object.keys(tables)) {
    // A wrong name has been reported, and does not hide the mistakes of its table.
    if (!isTable(tables[name])) continue
    const own = tableOf(["sources", name], tables[name], isInvalid)
    checkTable(own, note)
    const source = yield* sourceOf({ name, own, defaults, document, folder, note })
    sources.push(source)
    if (source.to === undefined) continue
    const identity = yield* identityOf(source.to)
    const other = destinations.get(identity)
    if (other === undefined) destinations.set(identity, name)
    else {
      note(
        ["sources", name, "to"],
        `${pathName(["sources", name])} has the same destination as ${
          pathName(["sources", other])
        }. Each source needs its own.`
      )
    }
  }
  const lineOf = ({ name }: FileSource) => document.lineOf(["sources", name])
  return sources.toSorted((one, other) => lineOf(one) - lineOf(other))
})

/** Returns an empty table if there is none. */
const tableIn = (document: Container, name: string): Container => {
  const table = document[name]
  return isTable(table) ? table : {}
}
