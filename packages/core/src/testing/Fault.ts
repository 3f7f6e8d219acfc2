/**
 * What can go wrong with a list service, as data: which requests a fault meets, and what it does to them. The schemas are
 * the catalogue; the behaviours are in `ListFaults.ts` (what a page holds) and `ReplyFaults.ts` (how it is answered).
 *
 * ```json
 * { "fault": "status", "status": 401, "from": 50 }
 * ```
 */
import { Schema } from "effect"
import { ListName } from "../Lists.ts"

const described = <S extends Schema.Top>(schema: S, description: string) => schema.annotate({ description })

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const Share = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const Millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))
/** How long a timer can wait: Node takes a longer time for no time at all. */
const Wait = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 31 - 1 }))
const Status = Schema.Int.check(Schema.isBetween({ minimum: 200, maximum: 599 }))
/** What Node sends as a header's value. */
const HeaderText = Schema.String.check(Schema.makeFilter((text) => /^[ -~]*$/.test(text) || "visible ASCII and spaces"))
/** JSON as text, so that it can say what parsing would lose. */
const JsonText = Schema.String.check(Schema.makeFilter((text) => isJson(text) || "JSON text"))

const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Which requests a fault meets. Every condition that is given must hold; with none, it meets all requests. */
const when = {
  list: Schema.optionalKey(described(ListName, "only requests of this list")),
  pages: Schema.optionalKey(
    described(Schema.Literals(["first", "later"]), "only requests without a cursor, or only those with one")
  ),
  nth: Schema.optionalKey(described(Count, "only the n-th of those requests, from 1")),
  from: Schema.optionalKey(described(Count, "from the n-th of those requests on")),
  to: Schema.optionalKey(described(Count, "up to the n-th of those requests")),
  every: Schema.optionalKey(described(Count, "every n-th of those requests")),
  rate: Schema.optionalKey(described(Share, "this share of those requests, drawn from the seed")),
  afterMs: Schema.optionalKey(described(Millis, "from so many milliseconds after the faults were set")),
  untilMs: Schema.optionalKey(described(Millis, "until so many milliseconds after the faults were set")),
  times: Schema.optionalKey(described(Count, "at most so many times"))
}

/** The names of the conditions, which every fault has. */
export const conditions = Object.keys(when)

const fault = <const Name extends string, const Fields extends Schema.Struct.Fields>(
  name: Name,
  description: string,
  fields: Fields
) => Schema.Struct({ fault: Schema.Literal(name), ...fields, ...when }).annotate({ identifier: name, description })

const Encoding = described(Schema.Literals(["gzip", "deflate", "br", "zstd"]), "how")

