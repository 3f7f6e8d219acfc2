/**
 * Decides which text of an answer is safe to show in errors, logs, spans and metrics. A service may put anything into
 * its answers: the key, a cursor, a filter value, a document number, a name. So text is shown only if it has a form
 * that these values do not have. Text that this client has sent or received as a secret is never shown.
 */
import { Hash } from "effect"
import { Base64Url, Hex } from "effect/encoding"

/** Shown instead of a content type that is not in the list below. */
const unknownType = "an unknown type"

/** The content types that APIs, gateways and web servers commonly send. */
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

/**
 * Returns the media type of a `content-type` header without parameters, or {@link unknownType} if it is not a common
 * one.
 */
export const safeContentType = (header: string | undefined): string | undefined => {
  if (header === undefined) return undefined
  const type = header.split(";", 1)[0]?.trim().toLowerCase() ?? ""
  return contentTypes.has(type) ? type : unknownType
}

/** Error codes that consist of one word, including those of gRPC (https://grpc.io/docs/guides/status-codes/). */
const oneWordCodes = new Set(
  (
    "ABORTED BADREQUEST BLOCKED CANCELED CANCELLED CONFLICT DISABLED ERROR EXPIRED FAILED FORBIDDEN INTERNAL INVALID " +
    "MAINTENANCE MISSING NOTFOUND OVERLOADED REJECTED REVOKED SUSPENDED THROTTLED TIMEOUT UNAUTHENTICATED UNAUTHORIZED " +
    "UNAVAILABLE UNIMPLEMENTED UNKNOWN"
  ).split(" ")
)

/** Whether a text looks like an error code, such as `BAD_FILTER`, and not like a name, a number or a key. */
export const looksLikeCode = (text: string): boolean =>
  oneWordCodes.has(text) || (/^(?=.*[A-Z])(?=.*_)/.test(text) && text.length <= 64 && text.split("_").every(isCodeWord))

/**
 * Whether a word consists of letters with at most 5 digits before or after them, or of at most 5 digits: `OAUTH2`,
 * `3DS`, `01017`. Keys and document numbers have more digits.
 */
const isCodeWord = (word: string): boolean => /^\d{0,5}[A-Z]*\d{0,5}$/.test(word) && !/\d{6}/.test(word)

/** The common forms of request ids. */
const requestIds: ReadonlyArray<RegExp> = [
  // A UUID.
  /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
  // Trace and span ids, nginx's `$request_id`, Cloudflare's ray id with its airport. A letter is required, to exclude
  // numbers.
  /^(?=.*\d)(?=.*[a-f])[0-9a-f]{16,64}(?:-[A-Z]{3})?$/i,
  // A ULID.
  /^(?=.*[A-Z])[0-7][0-9A-HJKMNP-TV-Z]{25}$/,
  // AWS X-Ray.
  /^(?:Root=)?1-[0-9a-f]{8}-[0-9a-f]{24}$/,
  // `req_…` and similar prefixes. The rest must contain a digit, but must not be a long number.
  /^(?:correlation|corr|request|req|rid|trace)[-_.:](?=[^\d]*\d)(?!\d{7,}$)[A-Za-z0-9-]{1,40}$/i
]

const keyPrefix = /(?:^|[-_.:])(?:ak|api|key|pat|pk|rk|secret|sk|token)[-_.:]/i

/** Whether a text looks like a request id, and not like a key, a name or a number. */
export const looksLikeRequestId = (text: string): boolean =>
  !keyPrefix.test(text) && requestIds.some((form) => form.test(text))

/** The secrets of a client: its keys, and the cursors and filter values of its requests. */
export interface Secrets {
  /** Remembers a key until the client is closed. */
  readonly addKey: (key: string) => void
  /** Remembers a cursor or a filter value: the latest 256 as text, the 100,000 before them as hashes. */
  readonly add: (value: string) => void
  /**
   * Whether a text shows a secret. Case and punctuation are ignored. The text shows a key, or one of the latest 256
   * values, if it contains it or is an excerpt of it. It may contain it plain, in hex or in base64url. The text shows
   * an older value only if it equals it, or if a segment between dots does, as in the path of a field.
   */
  readonly areIn: (text: string) => boolean
}

/** Covers the values of all requests that a client runs at the same time, and of the requests shortly before. */
const mostRemembered = 256

/**
 * A scan shows field names of its records only at its end. By then, the cursors and filter values of early pages are no
 * longer among the latest.
 */
const mostHashes = 100_000

/** A longer value is not remembered. Most servers refuse URLs of this length, so requests with such a value fail. */
const longestRemembered = 8192

/** Returns the secrets of a client with these keys. */
export const makeSecrets = (keys: Iterable<string>): Secrets => {
  const allKeys = new Set(keys)
  const latest = new Set<string>()
  /** Hashes of the values before the latest. */
  const hashes = new Set<number>()
  /**
   * The normalized forms of each secret. Computed at the first comparison, because clients without errors never
   * compare.
   */
  const forms = new Map<string, ReadonlyArray<Normalized>>()
  const formsOf = (secret: string): ReadonlyArray<Normalized> => {
    const computed = forms.get(secret) ??
      [secret, Hex.encode(secret), Base64Url.encode(secret)].map(normalize).filter(({ bare }) => bare !== "")
    forms.set(secret, computed)
    return computed
  }
  return {
    addKey: (key) => void allKeys.add(key),
    add: (value) => {
      if (value === "" || value.length > longestRemembered) return
      const oldest = addLatest(latest, value, mostRemembered)
      if (oldest === undefined) return
      forms.delete(oldest)
      const { bare } = normalize(oldest)
      if (bare !== "") addLatest(hashes, Hash.string(bare), mostHashes)
    },
    areIn: (text) => {
      const normalized = normalize(text)
      if (hashes.size > 0 && [text, ...text.split(".")].some((part) => hashes.has(Hash.string(normalize(part).bare)))) {
        return true
      }
      return [...allKeys, ...latest].some((secret) =>
        text.includes(secret) || formsOf(secret).some((form) => shows(normalized, form))
      )
    }
  }
}

/** Adds a value at the end, or moves it there. If there are more than `most`, removes and returns the first one. */
const addLatest = <A>(values: Set<A>, value: A, most: number): A | undefined => {
  values.delete(value)
  values.add(value)
  if (values.size <= most) return undefined
  const first = values.values().next().value
  if (first !== undefined) values.delete(first)
  return first
}

/** A text in lower case without punctuation, for comparison. */
interface Normalized {
  /** The letters and digits only. */
  readonly bare: string
  readonly words: ReadonlyArray<string>
}

const normalize = (text: string): Normalized => {
  const words = text.toLowerCase().split(/[^\p{L}\p{N}]+/u)
  return { words, bare: words.join("") }
}

/** A shorter secret occurs inside other words by chance, so a text shows it only as a whole word. */
const shortestContained = 4

/** A shorter text may be a part of a secret by chance. Punctuation does not count. */
const shortestExcerpt = 8

/** Whether the text contains the secret, or is an excerpt of it. */
const shows = (text: Normalized, { bare }: Normalized): boolean =>
  bare.length < shortestContained
    ? text.words.includes(bare)
    : text.bare.includes(bare) || (text.bare.length >= shortestExcerpt && bare.includes(text.bare))
