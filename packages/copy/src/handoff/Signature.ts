/**
 * Signs and verifies webhooks as Standard Webhooks 1.0.0 describes it (github.com/standard-webhooks, "Signature scheme").
 * The signed bytes are the id, the time in whole seconds and the body, joined by full stops. A symmetric secret signs with
 * HMAC-SHA-256 (`v1`), an ed25519 key with `v1a`. Each key adds its own signature, so that keys can be replaced without a
 * gap. Verifying reads the received bytes: a body that was parsed and written again is another body.
 */
import { type Array, Data, Redacted, Result } from "effect"
import * as crypto from "node:crypto"

/** A key that a receiver has: a secret or a public key. */
export interface VerifyingKey {
  readonly scheme: "v1" | "v1a"
  /** A public key cannot. */
  readonly canSign: boolean
  readonly key: Redacted.Redacted<crypto.KeyObject>
}

/** A key that a sender has. */
export interface SigningKey extends VerifyingKey {
  readonly canSign: true
}

/** Why a text is no key. The message has no part of it. */
export class InvalidKey extends Data.TaggedError("InvalidKey")<{ readonly expected: string }> {
  override get message() {
    return `the key is invalid: expected ${this.expected}.`
  }
}

/** Bytes of a symmetric secret (the specification's table of schemes). */
const [fewestSecretBytes, mostSecretBytes] = [24, 64]

const ed25519Bytes = 32

/** What precedes the 32 bytes of an ed25519 key in DER (RFC 8410 §7 and §4). */
const [seedPrefix, publicPrefix] = ["302e020100300506032b657004220420", "302a300506032b6570032100"].map((hex) =>
  Buffer.from(hex, "hex")
) as [Buffer, Buffer] // of two texts

/**
 * Reads a key: `whsec_` and a secret of 24 to 64 bytes, `whsk_` and an ed25519 secret key, or `whpk_` and its public key,
 * each in base64. A secret key is its seed of 32 bytes, or the seed with the public key.
 */
export const parseKey = (text: Redacted.Redacted<string>): Result.Result<VerifyingKey, InvalidKey> => {
  const [, prefix, encoded = ""] = /^(whsec|whsk|whpk)_(.*)$/s.exec(Redacted.value(text).trim()) ?? []
  const bytes = fromBase64(encoded)
  switch (prefix) {
    case "whsec":
      return bytes !== undefined && bytes.length >= fewestSecretBytes && bytes.length <= mostSecretBytes
        ? Result.succeed(keyOf("v1", crypto.createSecretKey(bytes), true))
        : invalid(`whsec_ and ${fewestSecretBytes} to ${mostSecretBytes} bytes in base64`)
    case "whsk": {
      const key = bytes === undefined ? undefined : secretKeyIn(bytes)
      return key === undefined
        ? invalid("whsk_ and an ed25519 secret key of 32 or 64 bytes in base64")
        : Result.succeed(keyOf("v1a", key, true))
    }
    case "whpk":
      return bytes?.length === ed25519Bytes
        ? Result.succeed(keyOf("v1a", publicKeyOf(bytes), false))
        : invalid("whpk_ and an ed25519 public key of 32 bytes in base64")
    default:
      return invalid("a text that begins with whsec_, whsk_ or whpk_")
  }
}

/** Reads a key that can sign. */
export const parseSigningKey = (text: Redacted.Redacted<string>): Result.Result<SigningKey, InvalidKey> =>
  Result.flatMap(
    parseKey(text),
    (key) =>
      key.canSign
        ? Result.succeed({ ...key, canSign: true as const })
        : invalid("whsec_ or whsk_, because a public key cannot sign")
  )

const keyOf = (scheme: VerifyingKey["scheme"], key: crypto.KeyObject, canSign: boolean): VerifyingKey => ({
  scheme,
  canSign,
  key: Redacted.make(key)
})

const invalid = (expected: string) => Result.fail(new InvalidKey({ expected }))

/** Returns undefined for a text that base64 would not write so: some decoders ignore what does not belong there. */
const fromBase64 = (text: string): Buffer | undefined => {
  const bytes = Buffer.from(text, "base64")
  return text !== "" && bytes.toString("base64") === text ? bytes : undefined
}

const secretKeyIn = (bytes: Buffer): crypto.KeyObject | undefined => {
  if (bytes.length !== ed25519Bytes && bytes.length !== 2 * ed25519Bytes) return undefined
  const der = Buffer.concat([seedPrefix, bytes.subarray(0, ed25519Bytes)])
  const key = crypto.createPrivateKey({ key: der, format: "der", type: "pkcs8" })
  const stated = bytes.subarray(ed25519Bytes)
  return stated.length === 0 || stated.equals(publicBytesOf(key)) ? key : undefined
}

const publicKeyOf = (bytes: Uint8Array): crypto.KeyObject =>
  crypto.createPublicKey({ key: Buffer.concat([publicPrefix, bytes]), format: "der", type: "spki" })

const publicHalf = (key: crypto.KeyObject) => key.type === "private" ? crypto.createPublicKey(key) : key

