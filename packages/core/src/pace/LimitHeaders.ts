/**
 * What the headers of answers say about the service's limit. Many services name it, in one of these ways:
 *
 * - `RateLimit-Remaining` and `RateLimit-Reset`, also with `X-` (draft-ietf-httpapi-ratelimit-headers-07; GitHub, GitLab)
 * - `RateLimit: limit=100, remaining=0, reset=5` (draft 07), or `RateLimit: "default";r=0;t=5` (later drafts)
 */
type Headers = { readonly [name: string]: string | undefined }

/** What one answer says. */
interface Left {
  readonly remaining: string | undefined
  /** A number of seconds, or a time in seconds since 1970. */
  readonly reset: string | undefined
}

/** The beginnings of the names of the two headers. */
const starts = ["ratelimit-", "x-ratelimit-", "x-rate-limit-"]

const leftIn = (headers: Headers): Left | undefined => {
  const combined = headers["ratelimit"]
  if (combined !== undefined) {
    return { remaining: memberOf(combined, "remaining", "r"), reset: memberOf(combined, "reset", "t") }
  }
  for (const start of starts) {
    const remaining = headers[`${start}remaining`]
    if (remaining !== undefined) return { remaining, reset: headers[`${start}reset`] }
  }
  return undefined
}

/** With several limits, the text has each member several times. Then it says nothing here. */
const memberOf = (text: string, ...names: ReadonlyArray<string>): string | undefined => {
  const found = text.split(/[,;]/).map((part) => part.trim().split("=")).filter(([name = ""]) => names.includes(name))
  return found.length === 1 ? found[0]?.[1] : undefined
}

/**
 * Returns a function that gets the headers of each answer. If they say that no request is left, it returns when one is again: in
 * seconds, or as a time in seconds since 1970. It returns undefined as long as no answer had any request left: a number that is
 * always 0 is no limit.
 */
export const makeLimitReset = (): (headers: Headers) => number | undefined => {
  let hasCounted = false
  return (headers) => {
    const { remaining = "", reset = "" } = leftIn(headers) ?? {}
    if (!/^\d+$/.test(remaining)) return undefined
    if (Number(remaining) > 0) hasCounted = true
    return hasCounted && Number(remaining) === 0 && /^\d{1,12}(\.\d+)?$/.test(reset) ? Number(reset) : undefined
  }
}

/** A number of seconds is smaller than this, and a time is larger. */
const firstTime = 1_000_000_000

/** Returns the milliseconds until a reset. `now` is in milliseconds since 1970, `elapsed` is the time since the answer. */
export const msUntil = (reset: number, { elapsed, now }: { readonly elapsed: number; readonly now: number }): number =>
  reset * 1000 - (reset < firstTime ? elapsed : now)
