/** The hand-offs of a source: to which consumers its changes are sent, and how. */
import { type Maintenance, moveConsumer, type MoveError } from "@payments/copy"
import {
  batchLimits,
  handoffPolicy,
  makePost,
  parseSigningKey,
  postTimeout,
  type SenderOptions,
  type SigningKey,
  type Target
} from "@payments/copy/handoff"
import { type Checked, Lists, Monotonic, PaymentsConfigError } from "@payments/core"
import { Array, Duration, Effect, type FileSystem, Redacted, Result, type Scope } from "effect"
import { dirname, resolve } from "node:path"
import { handoffSettings } from "../settings/FileTable.ts"
import type { FileSource } from "./FileSource.ts"
import { proxyOf } from "./HandoffProblems.ts"
import type { SourceHandoff } from "./Source.ts"
import type { HandoffSettings } from "./SourceSchema.ts"
import { keySourceFrom } from "./SourceService.ts"

type Keys = Effect.Success<SourceHandoff["keys"]>

/** How long keys are used before they are read again. A command must not run for each request. */
export const keyLife = Duration.seconds(5)

/** The most keys of a hand-off: two while a key is replaced, and some more. */
const mostKeys = 8

/** The hand-offs of a source of the file, in its order. The settings must have no mistakes. */
export const handoffsOf = (
  { file, fs, lists, source }: {
    readonly file: string
    readonly source: FileSource
    /** Those of the source. */
    readonly lists: ReadonlyArray<Lists.ListName>
    readonly fs: FileSystem.FileSystem
  }
): ReadonlyArray<SourceHandoff> =>
  Object.entries(source.settings.handoff ?? {}).map(([consumer, settings]): SourceHandoff => {
    const target = targetOf(settings)
    const all = lists.map((name) => Lists.byName[name])
    return {
      consumer,
      origin: target.url.origin,
      target: Redacted.make(target),
      keys: cachedKeys(keysOf(file, source, consumer, fs)),
      keyFile: settings.secret_file === undefined ? undefined : resolve(dirname(file), settings.secret_file),
      lists: all.filter(({ label }) => settings.lists?.includes(label) ?? true),
      shape: {
        source: source.name,
        isThin: settings.thin ?? false,
        kinds: settings.kinds === undefined ? undefined : new Set(settings.kinds)
      },
      limits: {
        changes: settings.max_changes ?? batchLimits.changes,
        bytes: settings.max_bytes ?? batchLimits.bytes
      },
      policy: { ...handoffPolicy, giveUpAfter: durationIn(settings, "give_up_after") ?? handoffPolicy.giveUpAfter },
      order: settings.order ?? "strict",
      start: settings.start ?? "first"
    }
  })

const durationIn = (settings: HandoffSettings, name: "timeout" | "give_up_after"): Duration.Duration | undefined => {
  const text = settings[name]
  return text === undefined ? undefined : handoffSettings[name].type.parse(text)
}

const targetOf = (settings: HandoffSettings): Target => ({
  // The checks of the file ensure that there is one.
  url: new URL(settings.url ?? ""),
  timeout: durationIn(settings, "timeout") ?? postTimeout,
  allowPrivate: settings.allow_private ?? false,
  proxy: settings.proxy === undefined ? undefined : proxyOf(settings.proxy)
})

const keysOf = (
  file: string,
  source: FileSource,
  consumer: string,
  fs: FileSystem.FileSystem
): SourceHandoff["keys"] => {
  const named = source.settings.handoff?.[consumer]
  const found = keySourceFrom(
    { file: named?.secret_file, variable: named?.secret_env, command: named?.secret_command },
    { file, fs, setting: "secret", lineOf: (setting) => source.lineOf("handoff", consumer, setting) }
  )
  // The checks of the file ensure that there is one.
  if (found === undefined) return Effect.die(new Error(`the hand-off to ${consumer} has no secret`))
  return Effect.flatMap(found.read, (text) => {
    const keys = "problem" in text ? text : keysIn(text.value)
    return "problem" in keys
      ? Effect.fail(new PaymentsConfigError({ problems: [{ setting: found.setting, problem: keys.problem }] }))
      : Effect.succeed(keys.value)
  })
}

/** Reads keys, one per line. A problem has no part of the text. */
export const keysIn = (text: Redacted.Redacted<string>): Checked<Keys> => {
  const lines = Redacted.value(text).split(/\r?\n/).map((line) => line.trim())
  const keys: globalThis.Array<SigningKey> = []
  for (const [index, line] of lines.entries()) {
    if (line === "") continue
    const parsed = parseSigningKey(Redacted.make(line))
    if (Result.isFailure(parsed)) {
      return { problem: `has no key in line ${index + 1}: expected ${parsed.failure.expected}` }
    }
    keys.push(parsed.success)
  }
  if (keys.length > mostKeys) return { problem: `has more than ${mostKeys} keys` }
  return Array.isReadonlyArrayNonEmpty(keys) ? { value: keys } : { problem: "has no key" }
}

/** A failure is not kept. Neither is an interruption, as `Effect.cachedWithTTL` would. */
const cachedKeys = (read: SourceHandoff["keys"]): SourceHandoff["keys"] => {
  let known: { readonly keys: Keys; readonly readAt: number } | undefined
  return Effect.gen(function*() {
    const now = yield* Monotonic.millis
    if (known !== undefined && now - known.readAt < Duration.toMillis(keyLife)) return known.keys
    const keys = yield* read
    known = { keys, readAt: now }
    return keys
  })
}

/** Returns what a sender needs. Its connections close with the scope. */
export const senderOf = (
  { consumer, limits, lists, order, policy, shape, target }: SourceHandoff,
  /** `keys`: those of the hand-off, without their errors. Nothing is sent while they cannot be read. */
  given: Pick<SenderOptions, "maintenance" | "isFollowing" | "keys" | "untilWoken" | "onAttempt" | "lossAt">
): Effect.Effect<SenderOptions, never, Scope.Scope> =>
  Effect.map(makePost(Redacted.value(target)), (post) => ({
    consumer,
    lists,
    shape,
    limits,
    order,
    policy,
    post,
    ...given
  }))

/** Creates the consumer of a hand-off, unless there is one. Returns whether it was created. */
export const createConsumer = Effect.fnUntraced(function*(
  { consumer, start }: Pick<SourceHandoff, "consumer" | "start">,
  maintenance: Maintenance
): Effect.fn.Return<boolean, MoveError> {
  const states = yield* maintenance.consumerStates
  if (states.some(({ name }) => name === consumer)) return false
  const { last, pruned } = yield* maintenance.changeRange
  const position = start === "now" ? last : pruned
  yield* moveConsumer(maintenance, { name: consumer, position, when: "create" })
  return true
})
