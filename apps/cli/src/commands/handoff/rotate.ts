/** `payments handoff rotate`: replaces the key of a hand-off without a gap. Of keys, it prints only public ones. */
import { lockFile, makeFolder, printable, replaceFile, systemCodeOf, writeProblem } from "@payments/copy"
import type { VerifyingKey } from "@payments/copy/handoff"
import { largestKeyBytes, readPlainFile } from "@payments/core"
import {
  CommandExit,
  counted,
  ExitCode,
  optionalFlag,
  print,
  requireOutput,
  switchFlag,
  textFlag,
  usage
} from "@payments/program"
import type { SourceHandoff } from "@payments/program/sources"
import { Duration, Effect, FileSystem, type PlatformError, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
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
    kind: optionalFlag(
      Flag.ChoiceWithValue("kind", [["whsec", "v1"], ["whsk", "v1a"]] as const).pipe(
        Flag.withDescription(
          "the kind of the new key; default: that of the newest one, and whsec for a first one in secret_file"
        )
      )
    ),
    to: textFlag("to", "FILE", "write the new key to this new file, if no file of the settings has the keys"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ finish, format, kind, name, to }) {
    const { handoff: { consumer, keyFile, keys: current }, source } = yield* chosenHandoff(name)
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
    if (finish && kind !== undefined) return yield* usage("--kind: --finish makes no key. Leave --kind out.")
    const file = keyFile ?? to ?? ""
    const scheme = kind ?? (keyFile === undefined ? yield* schemeOf(current) : undefined)
    const { count, publicKey } = yield* Effect.scoped(changed(file, { finish, isNew: keyFile === undefined, scheme }))
    if (format === "json") {
      return yield* printJson(outputs.handoffRotate, {
        consumer,
        file,
        keys: count,
        finished: finish,
        publicKey: publicKey ?? null
      })
    }
    yield* print(
      `${printable(file)}: ${textOf({ finish, keys: count, publicKey, isSettings: keyFile !== undefined })}\n`
    )
  })
).pipe(
  Command.withDescription(
    "Replace the key of a hand-off without a gap: add a new key before the old one, give it to the receivers, then remove the old one with --finish. The key is written to a file that only its owner reads, and never printed. Of an ed25519 key, the public key is printed, for the receivers"
  ),
  Command.withShortDescription("Replace the key of a hand-off without a gap"),
  Command.withExamples([
    { command: "payments handoff rotate ledger", description: "add a new key, or make the first one" },
    { command: "payments handoff rotate ledger --kind whsk", description: "add an ed25519 key" },
    {
      command: "payments handoff rotate ledger --finish",
      description: "remove the old keys when every receiver has the new one"
    }
  ])
)

/** The scheme of the newest key. A receiver that verifies another one could do nothing with the new key. */
const schemeOf = (keys: SourceHandoff["keys"]) =>
  Effect.mapBoth(keys, {
    onFailure: ({ message }) =>
      usage(
        `The present keys cannot be read: ${message}. Say which kind the receiver verifies: --kind whsec or --kind whsk.`
      ),
    onSuccess: ([{ scheme }]) => scheme
  })

const textOf = (
  { finish, isSettings, keys, publicKey }: {
    readonly finish: boolean
    readonly keys: number
    readonly publicKey: string | undefined
    readonly isSettings: boolean
  }
): string => {
  const text = !isSettings
    ? "has a new key. Put it before the older one where the variable or the command gets the keys."
    : finish
    ? "has only the newest key now."
    : keys === 1
    ? `has the first key now.${publicKey === undefined ? " Give it to the receiver." : ""}`
    : `has ${counted(keys, "key")} now, the newest first, and each signs. ${
      publicKey === undefined ? "Give the first one to the receiver, then" : "When the receiver has the public key,"
    } run this command with --finish.`
  return publicKey === undefined || finish
    ? text
    : `${text}\nThe keys in the file are private. Give the receiver this public key of the newest one:\n${publicKey}`
}

/** The most keys that a hand-off has. */
const mostKeys = 8

/** An edit takes milliseconds. */
const lockTime = Duration.seconds(10)

/** Writes the keys. Returns their number, and the public key of the newest one. Two edits come one after the other. */
const changed = Effect.fnUntraced(function*(
  file: string,
  { finish, isNew, scheme }: {
    readonly finish: boolean
    /** Whether the file must not exist yet. */
    readonly isNew: boolean
    /** Undefined: that of the newest key of the file. */
    readonly scheme: VerifyingKey["scheme"] | undefined
  }
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
  const keys = exists ? yield* keysIn(file) : []
  if (finish && keys.length === 0) return yield* usage(`${printable(file)} has no key.`)
  if (!finish && keys.length >= mostKeys) {
    return yield* usage(`${printable(file)} has ${keys.length} keys. Remove the old ones first: --finish.`)
  }
  const [newest] = keys
  const next = finish ? keys.slice(0, 1) : [newKeyOf(scheme ?? newest?.scheme ?? "v1"), ...keys]
  const text = next.map(({ line }) => `${Redacted.value(line)}\n`).join("")
  // A link, such as that of a mounted secret, stays one.
  const target = yield* Effect.orElseSucceed(fs.realPath(file), () => file)
  yield* Effect.mapError(replaceFile(target, text), unwritable)
  return { count: next.length, publicKey: next[0]?.publicKey }
})

/** A line of a file of keys. */
interface KeyLine {
  readonly line: Redacted.Redacted<string>
  readonly scheme: VerifyingKey["scheme"]
  /** What a receiver gets of an ed25519 key, `whpk_…`. */
  readonly publicKey: string | undefined
}

const keysIn = Effect.fnUntraced(function*(file: string) {
  const { parseSigningKey, publicKeyText } = yield* Effect.promise(() => import("@payments/copy/handoff"))
  const { text } = yield* Effect.mapError(
    readPlainFile(file, { maxBytes: largestKeyBytes }),
    ({ problem }) => new CommandExit({ exitCode: ExitCode.configuration, problem: `${printable(file)} ${problem}.` })
  )
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "").map((line) =>
    Redacted.make(line)
  )
  // A file that is no file of keys is not changed.
  return yield* Effect.forEach(lines, (line) =>
    Effect.mapBoth(Effect.fromResult(parseSigningKey(line)), {
      onFailure: ({ message }) =>
        new CommandExit({ exitCode: ExitCode.configuration, problem: `${printable(file)}: ${message}` }),
      onSuccess: (key): KeyLine => ({ line, scheme: key.scheme, publicKey: publicKeyText(key) })
    }))
})

const newKeyOf = (scheme: VerifyingKey["scheme"]): KeyLine => {
  if (scheme === "v1") {
    const line = Redacted.make(`whsec_${randomBytes(32).toString("base64")}`)
    return { line, scheme, publicKey: undefined }
  }
  const { privateKey, publicKey } = generateKeyPairSync("ed25519")
  // The 32 bytes of a key are at the end of its DER (RFC 8410 §4 and §7).
  const [secret, shared] = [
    privateKey.export({ format: "der", type: "pkcs8" }),
    publicKey.export({ format: "der", type: "spki" })
  ].map((der) => der.subarray(-32).toString("base64"))
  return { line: Redacted.make(`whsk_${secret}`), scheme, publicKey: `whpk_${shared}` }
}

const notWritten = (file: string) => (error: PlatformError.PlatformError) =>
  new CommandExit({
    exitCode: ExitCode.destination,
    problem: `${printable(file)} was not changed: it cannot be written: ${writeProblem(systemCodeOf(error))}.`
  })
