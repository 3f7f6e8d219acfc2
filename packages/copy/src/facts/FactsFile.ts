/**
 * The observations of a service, in a file. A file of another service, of a later version or with other content is refused
 * and stays as it is. It has no key, filter value or part of a record. A cursor in it is encrypted (`KeptCursor.ts`).
 */
import { Lists, PaymentsConfig } from "@payments/core"
import { Data, Duration, Effect, FileSystem, Option, type PlatformError, Schema } from "effect"
import { createHash } from "node:crypto"
import { replaceFile } from "../filesystem/AtomicFile.ts"
import { writeProblem } from "../filesystem/WriteProblem.ts"
import { Evidence, noEvidence } from "../port/Judgement.ts"
import { lockFile } from "../sqlite/SqliteClient.ts"
import { systemCodeOf } from "../stdout/Stdout.ts"
import { printable } from "../text/Printable.ts"

const version = 1

const Text = Schema.fromJsonString(Schema.Struct({
  version: Schema.Int,
  service: Schema.String,
  facts: Schema.Record(Schema.String, Schema.Record(Schema.String, Evidence))
}))

/** The evidence by list label and name of the fact. */
export type Evidences = { readonly [label: string]: { readonly [fact: string]: Evidence } }

/** The file cannot be used. It stays as it is. */
export class FactsFileError extends Data.TaggedError("FactsFileError")<{
  readonly problem: string
  /** Whether the system does not read or write it. Otherwise its content or another program is the problem. */
  readonly isSystem: boolean
}> {}

const refused = (file: string, problem: string) =>
  new FactsFileError({ problem: `${printable(file)} ${problem}`, isSystem: false })

const onSystem = (file: string, verb: "read" | "written") =>
  Effect.mapError((error: PlatformError.PlatformError) =>
    new FactsFileError({
      problem: `${printable(file)} cannot be ${verb}: ${writeProblem(systemCodeOf(error))}.`,
      isSystem: true
    })
  )

/** Names a service by its addresses, without showing them. */
export const serviceId = (config: PaymentsConfig["Service"]): string =>
  createHash("sha256").update(JSON.stringify(Lists.all.map((list) => PaymentsConfig.addressOf(config, list)))).digest(
    "hex"
  )

/** The content of a file. */
export interface StoredFacts {
  readonly facts: Evidences
  /** Undefined if there is no file. */
  readonly service: string | undefined
}

/** Reads the evidence of a service; without one, of any service. A missing file has none. */
export const readFacts = Effect.fnUntraced(function*(
  file: string,
  service: string | undefined
): Effect.fn.Return<StoredFacts, FactsFileError, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.exists(file).pipe(
    Effect.flatMap((exists) => exists ? fs.readFileString(file) : Effect.succeed(undefined)),
    onSystem(file, "read")
  )
  if (text === undefined) return { facts: {}, service }
  const stored = Schema.decodeOption(Text)(text)
  if (Option.isNone(stored)) return yield* refused(file, "is not a file of facts, or damaged.")
  const { facts, service: owner, version: found } = stored.value
  if (found > version) return yield* refused(file, "was written by a later version of this program.")
  if (service !== undefined && owner !== service) return yield* refused(file, "has the facts of another service.")
  return { facts, service: owner }
})

/** Locks the file until the scope closes. */
export const lockFacts = (file: string) =>
  Effect.mapError(lockFile(`${file}.lock`, Duration.zero), ({ message, reason }) =>
    reason._tag === "Locked"
      ? refused(file, "is used by another probe.")
      : new FactsFileError({ problem: `${printable(file)} cannot be locked: ${message}`, isSystem: true }))

/** Replaces the file. After a crash it has the old or the new evidence. */
export const writeFacts = (file: string, service: string, facts: Evidences) =>
  onSystem(file, "written")(replaceFile(file, `${JSON.stringify({ version, service, facts }, null, 2)}\n`))

export const evidenceIn = (facts: Evidences, label: string, fact: string): Evidence =>
  facts[label]?.[fact] ?? noEvidence

export const withEvidence = (facts: Evidences, label: string, fact: string, evidence: Evidence): Evidences => ({
  ...facts,
  [label]: { ...facts[label], [fact]: evidence }
})