/** Faults of how a request is answered. */
export const replyFaults = {
  latency: fault("latency", "The answer comes late.", {
    ms: described(Wait, "milliseconds"),
    jitterMs: Schema.optionalKey(described(Wait, "up to so many more, drawn from the seed"))
  }),
  status: fault("status", "An error answer in the place of the page.", {
    status: described(Status, "the HTTP status"),
    retryAfter: Schema.optionalKey(
      described(Schema.Union([Schema.Finite, HeaderText]), "Retry-After: seconds, or any text as it is")
    ),
    retryAfterDate: Schema.optionalKey(
      described(Schema.Finite, "Retry-After as a date, so many seconds from now")
    ),
    shape: Schema.optionalKey(
      described(
        Schema.Literals(["code", "nested", "list", "problem", "text"]),
        "the shape of the error body; `code` unless given. Each repeats the query, as real ones do"
      )
    )
  }),
  rateLimit: fault("rateLimit", "429 with Retry-After once a key has asked too often.", {
    perSecond: described(Schema.Finite.check(Schema.isGreaterThan(0)), "requests per second and key"),
    burst: Schema.optionalKey(described(Count, "requests at once; 1 unless given"))
  }),
  reset: fault("reset", "The connection is reset before an answer.", {}),
  close: fault("close", "The connection is closed before an answer.", {}),
  truncate: fault("truncate", "The body stops before its end and the connection is closed.", {
    bytes: Schema.optionalKey(described(
      Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
      "bytes that still come; half of the body unless given"
    )),
    framing: Schema.optionalKey(
      described(
        Schema.Literals(["length", "chunked"]),
        "whether a Content-Length had promised more; `length` unless given"
      )
    )
  }),
  stall: fault("stall", "Nothing more comes, and the connection stays open.", {
    at: described(Schema.Literals(["headers", "body"]), "before the headers, or in the middle of the body")
  }),
  drip: fault("drip", "The body comes in small pieces.", {
    bytes: described(Count, "bytes per piece"),
    everyMs: described(Wait, "milliseconds between pieces")
  }),
  compress: fault("compress", "The body is compressed, asked for or not.", { encoding: Encoding }),
  bomb: fault("bomb", "A compressed body that inflates to many mebibytes.", {
    encoding: Encoding,
    mebibytes: described(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 256 })),
      "its size once inflated, 256 at most"
    )
  }),
  body: fault("body", "Another body in the place of the page.", {
    text: described(Schema.String, "the body"),
    contentType: Schema.optionalKey(described(HeaderText, "its type; `text/html` unless given")),
    status: Schema.optionalKey(described(Status, "200 unless given"))
  }),
  contentType: fault("contentType", "The page under another content type.", {
    value: described(HeaderText, "the type")
  }),
  redirect: fault("redirect", "A redirect to another address.", {
    location: described(HeaderText, "the address"),
    status: Schema.optionalKey(described(Schema.Literals([301, 302, 303, 307, 308]), "302 unless given"))
  }),
  cursorExpires: fault("cursorExpires", "A cursor is refused after a time, or after so many pages.", {
    cursorMs: Schema.optionalKey(described(Millis, "milliseconds for which a cursor is good")),
    cursorPages: Schema.optionalKey(described(Count, "pages after which a listing's cursors are refused")),
    status: Schema.optionalKey(described(Schema.Literals([400, 404, 410, 422]), "400 unless given"))
  }),
  envelope: fault("envelope", "A member of the page's envelope is not as documented.", {
    member: described(Schema.String, "`items`, `cursor`, `count`, or a new one"),
    value: Schema.optionalKey(described(JsonText, "its value as JSON text; its own, where `name` is given; else gone")),
    name: Schema.optionalKey(described(Schema.String, "another name for it")),
    duplicate: Schema.optionalKey(described(Schema.Boolean, "the member stays, and comes again under the same name"))
  })
}

/** Faults of what a page holds and where its cursor leads. */
export const listFaults = {
  cursorCycle: fault("cursorCycle", "The cursor leads back, so that the list never ends.", {
    length: described(Count, "pages in the circle; 1 repeats the page")
  }),
  emptyPage: fault("emptyPage", "A page without records, with a cursor to go on.", {}),
  shortPage: fault("shortPage", "Fewer records than the limit; the rest follows.", {
    records: described(Count, "records on the page")
  }),
  largePage: fault("largePage", "More records than the limit.", {
    joined: described(
      Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })),
      "pages that come as one, 100 at most"
    )
  }),
  emptyList: fault("emptyList", "An empty list in the place of a full one.", {}),
  ignoreFilter: fault("ignoreFilter", "Records that were not asked for.", {
    field: Schema.optionalKey(described(Schema.String, "the filter that is ignored; all of them unless given")),
    share: Schema.optionalKey(described(Share, "the share of records that are wrong; all unless given"))
  }),
  duplicate: fault("duplicate", "The last records of the page before come again.", {
    records: described(Count, "how many")
  }),
  skip: fault("skip", "Records are left out.", { records: described(Count, "how many, of each page") }),
  reorder: fault("reorder", "The last record of this page and the first of the next change places.", {}),
  field: fault("field", "A field of records is not as documented.", {
    field: described(Schema.String, "its name"),
    value: Schema.optionalKey(described(JsonText, "its value as JSON text; gone unless given")),
    share: Schema.optionalKey(described(Share, "the share of records; all unless given"))
  })
}

/** Every fault there is, by name. */
export const catalogue = { ...replyFaults, ...listFaults }

/** One fault: its name, its settings, and which requests it meets. */
export type Fault = { readonly [Name in keyof typeof catalogue]: (typeof catalogue)[Name]["Type"] }[
  keyof typeof catalogue
]

/** The fault of that name. */
export type FaultOf<Name extends Fault["fault"]> = Extract<Fault, { readonly fault: Name }>

/** One fault. */
export const Fault: Schema.Codec<Fault> = Schema.Union(Object.values(catalogue))
