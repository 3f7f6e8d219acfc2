/**
 * Tells one key from another without the key. PBKDF2 (RFC 8018) makes guessing slow, a salt of the caller's own makes
 * fingerprints of different callers incomparable, and 32 bits are too few to single a key out: of all keys that anybody
 * could try, one in four thousand million has the same fingerprint.
 */
import { Redacted } from "effect"

/** The key of a layer that makes no requests. */
export const noKey = Redacted.make("test")

const iterations = 100_000
const bits = 32

/** By key and salt: each is derived once. */
const known = new WeakMap<Redacted.Redacted<string>, Map<string, Promise<string>>>()

/** The fingerprints of a key by salt, in hex; undefined where there is no key. */
export const fingerprinting = (key: Redacted.Redacted<string>) => async (salt: string): Promise<string | undefined> => {
  if (key === noKey) return undefined
  const bySalt = known.get(key) ?? new Map<string, Promise<string>>()
  known.set(key, bySalt)
  const fingerprint = bySalt.get(salt) ?? derive(Redacted.value(key), salt)
  bySalt.set(salt, fingerprint)
  return await fingerprint
}

const utf8 = new TextEncoder()

const derive = async (key: string, salt: string): Promise<string> => {
  const { subtle } = globalThis.crypto
  const base = await subtle.importKey("raw", utf8.encode(key), "PBKDF2", false, ["deriveBits"])
  const derived = await subtle.deriveBits(
    { name: "PBKDF2", hash: "SHA-256", salt: utf8.encode(salt), iterations },
    base,
    bits
  )
  return Array.from(new Uint8Array(derived), (byte) => byte.toString(16).padStart(2, "0")).join("")
}
