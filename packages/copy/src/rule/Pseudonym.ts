/** Pseudonyms of values, and digests that show whether two keys are the same. */
import { Function, Redacted } from "effect"
import { createHmac, createSecretKey } from "node:crypto"

/** Returns the pseudonym of a value. */
export type ToPseudonym = (key: Redacted.Redacted<Uint8Array>, value: string) => string

/** Returns the pseudonym of a value: `ps1_` and 32 hexadecimal digits of its HMAC-SHA-256. */
export const pseudonym: ToPseudonym = (key, value) => `ps1_${hmac(key, value).slice(0, 32)}`

/** Returns the pseudonym of a value. A pseudonym, which a copy may have in place of a value, stays. */
export const pseudonymOnce: ToPseudonym = (key, value) => isPseudonym(value) ? value : pseudonym(key, value)

/** Whether a value has the form of a pseudonym. */
export const isPseudonym = (value: string): boolean => /^ps1_[0-9a-f]{32}$/.test(value)

/** A key object makes an HMAC seven times as fast as a key in bytes. */
const keyObjectOf = Function.memoize((key: Redacted.Redacted<Uint8Array>) => createSecretKey(Redacted.value(key)))

/** Returns the HMAC-SHA-256 of the text's UTF-8 in hexadecimal digits. */
export const hmac = (key: Redacted.Redacted<Uint8Array>, text: string): string =>
  createHmac("sha256", keyObjectOf(key)).update(text, "utf8").digest("hex")

/** Returns a text that shows whether two keys are the same, and nothing else about them. */
export const keyCheck = (key: Redacted.Redacted<Uint8Array>): string => hmac(key, "payments key check").slice(0, 32)
