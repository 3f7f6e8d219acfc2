/**
 * The faults of a list service, as data: the requests that a fault applies to, and its settings. The schemas are the
 * catalogue of faults. `ListFaults.ts` implements the faults of records and cursors, `ReplyFaults.ts` those of answers.
 *
 * ```json
 * { "fault": "status", "status": 401, "from": 50 }
 * ```
 */
import { Schema } from "effect"
import { ListName } from "../model/Lists.ts"
import { isJson } from "../page/JsonParse.ts"

const described = <S extends Schema.Top>(schema: S, description: string) => schema.annotate({ description })
const optional = <S extends Schema.Top>(schema: S, description: string) =>
  Schema.optionalKey(described(schema, description))

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const Share = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
/** Milliseconds that a timer can wait. A timer of Node with a longer time fires at once. */
const Wait = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))
const Status = Schema.Int.check(Schema.isBetween({ minimum: 200, maximum: 599 }))
/** Text that Node sends as a header's value. */
const HeaderText = Schema.String.check(Schema.makeFilter((text) => /^[ -~]*$/.test(text) || "visible ASCII and spaces"))
/** JSON text, so that it can contain numbers and spellings that parsing would change. */
const JsonText = Schema.String.check(Schema.makeFilter((text) => isJson(text) || "JSON text"))

/** The conditions of a fault. It applies to requests that match all given conditions; without any, to all requests. */
const when = {
  list: optional(ListName, "only requests of this list"),
  pages: optional(Schema.Literals(["first", "later"]), "only requests without a cursor, or only those with one"),
  nth: optional(Count, "only the n-th of those requests, from 1"),
  from: optional(Count, "from the n-th of those requests on"),
  to: optional(Count, "up to the n-th of those requests"),
  every: optional(Count, "every n-th of those requests"),
  rate: optional(Share, "this share of those requests, chosen by the seed"),
  afterMs: optional(Millis, "from this many milliseconds after the faults were set"),
  untilMs: optional(Millis, "until this many milliseconds after the faults were set"),
  times: optional(Count, "at most this many times")
}

/** The names of the conditions, which every fault has. */
export const conditions = Object.keys(when)

const fault = <const Name extends string, const Fields extends Schema.Struct.Fields>(
  name: Name,
  description: string,
  fields: Fields
) => Schema.Struct({ fault: Schema.Literal(name), ...fields, ...when }).annotate({ identifier: name, description })

const Encoding = described(Schema.Literals(["gzip", "deflate", "br", "zstd"]), "the compression")

