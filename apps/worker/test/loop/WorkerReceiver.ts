/** A worker whose source has a consumer, the service that it reads, and the receiver. */
import { assert } from "@effect/vitest"
import { parseKey, signatureProblem } from "@payments/copy/handoff"
import { Sandbox } from "@payments/sandbox"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Context, Effect, Layer, Redacted, Result } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type Received, receiver, type Reply, secretText } from "../../../../packages/copy/test/handoff/Receiver.ts"

const hour = 3_600_000

/** Records change only when the world is advanced. */
const live = { speed: 0, appearPerHour: 40, changePerHour: 40, vanishPerHour: 2 }

/** Starts the service and the receiver, and writes the sources file. `more` are further settings of the hand-off. */
export const handedOff = Effect.fnUntraced(function*(
  { consumers = ["ledger"], more = "", delayMs, isFolder = false, records = 50, replyTo = () => "ok", to }: {
    readonly consumers?: ReadonlyArray<string>
    readonly more?: string
    readonly records?: number
    readonly replyTo?: (numbers: ReadonlyArray<number>) => Reply
    /** Whether the destination is a folder of files. */
    readonly isFolder?: boolean
    readonly delayMs?: () => number | Promise<void>
    /** The destination. Default: an SQLite file. */
    readonly to?: string
  } = {}
) {
  const folder = yield* temporaryFolder
  const sandbox = Context.get(yield* Layer.build(Sandbox.layer({ records, seed: 1, live })), Sandbox)
  const { paths, received, url } = yield* receiver(replyTo, delayMs)
  const copy = isFolder ? "files/copy.db" : "north.db"
  const [config, keys, file] = ["payments.toml", "ledger.keys", copy].map((name) => join(folder, name)) as [
    string,
    string,
    string
  ] // of three names
  writeFileSync(keys, secretText(), { mode: 0o600 })
  const table = (consumer: string) =>
    `[sources.north.handoff.${consumer}]\nurl = "${url}"\nsecret_file = "ledger.keys"\n${more}\n`
  const write = (tables = consumers.map(table).join("")) =>
    writeFileSync(
      config,
      `[sources.north]\nbase_url = "${sandbox.url}"\napi_key_env = "KEY"\nto = "${
        to ?? (isFolder ? `file:${folder}/files` : `sqlite:${file}`)
      }"\nevery = "1s"\n${tables}`
    )
  write()
  return {
    args: ["--config", config] as const,
    env: { KEY: "sandbox_test" },
    file,
    folder,
    keys,
    write,
    table,
    received,
    paths,
    url,
    serviceUrl: sandbox.url,
    advance: Effect.orDie(sandbox.advance(hour))
  }
})

/** The numbers of the accepted changes, without repeats by id, in the order of their arrival. */
export const numbersOf = (received: ReadonlyArray<Received>): ReadonlyArray<number> =>
  [...new Map(received.map((one) => [one.id, one])).values()].flatMap(({ numbers }) => numbers)

/** Fails if one of the requests is not signed with the key. */
export const assertSigned = (received: ReadonlyArray<Received>, key: string) => {
  const parsed = Result.getOrThrow(parseKey(Redacted.make(key)))
  for (const { body, headers } of received) {
    const now = Number(headers["webhook-timestamp"])
    assert.isUndefined(signatureProblem({ headers, body: Buffer.from(body) }, [parsed], { now }))
  }
}
