/** Signatures, against the library of Standard Webhooks, and the test vectors of RFC 8032. */
import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Redacted, Result, Schema } from "effect"
import { generateKeyPairSync, randomBytes } from "node:crypto"
import { Webhook } from "standardwebhooks"
import {
  makeSigner,
  type Message,
  parseKey,
  parseSigningKey,
  publicKeyText,
  sign,
  signatureProblem,
  type SignedHeaders,
  type SigningKey,
  type VerifyingKey
} from "../../src/handoff/Signature.ts"

const key = (text: string): VerifyingKey => Result.getOrThrow(parseKey(Redacted.make(text)))
const signing = (text: string): SigningKey => Result.getOrThrow(parseSigningKey(Redacted.make(text)))
const secret = (bytes = 32) => `whsec_${randomBytes(bytes).toString("base64")}`

const keyPair = () => {
  const { privateKey } = generateKeyPairSync("ed25519")
  return `whsk_${privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32).toString("base64")}`
}

const now = () => Math.floor(Date.now() / 1000)
const message = (body: string, timestamp = now()): Message => ({ id: "msg_1", timestamp, body: Buffer.from(body) })

const problem = (
  headers: SignedHeaders,
  body: Uint8Array,
  keys: ReadonlyArray<VerifyingKey>,
  at = Number(headers["webhook-timestamp"])
) => signatureProblem({ headers: { ...headers }, body }, keys, { now: at })

/** Returns the bytes with the one at an index changed. */
const altered = (bytes: Uint8Array, index: number, by: number): Buffer => {
  const copy = Buffer.from(bytes)
  copy[index] = ((copy[index] ?? 0) + by) % 256
  return copy
}

