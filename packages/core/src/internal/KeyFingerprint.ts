/**
 * Fingerprints of keys: they show whether two keys differ, without the keys. PBKDF2 (RFC 8018) makes guessing slow. The
 * salt of each caller makes the fingerprints of different callers incomparable. 32 bits are too few to identify a key:
 * one in 2^32 guessed keys has the same fingerprint.
 */
import { Redacted } from "effect"

/** The key of a layer that sends no requests. It has no fingerprint. */
export const noKey = Redacted.make("test")

const iterations = 100_000
const bits = 32

/** The fingerprints by key and salt. Each is derived once. */
const known = new WeakMap<Redacted.Redacted<string>, Map<string, Promise<string>>>()

/** Returns a function from a salt to the fingerprint of `key`, in hex, or to undefined for {@link noKey}. */
export const keyFingerprintOf =
  (key: Redacted.Redacted<string>) => async (salt: string): Promise<string | undefined> => {
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
