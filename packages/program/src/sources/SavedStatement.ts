/** `[statements.NAME]` of the sources file: how the statements of a bank or a provider are reconciled. */
import { printable } from "@payments/copy"
import { Effect } from "effect"
import { usage } from "../outcome/ProgramError.ts"
import { existingUsualFile, namedFile } from "../settings/Location.ts"
import { allOf } from "../text/WordLists.ts"
import { ConfigFlag } from "./ChosenSource.ts"

/** Returns the saved settings of a statement. The file is that of `--config` or PAYMENTS_CONFIG, or the usual one. */
export const savedStatement = Effect.fnUntraced(function*(name: string) {
  const file = (yield* namedFile(yield* ConfigFlag)) ?? (yield* existingUsualFile)
  if (file === undefined) {
    return yield* usage("--statement: there is no sources file. Name one with --config or PAYMENTS_CONFIG.")
  }
  const { readSourcesFile } = yield* Effect.promise(() => import("./SourcesFile.ts"))
  const { statements } = yield* readSourcesFile(file)
  const found = Object.hasOwn(statements, name) ? statements[name] : undefined
  if (found !== undefined) return found
  const names = Object.keys(statements)
  return yield* usage(
    `--statement: ${printable(file)} has no [statements.${printable(name)}]. ${
      names.length === 0 ? "It has no statements." : `It has ${allOf(names)}.`
    }`
  )
})