describe(`a signature (seed ${seed})`, () => {
  it.prop("of a symmetric secret is what the library signs, and both accept it", {
    body: Schema.String,
    id: Schema.Int
  }, ({ body, id }) => {
    const text = secret(24 + Math.abs(id) % 41)
    const sent: Message = { ...message(body), id: `msg_${id}` }
    const headers = sign(sent, [signing(text)])
    const library = new Webhook(text)
    const bytes = Buffer.from(sent.body)
    assert.strictEqual(
      headers["webhook-signature"],
      library.sign(sent.id, new Date(sent.timestamp * 1000), bytes)
    )
    assert.isUndefined(problem(headers, sent.body, [key(text)]))
    // The library parses what it has verified.
    const json = Buffer.from(JSON.stringify(body))
    const ofJson = sign({ ...sent, body: json }, [signing(text)])
    assert.strictEqual(library.verify(json, { ...ofJson }), JSON.parse(JSON.stringify(body)))
  })

  it.prop("of either scheme is refused after any byte has changed", {
    body: Schema.String.check(Schema.isMaxLength(40)),
    nth: Schema.Int
  }, ({ body, nth }) => {
    const dice = diceOf(seed, "altered", nth)
    for (const text of [secret(), keyPair()]) {
      const keys = [signing(text)] as const
      const sent = message(`{"x":${JSON.stringify(body)}}`)
      const headers = sign(sent, keys)
      const bytes = Buffer.from(sent.body)
      for (let index = 0; index < bytes.length; index++) {
        assert.strictEqual(problem(headers, altered(bytes, index, 1 + dice.below(255)), keys), "unsigned")
      }
      assert.strictEqual(problem(headers, Buffer.concat([bytes, Buffer.from(" ")]), keys), "unsigned")
      assert.strictEqual(problem(headers, bytes.subarray(0, -1), keys), "unsigned")
      for (const name of ["webhook-id", "webhook-timestamp", "webhook-signature"] as const) {
        const value = Buffer.from(headers[name])
        for (let index = 0; index < value.length; index++) {
          const changed = { ...headers, [name]: altered(value, index, 1 + dice.below(255)).toString("latin1") }
          assert.isDefined(problem(changed, bytes, keys, sent.timestamp), `${name} ${index}`)
        }
      }
      assert.strictEqual(problem(headers, bytes, [key(secret()), key(keyPair())]), "unsigned")
    }
  })

  it("is added for each key while a key is replaced, and a receiver needs one of them", () => {
    const [old, next, pair] = [secret(), secret(), keyPair()]
    const sent = message("{}")
    const headers = sign(sent, [signing(old), signing(next), signing(pair)])
    assert.deepStrictEqual(headers["webhook-signature"].split(" ").map((one) => one.split(",")[0]), ["v1", "v1", "v1a"])
    for (const text of [old, next, pair, publicKeyText(key(pair)) ?? ""]) {
      assert.isUndefined(problem(headers, sent.body, [key(text)]))
    }
    for (const text of [old, next]) {
      assert.deepStrictEqual(new Webhook(text).verify(Buffer.from(sent.body), { ...headers }), {})
    }
    assert.isUndefined(problem(headers, sent.body, [key(secret()), key(next)]))
  })

  it("is that of the message, the time and the keys of now, whatever was signed before", () => {
    const dice = diceOf(seed, "signer")
    const signer = makeSigner()
    const keySets = [[signing(secret())], [signing(secret()), signing(keyPair())]] as const
    const messages = [message("a"), message("b")] as const
    for (let run = 0; run < 200; run++) {
      const [one, keys, timestamp] = [dice.pick(messages), dice.pick(keySets), dice.below(2)]
      if (dice.chance(0.5)) signer.ahead({ message: dice.pick(messages), timestamp: dice.below(2) })
      assert.deepStrictEqual(signer.sign({ message: one, timestamp, keys }), sign({ ...one, timestamp }, keys))
    }
  })

  it("is refused before and after the tolerance, without its headers, and with an id that has a full stop", () => {
    const keys = [signing(secret())] as const
    const sent = message("{}", 1_700_000_000)
    const headers = sign(sent, keys)
    for (
      const [at, expected] of [[0, undefined], [300, undefined], [301, "tooOld"], [-300, undefined], [
        -301,
        "tooNew"
      ]] as const
    ) {
      assert.strictEqual(problem(headers, sent.body, keys, sent.timestamp + at), expected)
    }
    for (const name of Object.keys(headers)) {
      for (const value of [undefined, ""]) {
        const received = { headers: { ...headers, [name]: value }, body: sent.body }
        assert.strictEqual(signatureProblem(received, keys, { now: sent.timestamp }), "incomplete")
      }
    }
    for (const timestamp of ["+1700000000", "1700000000.0", "1.7e9", " 1700000000", "x", "-1"]) {
      assert.strictEqual(problem({ ...headers, "webhook-timestamp": timestamp }, sent.body, keys, 1.7e9), "incomplete")
    }
    // The signed text is the same as that of the id "a", the time 1700000000 and the body "2.{}".
    const shifted = sign({ id: "a.1700000000", timestamp: 2, body: sent.body }, keys)
    assert.strictEqual(problem(shifted, sent.body, keys, 2), "incomplete")
  })

  it("with ed25519 is that of RFC 8032", () => {
    // §7.1, test 1: the message is empty, so only the key can be compared here.
    const seedHex = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    const publicHex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    const pair = key(`whsk_${Buffer.from(seedHex, "hex").toString("base64")}`)
    assert.strictEqual(publicKeyText(pair), `whpk_${Buffer.from(publicHex, "hex").toString("base64")}`)
    const both = Buffer.from(seedHex + publicHex, "hex").toString("base64")
    assert.strictEqual(publicKeyText(key(`whsk_${both}`)), publicKeyText(pair))
  })
})

describe("a key", () => {
  it("that is too short, too long, of another kind or not base64 is refused, without a part of it in the message", () => {
    const seedText = randomBytes(32).toString("base64")
    const invalid = [
      ...[0, 23, 65].map((bytes) => secret(bytes)),
      "",
      "whsec_",
      "whsec_***",
      `whsec_${randomBytes(32).toString("base64")}=`,
      `whsec_${randomBytes(31).toString("base64url")}`,
      `whsec_ ${randomBytes(24).toString("base64")}`,
      randomBytes(32).toString("base64"),
      `whsk_${randomBytes(31).toString("base64")}`,
      `whsk_${randomBytes(64).toString("base64")}`,
      `whpk_${randomBytes(33).toString("base64")}`,
      `whxx_${seedText}`
    ]
    for (const text of invalid) {
      const failure = Result.getOrThrow(Result.flip(parseKey(Redacted.make(text))))
      assert.match(failure.message, /^the key is invalid: expected .*[.]$/)
      if (text.length > 12) assert.notInclude(failure.message, text.slice(6, 14))
    }
    for (const bytes of [24, 64]) assert.strictEqual(key(secret(bytes)).scheme, "v1")
    assert.isTrue(key(`${secret()}\n`).canSign)
  })

  it("prints nothing of itself, and a public key cannot sign", () => {
    const text = secret()
    const shown = `${JSON.stringify(key(text))} ${String(key(text).key)}`
    assert.notInclude(shown, text.slice(6, 20))
    assert.isTrue(Result.isFailure(parseSigningKey(Redacted.make(publicKeyText(key(keyPair())) ?? ""))))
  })
})
