/** `payments handoff rotate`: replaces the key of a hand-off without a gap. No key is ever printed. */
import { lockFile, makeFolder, printable, replaceFile, systemCodeOf, writeProblem } from "@payments/copy"
import { largestKeyBytes, readPlainFile } from "@payments/core"
import { CommandExit, counted, ExitCode, print, requireOutput, switchFlag, textFlag, usage } from "@payments/program"
import { Duration, Effect, FileSystem, type PlatformError, Redacted } from "effect"
import { Command } from "effect/cli"
import { generateKeyPairSync, randomBytes } from "node:crypto"
import { dirname } from "node:path"
import { outputs } from "../../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../../output/ResultOutput.ts"
import { chosenHandoff, nameArgument } from "./Chosen.ts"

export const rotateCommand = Command.make(
  "rotate",
  {
    name: nameArgument,
    finish: switchFlag("finish", "remove all keys but the newest, after every receiver has it"),
    to: textFlag("to", "FILE", "write the new key to this new file, if no file of the settings has the keys"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ finish, format, name, to }) {
    const { handoff: { consumer, keyFile }, source } = yield* chosenHandoff(name)
    if (format === "json") yield* requireOutput
    const setting = `[sources.${source.name}.handoff.${consumer}]`
    if (keyFile !== undefined && to !== undefined) {
      return yield* usage(`--to: secret_file of ${setting} gets the new key. Leave --to out.`)
    }
    if (keyFile === undefined && (finish || to === undefined)) {
      return yield* usage(
        `${setting} gets its keys from a variable or a command, which this program does not change. ${
          finish
            ? "Remove the older keys there: all lines but the first."
            : "Write a new key with --to FILE, and put it there as the first line, before the older one."
        }`
      )
    }
    const file = keyFile ?? to ?? ""
    const keys = yield* Effect.scoped(changed(file, { finish, isNew: keyFile === undefined }))
    if (format === "json") {
      return yield* printJson(outputs.handoffRotate, { consumer, file, keys, finished: finish })
    }
    yield* print(`${printable(file)}: ${textOf({ finish, keys, isSettings: keyFile !== undefined })}\n`)
  })
).pipe(
  Command.withDescription(
    "Replace the key of a hand-off without a gap: add a new key before the old one, give it to the receivers, then remove the old one with --finish. The key is written to a file that only its owner reads, and never printed"
  ),
  Command.withShortDescription("Replace the key of a hand-off without a gap"),
  Command.withExamples([
    { command: "payments handoff rotate ledger", description: "add a new key, or make the first one" },
    {
      command: "payments handoff rotate ledger --finish",
      description: "remove the old keys when every receiver has the new one"
    }
  ])
)

const textOf = (
  { finish, isSettings, keys }: { readonly finish: boolean; readonly keys: number; readonly isSettings: boolean }
): string => {
  if (!isSettings) return "has a new key. Put it before the older one where the variable or the command gets the keys."
  if (finish) return "has only the newest key now."
  return keys === 1
    ? "has the first key now. Give it to the receiver."
    : `has ${
      counted(keys, "key")
    } now, the newest first, and each signs. Give the first one to the receiver, then run this command with --finish.`
}

/** The most keys that a hand-off has. */
const mostKeys = 8

/** An edit takes milliseconds. */
const lockTime = Duration.seconds(10)

/** Writes the keys. Returns their number. Two edits at once come one after the other. */
const changed = Effect.fnUntraced(function*(
  file: string,
  { finish, isNew }: { readonly finish: boolean; readonly isNew: boolean }
) {
  const fs = yield* FileSystem.FileSystem
  const unwritable = notWritten(file)
  yield* Effect.mapError(makeFolder(dirname(file), 0o700), unwritable)
  yield* Effect.mapError(lockFile(`${file}.lock`, lockTime), ({ reason }) =>
    new CommandExit({
      exitCode: ExitCode.destination,
      problem: `${printable(file)} was not changed: ${
        reason._tag === "Locked" ? "another program is changing it. Run again." : reason.message
      }`
    }))
  const exists = yield* Effect.mapError(fs.exists(file), unwritable)
  if (exists && isNew) return yield* usage(`--to: ${printable(file)} exists. Choose another file.`)
  const lines = exists ? yield* keysIn(file) : []
  if (finish && lines.length === 0) return yield* usage(`${printable(file)} has no key.`)
  if (!finish && lines.length >= mostKeys) {
    return yield* usage(`${printable(file)} has ${lines.length} keys. Remove the old ones first: --finish.`)
  }
  const next = finish ? lines.slice(0, 1) : [newKeyLike(lines[0]), ...lines]
  const text = next.map((line) => `${Redacted.value(line)}\n`).join("")
  // A link, such as that of a mounted secret, stays one.
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  yield* Effect.mapError(replaceFile(target, text), unwritable)
  return next.length
})

const keysIn = Effect.fnUntraced(function*(file: string) {
  const { parseSigningKey } = yield* Effect.promise(() => import("@payments/copy/handoff"))
  const { text } = yield* Effect.mapError(
    readPlainFile(file, { maxBytes: largestKeyBytes }),
    ({ problem }) => new CommandExit({ exitCode: ExitCode.configuration, problem: `${printable(file)} ${problem}.` })
  )
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "").map((line) =>
    Redacted.make(line)
  )
  // A file that is no file of keys is not changed.
  yield* Effect.forEach(lines, (line) =>
    Effect.mapError(
      Effect.fromResult(parseSigningKey(line)),
      ({ message }) => new CommandExit({ exitCode: ExitCode.configuration, problem: `${printable(file)}: ${message}` })
    ))
  return lines
})

/** Makes a key of the same kind as the newest one, or a symmetric one. */
const newKeyLike = (newest: Redacted.Redacted<string> | undefined): Redacted.Redacted<string> => {
  if (newest === undefined || !Redacted.value(newest).startsWith("whsk_")) {
    return Redacted.make(`whsec_${randomBytes(32).toString("base64")}`)
  }
  const { privateKey } = generateKeyPairSync("ed25519")
  // The seed is at the end of the DER (RFC 8410 §7).
  return Redacted.make(`whsk_${privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32).toString("base64")}`)
}

const notWritten = (file: string) => (error: PlatformError.PlatformError) =>
  new CommandExit({
    exitCode: ExitCode.destination,
    problem: `${printable(file)} was not changed: it cannot be written: ${writeProblem(systemCodeOf(error))}.`
  })
