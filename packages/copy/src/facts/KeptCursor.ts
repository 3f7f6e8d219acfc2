/**
 * A cursor that a run keeps for later runs, to see for how many days it is accepted. It is stored with the evidence of the
 * fact, encrypted with the service's key. With that key, anyone can request a cursor.
 */
import { type Lists, PaymentsConfig } from "@payments/core"
import { Effect, type FileSystem, Option, type Path, Redacted, Schema } from "effect"
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto"
import type { Evidence } from "../port/Judgement.ts"
import type { SinkError } from "../port/Sink.ts"
import { NotObserved } from "./Exchange.ts"
import { evidenceIn } from "./FactsFile.ts"
import type { FactStore } from "./FactStore.ts"

const Kept = Schema.Struct({
  cursor: Schema.String,
  /** When its page was requested and when it was complete, in milliseconds since the epoch. */
  between: Schema.Tuple([Schema.Int, Schema.Int]),
  /** `sent` is stored before it is sent for the first time: a service may accept a cursor once only. */
  use: Schema.Literals(["none", "sent", "repeatable"])
})
export interface KeptCursor extends Schema.Schema.Type<typeof Kept> {}

/** The cursor of one list. */
export interface Keeper {
  /** The cursor of an earlier run, unless another one was kept since. */
  readonly earlier: () => KeptCursor | undefined
  readonly hasOne: () => boolean
  /** Stores a cursor in its place, or none. */
  readonly keep: (cursor: KeptCursor | undefined) => Effect.Effect<void, NotObserved>
}

/** The fact whose evidence has the cursor. */
export const keptWith = "cursor-life"

/** Opens the cursor of each list. If it is stored with another key, a later run keeps another one. */
export const keepersOf = (
  config: PaymentsConfig["Service"],
  store: FactStore
): Effect.Effect<(list: Lists.AnyList) => Keeper, SinkError, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const facts = yield* store.read
    return (list) => {
      const box = boxOf(PaymentsConfig.keysOf(config)[list.baseAddress], list)
      const stored = evidenceIn(facts, list.label, keptWith).kept
      const found = stored === undefined ? undefined : Option.getOrUndefined(box.open(stored))
      let earlier = found?.use === "sent" ? undefined : found
      let hasOne = earlier !== undefined
      return {
        earlier: () => earlier,
        hasOne: () => hasOne,
        keep: (cursor) => {
          earlier = cursor?.cursor === earlier?.cursor ? cursor : undefined
          hasOne = cursor !== undefined
          const change = ({ kept: _before, ...evidence }: Evidence): Evidence =>
            cursor === undefined ? evidence : { ...evidence, kept: box.seal(cursor) }
          return store.change(list, (evidence) => new Map([[keptWith, change(evidence(keptWith))]])).pipe(
            Effect.provideContext(context),
            Effect.uninterruptible,
            // The evidence is stored in the same place, and that says why it fails.
            Effect.mapError(() => new NotObserved({ reason: "a cursor cannot be stored", mustStop: true }))
          )
        }
      }
    }
  })

const encode = Schema.encodeSync(Schema.fromJsonString(Kept))
const decode = Schema.decodeOption(Schema.fromJsonString(Kept))

const [cipher, saltBytes, ivBytes, tagBytes] = ["aes-256-gcm", 16, 12, 16] as const

/** Encrypts with a key that is derived from the service's key and a random salt. Only the same list can open it. */
const boxOf = (apiKey: Redacted.Redacted<string>, { label }: Lists.AnyList) => {
  const keyWith = (salt: Uint8Array) =>
    new Uint8Array(hkdfSync("sha256", Redacted.value(apiKey), salt, `payments kept cursor ${label}`, 32))
  return {
    seal: (kept: KeptCursor): string => {
      const [salt, iv] = [randomBytes(saltBytes), randomBytes(ivBytes)]
      const encryption = createCipheriv(cipher, keyWith(salt), iv)
      const text = Buffer.concat([encryption.update(encode(kept), "utf8"), encryption.final()])
      return Buffer.concat([salt, iv, encryption.getAuthTag(), text]).toString("base64")
    },
    open: (sealed: string): Option.Option<KeptCursor> => {
      const bytes = Buffer.from(sealed, "base64")
      const [iv, tag, text] = [saltBytes, saltBytes + ivBytes, saltBytes + ivBytes + tagBytes]
      try {
        const decryption = createDecipheriv(cipher, keyWith(bytes.subarray(0, iv)), bytes.subarray(iv, tag))
        decryption.setAuthTag(bytes.subarray(tag, text))
        return decode(Buffer.concat([decryption.update(bytes.subarray(text)), decryption.final()]).toString("utf8"))
      } catch {
        return Option.none()
      }
    }
  }
}