const publicBytesOf = (key: crypto.KeyObject): Buffer =>
  publicHalf(key).export({ format: "der", type: "spki" }).subarray(publicPrefix.length)

/** Returns the public key of an ed25519 key as a receiver gets it, `whpk_…`; undefined for a symmetric secret. */
export const publicKeyText = ({ key, scheme }: VerifyingKey): string | undefined =>
  scheme === "v1" ? undefined : `whpk_${publicBytesOf(Redacted.value(key)).toString("base64")}`

/** A webhook without its signatures. */
export interface Message {
  /** It has no full stop, which separates the signed parts. */
  readonly id: string
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly body: Uint8Array
}

export interface SignedHeaders {
  readonly "webhook-id": string
  readonly "webhook-timestamp": string
  readonly "webhook-signature": string
}

const signedBytes = (id: string, timestamp: string, body: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body])

/** Signs a message with each key, in their order. */
export const sign = (
  { body, id, timestamp }: Message,
  keys: Array.NonEmptyReadonlyArray<SigningKey>
): SignedHeaders => {
  const seconds = String(timestamp)
  const bytes = signedBytes(id, seconds, body)
  return {
    "webhook-id": id,
    "webhook-timestamp": seconds,
    "webhook-signature": keys.map((key) => signatureOf(key, bytes)).join(" ")
  }
}

/** What a signer signs. The signer compares objects, not their content. */
interface Signing {
  readonly message: Omit<Message, "timestamp">
  /** Seconds since 1970. */
  readonly timestamp: number
  readonly keys: Array.NonEmptyReadonlyArray<SigningKey>
}

/** Signs messages, and remembers the last one with its headers. */
export interface Signer {
  readonly sign: (signing: Signing) => SignedHeaders
  /** Signs a message with the keys of the last one. To sign the same again then takes no time. */
  readonly ahead: (signing: Omit<Signing, "keys">) => void
  readonly forget: () => void
}

export const makeSigner = (): Signer => {
  let last: Signing & { readonly headers: SignedHeaders } | undefined
  const signNext: Signer["sign"] = ({ keys, message, timestamp }) => {
    if (last?.message === message && last.timestamp === timestamp && last.keys === keys) return last.headers
    last = { message, timestamp, keys, headers: sign({ ...message, timestamp }, keys) }
    return last.headers
  }
  return {
    sign: signNext,
    ahead: (next) => {
      if (last !== undefined) signNext({ ...next, keys: last.keys })
    },
    forget: () => {
      last = undefined
    }
  }
}

const signatureOf = ({ key, scheme }: VerifyingKey, bytes: Uint8Array): string => {
  const secret = Redacted.value(key)
  const signature = scheme === "v1"
    ? crypto.createHmac("sha256", secret).update(bytes).digest()
    : crypto.sign(null, bytes, secret)
  return `${scheme},${signature.toString("base64")}`
}

/**
 * `incomplete`: a header is missing or has another form. `tooOld` and `tooNew`: the time is outside the tolerance.
 * `unsigned`: none of the keys has made one of the signatures.
 */
export type SignatureProblem = "incomplete" | "tooOld" | "tooNew" | "unsigned"

/** How far the time of a request may be from the receiver's clock, in seconds. */
export const toleranceSeconds = 300

/** Returns why a received request is refused, or undefined if one of the keys has signed exactly these bytes. */
export const signatureProblem = (
  { body, headers }: {
    /** By their names in lower case. */
    readonly headers: { readonly [name: string]: string | undefined }
    readonly body: Uint8Array
  },
  keys: ReadonlyArray<VerifyingKey>,
  { now, tolerance = toleranceSeconds }: {
    /** Seconds since 1970. */
    readonly now: number
    /** Seconds. */
    readonly tolerance?: number | undefined
  }
): SignatureProblem | undefined => {
  const [id = "", timestamp = "", signatures = ""] = ["id", "timestamp", "signature"].map((name) =>
    headers[`webhook-${name}`]
  )
  if (!/^[\x21-\x2d\x2f-\x7e]{1,256}$/.test(id) || !/^\d{1,12}$/.test(timestamp) || signatures === "") {
    return "incomplete"
  }
  const age = now - Number(timestamp)
  if (age > tolerance) return "tooOld"
  if (-age > tolerance) return "tooNew"
  const bytes = signedBytes(id, timestamp, body)
  const given = signatures.split(" ")
  return keys.some((key) => given.some((signature) => isSignatureOf(key, bytes, signature))) ? undefined : "unsigned"
}

const isSignatureOf = (key: VerifyingKey, bytes: Uint8Array, signature: string): boolean => {
  if (key.scheme === "v1") {
    // The texts are compared, because different texts may decode to the same bytes.
    const [expected, given] = [Buffer.from(signatureOf(key, bytes)), Buffer.from(signature)]
    return expected.length === given.length && crypto.timingSafeEqual(expected, given)
  }
  const decoded = signature.startsWith("v1a,") ? fromBase64(signature.slice("v1a,".length)) : undefined
  return decoded !== undefined && crypto.verify(null, bytes, publicHalf(Redacted.value(key.key)), decoded)
}
