/**
 * The URL of a rate limit store: a PostgreSQL database through which all processes that use a key share its request
 * rate. No message repeats a part of the URL, because an invalid URL may contain a password anywhere.
 */
import { PostgresUrl } from "@payments/copy"
import { Result } from "effect"

/** What the URL must be, for messages. */
export const expected = "postgres://HOST/DATABASE, or postgres://HOST/DATABASE?schema=NAME"

/** Fails with what is wrong with the URL. The default schema is `public`. */
export const parse = (text: string): Result.Result<PostgresUrl.PostgresUrl, string> => {
  if (!/^postgres(ql)?:\/\//.test(text)) return Result.fail(`It must be ${expected}.`)
  const isGiven = URL.parse(text)?.searchParams.has("schema") === true
  return Result.map(PostgresUrl.parse(text), (url) => isGiven ? url : { ...url, schema: "public" })
}
