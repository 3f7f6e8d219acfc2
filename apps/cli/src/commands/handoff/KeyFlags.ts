/** The flags that name the keys of a receiver. A flag never has a key, because other users of a machine see arguments. */
import type { VerifyingKey } from "@payments/copy/handoff"
import { type KeySource, makeKeyFile, type PaymentsConfigError } from "@payments/core"
import { CommandExit, ExitCode, textFlag, usage } from "@payments/program"
import { Config, Effect, FileSystem, Option, Redacted, Result } from "effect"
import { chosenHandoff } from "./Chosen.ts"

const expected = "whsec_…, whsk_… or whpk_…, one key per line"

export const keyFlags = {
  secretFile: textFlag("secret-file", "FILE", `the file with the keys: ${expected}`),
  secretEnv: textFlag("secret-env", "NAME", "the environment variable with the keys"),
  secretOf: textFlag(
    "secret-of",
    "NAME",
    "the keys of this hand-off, as the sources file says: a file, a variable or a command"
  )
}

type ReadKeys = Effect.Effect<ReadonlyArray<VerifyingKey>, CommandExit | PaymentsConfigError>

/** Reads the keys of the flags. Each time that it runs, it reads them again. */
export const keysOf = Effect.fnUntraced(function*(
  { secretEnv, secretFile, secretOf }: {
    readonly secretFile: string | undefined
    readonly secretEnv: string | undefined
    readonly secretOf: string | undefined
  }
) {
  if ([secretFile, secretEnv, secretOf].filter((given) => given !== undefined).length !== 1) {
    return yield* usage("Give the keys of the hand-off: --secret-file FILE, --secret-env NAME or --secret-of NAME.")
  }
  if (secretOf !== undefined) {
    const { handoff } = yield* chosenHandoff(secretOf)
    const ofHandoff: ReadKeys = handoff.keys
    return ofHandoff
  }
  const { parseKey } = yield* Effect.promise(() => import("@payments/copy/handoff"))
  const source = secretFile === undefined
    ? variableOf(secretEnv ?? "")
    : makeKeyFile(yield* FileSystem.FileSystem, "--secret-file", secretFile)
  return Effect.flatMap(source.read, (read): ReadKeys => {
    if ("problem" in read) return Effect.fail(wrongKey(`${source.setting} ${read.problem}.`))
    const lines = Redacted.value(read.value).split("\n").map((line) => line.trim()).filter((line) => line !== "")
    const parsed = Result.all(lines.map((line) => parseKey(Redacted.make(line))))
    return Effect.mapError(Effect.fromResult(parsed), ({ message }) => wrongKey(`${source.setting}: ${message}`))
  })
})

const variableOf = (name: string): KeySource => ({
  setting: `--secret-env: ${/^[A-Z][A-Z0-9_]*$/.test(name) ? name : "the variable"}`,
  read: Effect.gen(function*() {
    const given = yield* Effect.orElseSucceed(Config.option(Config.Redacted(name)), () => Option.none())
    return Option.isNone(given) || Redacted.value(given.value).trim() === ""
      ? { problem: "is not set" }
      : { value: given.value }
  })
})

const wrongKey = (problem: string) => new CommandExit({ exitCode: ExitCode.configuration, problem })
