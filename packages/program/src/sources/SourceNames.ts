/** The names of the sources, for completions. Only names are read: a file with mistakes still has names. */
import { readPlainFile } from "@payments/core"
import { Effect, Result } from "effect"
import { existingUsualFile, namedFile } from "../settings/Location.ts"
import { namePattern } from "./SourceSchema.ts"
import { parseToml } from "./Toml.ts"

/** The limit is in bytes. A person waits for the completion. */
const maxBytes = 1024 * 1024

/** Returns the names of the sources in the file that `config` names, or without it in the usual file. Never fails. */
export const sourceNames = Effect.fnUntraced(function*(config: string | undefined) {
  const file = (yield* namedFile(config)) ?? (yield* existingUsualFile)
  if (file === undefined) return []
  const { text } = yield* readPlainFile(file, { maxBytes })
  const parsed = parseToml(text)
  const sources = Result.isSuccess(parsed) ? parsed.success.value["sources"] : undefined
  return typeof sources === "object" && sources !== null
    ? Object.keys(sources).filter((name) => namePattern.test(name))
    : []
}, Effect.orElseSucceed((): ReadonlyArray<string> => []))
