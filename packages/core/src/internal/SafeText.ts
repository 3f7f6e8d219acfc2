/**
 * Which text of an answer may be shown, in errors, logs, spans and metrics. A service may repeat there what it was sent, or
 * what it holds: a key, a cursor, a filter value, a document number, a name. So text is shown only if it has a form that
 * such values do not have, and never if this client has sent or received it as a secret.
 */
import { Hash } from "effect"
import { Base64Url, Hex } from "effect/encoding"

/** Shown in the place of a content type that is not known. */
const unknownType = "an unknown type"

/** Those that APIs, gateways and web servers answer with. */
const contentTypes = new Set(
  (
    "application/gzip application/grpc application/hal+json application/javascript application/json application/ld+json " +
    "application/msgpack application/octet-stream application/pdf application/problem+json application/problem+xml " +
    "application/soap+xml application/vnd.api+json application/x-ndjson application/x-protobuf " +
    "application/x-www-form-urlencoded application/xhtml+xml application/xml application/yaml application/zip " +
    "image/gif image/jpeg image/png image/svg+xml multipart/byteranges multipart/form-data multipart/mixed " +
    "text/css text/csv text/event-stream text/html text/javascript text/markdown text/plain text/xml text/yaml"
  ).split(" ")
)

/** The media type that a header names, without its parameters. */
export const safeContentType = (header: string | undefined): string | undefined => {
  if (header === undefined) return undefined
  const type = header.split(";", 1)[0]?.trim().toLowerCase() ?? ""
  return contentTypes.has(type) ? type : unknownType
}

/** Codes of one word, gRPC's among them (https://grpc.io/docs/guides/status-codes/). */
const oneWordCodes = new Set(
  (
    "ABORTED BADREQUEST BLOCKED CANCELED CANCELLED CONFLICT DISABLED ERROR EXPIRED FAILED FORBIDDEN INTERNAL INVALID " +
    "MAINTENANCE MISSING NOTFOUND OVERLOADED REJECTED REVOKED SUSPENDED THROTTLED TIMEOUT UNAUTHENTICATED UNAUTHORIZED " +
    "UNAVAILABLE UNIMPLEMENTED UNKNOWN"
  ).split(" ")
)

/** Whether a text looks like an error's code, such as `BAD_FILTER`, rather than like a name, a number or a key. */
export const looksLikeCode = (text: string): boolean =>
  oneWordCodes.has(text) || (/^(?=.*[A-Z])(?=.*_)/.test(text) && text.length <= 64 && text.split("_").every(isCodeWord))

/** Letters, with a short number before or behind them: `OAUTH2`, `3DS`, `01017`. Keys and documents have more digits. */
const isCodeWord = (word: string): boolean => /^\d{0,5}[A-Z]*\d{0,5}$/.test(word) && !/\d{6}/.test(word)

/** What services name requests by. */
const requestIds: ReadonlyArray<RegExp> = [
  // A UUID.
  /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  // Trace and span ids, nginx's `$request_id`, Cloudflare's with its airport. A number has no letter.
  /^(?=.*\d)(?=.*[a-f])[0-9a-f]{16,64}(?:-[A-Z]{3})?$/i,
  // A ULID.
  /^(?=.*[A-Z])[0-7][0-9A-HJKMNP-TV-Z]{25}$/,
  // AWS X-Ray's.
  /^(?:Root=)?1-[0-9a-f]{8}-[0-9a-f]{24}$/,
  // `req_…` and its like: with a digit, but not a long number.
  /^(?:correlation|corr|request|req|rid|trace)[-_.:](?=[^\d]*\d)(?!\d{7,}$)[A-Za-z0-9-]{1,40}$/i
]

const keyPrefix = /(?:^|[-_.:])(?:ak|api|key|pat|pk|rk|secret|sk|token)[-_.:]/i

/** Whether a text looks like the id of a request, rather than like a key, a name or a number. */
export const looksLikeRequestId = (text: string): boolean =>
  !keyPrefix.test(text) && requestIds.some((form) => form.test(text))

/** What a client must not show: its keys, and the cursors and filter values of its latest requests. */
export interface Secrets {
  /** Remembers a key for as long as the client lives. */
  readonly addKey: (key: string) => void
  /** Remembers a cursor or a filter value: whole among the latest 256, and then the hash among 100,000. */
  readonly add: (value: string) => void
  /**
   * Whether a text equals or contains a key or one of the latest values, or is a part of one, in any spelling; or whether it,
   * or a part of it between dots as in the path of a field, equals an older value.
   */
  readonly areIn: (text: string) => boolean
}

/** As many requests as a client has under way, and what was asked before them. */
const mostRemembered = 256

/** A name of a field may be shown long after the page that it came with: at the end of a scan. */
const mostHashes = 100_000

/** Longer text is no cursor that an address can carry. */
const longestRemembered = 8192

/** Secrets of a client with these keys. */
export const makeSecrets = (keys: Iterable<string>): Secrets => {
  const kept = new Set(keys)
  const latest = new Set<string>()
  /** Of values that are no longer among the latest. */
  const hashes = new Set<number>()
  /** Computed when they are first compared: most clients never fail. */
  const known = new Map<string, ReadonlyArray<Spelling>>()
  const spellingsOf = (secret: string): ReadonlyArray<Spelling> => {
    const spellings = known.get(secret) ??
      [secret, Hex.encode(secret), Base64Url.encode(secret)].map(spell).filter(({ bare }) => bare !== "")
    known.set(secret, spellings)
    return spellings
  }
  return {
    addKey: (key) => void kept.add(key),
    add: (value) => {
      if (value === "" || value.length > longestRemembered) return
      const oldest = addLatest(latest, value, mostRemembered)
      if (oldest === undefined) return
      known.delete(oldest)
      const { bare } = spell(oldest)
      if (bare !== "") addLatest(hashes, Hash.string(bare), mostHashes)
    },
    areIn: (text) => {
      const shown = spell(text)
      if (hashes.size > 0 && [text, ...text.split(".")].some((part) => hashes.has(Hash.string(spell(part).bare)))) {
        return true
      }
      return [...kept, ...latest].some((secret) =>
        text.includes(secret) || spellingsOf(secret).some((spelling) => shows(shown, spelling))
      )
    }
  }
}

/** Adds a value at the end, or moves it there. Beyond so many, removes the first one and gives it. */
const addLatest = <A>(values: Set<A>, value: A, most: number): A | undefined => {
  values.delete(value)
  values.add(value)
  if (values.size <= most) return undefined
  const first = values.values().next().value
  if (first !== undefined) values.delete(first)
  return first
}

/** A text in one of its spellings, in lower case. */
interface Spelling {
  /** Letters and digits alone. */
  readonly bare: string
  readonly words: ReadonlyArray<string>
}

const spell = (text: string): Spelling => {
  const words = text.toLowerCase().split(/[^\p{L}\p{N}]+/u)
  return { words, bare: words.join("") }
}

/** Fewer letters and digits than these stand in many texts by chance: they count only as a word of their own. */
const fewest = 4

/** As many letters and digits of a secret as these do not stand in a text by chance. */
const telling = 8

const shows = (shown: Spelling, { bare }: Spelling): boolean =>
  bare.length < fewest
    ? shown.words.includes(bare)
    : shown.bare.includes(bare) || (shown.bare.length >= telling && bare.includes(shown.bare))
