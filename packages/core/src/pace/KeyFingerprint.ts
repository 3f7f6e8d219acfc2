/**
 * Fingerprints of keys: they show whether two keys differ, without the keys. PBKDF2 (RFC 8018) makes guessing slow. The
 * salt of each caller makes the fingerprints of different callers incomparable. 32 bits are too few to identify a key:
 * one in 2^32 guessed keys has the same fingerprint.
 */
import { Function, Redacted } from "effect"

/** The key of a layer that sends no requests. It has no fingerprint. */
export const noKey = Redacted.make("test")

const iterations = 100_000
const bits = 32

/** Derives the fingerprint for a salt, in hex, or undefined for {@link noKey}. */
type KeyFingerprint = (salt: string) => Promise<string | undefined>

/** Returns a function from a salt to the fingerprint of `key`: the same function for the same key, so that callers can compare it. */
export const keyFingerprintOf = Function.memoize((key: Redacted.Redacted<string>): KeyFingerprint => {
  /** Each fingerprint is derived once. */
  const bySalt = new Map<string, Promise<string>>()
  return async (salt) => {
    if (key === noKey) return undefined
    const fingerprint = bySalt.get(salt) ?? derive(Redacted.value(key), salt)
    bySalt.set(salt, fingerprint)
    return await fingerprint
  }
})

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