/** Faults of answers. */
export const replyFaults = {
  latency: fault("latency", "The answer is delayed.", {
    ms: described(Wait, "milliseconds"),
    jitterMs: optional(Wait, "up to this many more, chosen by the seed")
  }),
  status: fault("status", "An error instead of the page.", {
    status: described(Status, "the HTTP status"),
    retryAfter: optional(Schema.Union([Schema.Finite, HeaderText]), "Retry-After: seconds, or any text"),
    retryAfterDate: optional(Schema.Finite, "Retry-After as a date, this many seconds from now"),
    shape: optional(
      Schema.Literals(["code", "nested", "list", "problem", "text", "html"]),
      "the shape of the error body; default `code`. All contain the query, as real error messages do"
    )
  }),
  rateLimit: fault("rateLimit", "429 with Retry-After if a key sends too many requests.", {
    perSecond: described(Schema.Finite.check(Schema.isGreaterThan(0)), "requests per second and key"),
    burst: optional(Count, "requests that are allowed at once before the rate applies; default 1"),
    headers: optional(Schema.Boolean, "RateLimit-Remaining and RateLimit-Reset in each answer")
  }),
  reset: fault("reset", "The connection is reset before an answer.", {}),
  close: fault("close", "The connection is closed before an answer.", {}),
  truncate: fault("truncate", "The body ends early and the connection is closed.", {
    bytes: optional(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
      "bytes that are sent; default half of the body"
    ),
    framing: optional(
      Schema.Literals(["length", "chunked"]),
      "`length` announces the whole body in Content-Length; default `length`"
    )
  }),
  stall: fault("stall", "The server sends nothing more, and the connection stays open.", {
    at: described(Schema.Literals(["headers", "body"]), "before the headers, or in the middle of the body")
  }),
  drip: fault("drip", "The body is sent in small chunks.", {
    bytes: described(Count, "bytes per chunk"),
    everyMs: described(Wait, "milliseconds between chunks")
  }),
  compress: fault("compress", "The body is compressed, even if the client did not request that.", {
    encoding: Encoding
  }),
  bomb: fault("bomb", "A compressed body that is many mebibytes large when decompressed.", {
    encoding: Encoding,
    mebibytes: described(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 256 })),
      "its decompressed size, 256 at most"
    )
  }),
  body: fault("body", "Another body instead of the page.", {
    text: described(Schema.String, "the body"),
    contentType: optional(HeaderText, "its type; default `text/html`"),
    status: optional(Status, "default 200")
  }),
  contentType: fault("contentType", "The page with another content type.", {
    value: described(HeaderText, "the type")
  }),
  header: fault("header", "A further header.", {
    name: described(
      Schema.String.check(Schema.makeFilter((name) => /^[a-z-]+$/.test(name) || "a-z and -")),
      "its name"
    ),
    value: described(HeaderText, "its value")
  }),
  clock: fault("clock", "The Date header of a service whose clock is wrong.", {
    aheadSeconds: described(Schema.Finite, "how far it is ahead; behind if negative")
  }),
  etag: fault("etag", "An ETag of the body.", {
    conditional: optional(
      Schema.Boolean,
      "304 without a body if the request has this ETag in If-None-Match; by default that header is ignored"
    )
  }),
  redirect: fault("redirect", "A redirect to another address.", {
    location: described(HeaderText, "the address"),
    status: optional(Schema.Literals([301, 302, 303, 307, 308]), "default 302")
  }),
  cursorExpires: fault("cursorExpires", "A cursor is refused after some time, or after some pages.", {
    cursorMs: optional(Millis, "milliseconds for which a cursor is valid"),
    cursorPages: optional(Count, "pages after which a listing's cursors are refused"),
    status: optional(Schema.Literals([400, 404, 410, 422]), "default 400")
  }),
  envelope: fault("envelope", "A member of the page's envelope is not as documented.", {
    member: described(Schema.String, "`items`, `cursor`, `count`, or a new one"),
    value: optional(
      JsonText,
      "its value as JSON text. Default: the member is removed, or keeps its value if `name` is given"
    ),
    name: optional(Schema.String, "its new name"),
    duplicate: optional(Schema.Boolean, "the original member stays as well")
  })
}

/** Faults of the records and the cursor of a page. */
export const listFaults = {
  cursorCycle: fault("cursorCycle", "The cursor leads back to an earlier page, so that the list never ends.", {
    length: described(Count, "pages in the cycle; 1 repeats the page")
  }),
  emptyPage: fault("emptyPage", "A page without records, but with a cursor.", {}),
  shortPage: fault("shortPage", "Fewer records than the limit; the others follow on later pages.", {
    records: described(Count, "records on the page")
  }),
  largePage: fault("largePage", "More records than the limit.", {
    joined: described(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
      "pages that are joined into one, 100 at most"
    )
  }),
  emptyList: fault("emptyList", "An empty list instead of the records.", {}),
  ignoreFilter: fault("ignoreFilter", "Records that do not match the filters.", {
    field: optional(Schema.String, "the filter that is ignored; default all"),
    share: optional(Share, "the share of records that do not match; default all")
  }),
  duplicate: fault("duplicate", "The last records of the previous page are repeated.", {
    records: described(Count, "the number of records")
  }),
  skip: fault("skip", "Records are left out.", { records: described(Count, "the number of records, on each page") }),
  reorder: fault("reorder", "The last record of a page and the first of the next page are swapped.", {}),
  field: fault("field", "A field of the records is not as documented.", {
    field: described(Schema.String, "its name"),
    value: optional(JsonText, "its value as JSON text. Default: the field is removed"),
    share: optional(Share, "the share of records; default all")
  })
}

/** All faults, by name. */
export const catalogue = { ...replyFaults, ...listFaults }

/** One fault: its name, its settings and its conditions. */
export type Fault = { readonly [Name in keyof typeof catalogue]: (typeof catalogue)[Name]["Type"] }[
  keyof typeof catalogue
]

/** The fault of that name. */
export type FaultOf<Name extends Fault["fault"]> = Extract<Fault, { readonly fault: Name }>

/** The schema of one fault. */
export const Fault: Schema.Codec<Fault> = Schema.Union(Object.values(catalogue))
