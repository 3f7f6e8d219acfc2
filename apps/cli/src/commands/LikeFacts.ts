/**
 * Makes the options of a sandbox that serves as a service was observed. Only certain facts count. A fact is repeated by
 * one entry; `docs/sandbox.md` says which answers are not.
 */
import { type KnownFact, lifeWith } from "@payments/copy/facts"
import { Lists } from "@payments/core"
import type { Behaviour, Fault } from "@payments/core/testing"
import type { OptionsOfList, SandboxOptions } from "@payments/sandbox"

type Options = Pick<SandboxOptions, "assumedLimit" | "faults" | "invoiceParameters" | "perList">

/** How one list is served. */
interface Served extends OptionsOfList {
  readonly behaviour: Behaviour
  readonly faults: ReadonlyArray<Fault>
  /** The names of its parameters, by field. */
  readonly parameters: { readonly [field: string]: string }
}

/** The certain facts of a list. */
interface Known {
  readonly list: Lists.AnyList
  readonly answer: (name: string) => string | undefined
  /** The answers to the facts whose names begin so, by the rest of their names. */
  readonly answers: (start: string) => ReadonlyArray<readonly [rest: string, answer: string]>
  /** The first number of the last observation, such as that of records. */
  readonly seen: (name: string) => number | undefined
}

/** Returns how a list with that answer is served. `field` is what the name of the fact has after that of the entry. */
type Repeat = (answer: string, known: Known, field: string) => Partial<Served> | undefined

export const likeFacts = (facts: ReadonlyArray<KnownFact>): Options => {
  const certain = facts.filter(({ degree }) => degree === "certain")
  const served = Lists.map((list) => {
    const ofAddress = certain.filter((fact) => Lists.byName[fact.list].baseAddress === list.baseAddress)
    return merged([
      ...servedBy(repeatedOfList, knownOf(list, ofAddress.filter((fact) => fact.list === list.name))),
      ...servedBy(repeatedOfAddress, knownOf(list, ofAddress))
    ])
  })
  const { defaultLimit } = served.invoices.behaviour
  return {
    ...(defaultLimit === undefined ? {} : { assumedLimit: defaultLimit }),
    invoiceParameters: served.invoices.parameters,
    perList: Lists.map(({ name }) => {
      const { faults: _all, parameters: _ofInvoices, ...options } = served[name]
      return options
    }),
    faults: Lists.all.flatMap(({ name }) => served[name].faults.map((fault) => ({ ...fault, list: name })))
  }
}

const knownOf = (list: Lists.AnyList, facts: ReadonlyArray<KnownFact>): Known => {
  const find = (wanted: string) => facts.find(({ name }) => name === wanted)
  const seen = (name: string) => {
    const number = Number.parseInt(/\d+/.exec(find(name)?.seen ?? "")?.[0] ?? "", 10)
    return Number.isNaN(number) ? undefined : number
  }
  return {
    list,
    seen,
    answer: (name) => find(name)?.answer,
    answers: (start) =>
      facts.flatMap(({ answer = "", name }) => name.startsWith(start) ? [[name.slice(start.length), answer]] : [])
  }
}

const servedBy = (entries: { readonly [name: string]: Repeat }, known: Known): ReadonlyArray<Partial<Served>> =>
  Object.entries(entries).flatMap(([name, repeat]) =>
    known.answers(name).flatMap(([field, answer]) =>
      field === "" || name.endsWith("-") ? repeat(answer, known, field) ?? [] : []
    )
  )

/** Of two entries that choose the same, the first one counts. */
const merged = (all: ReadonlyArray<Partial<Served>>): Served => {
  const lastFirst = all.toReversed()
  return {
    ...Object.assign({}, ...lastFirst),
    behaviour: Object.assign({}, ...lastFirst.map(({ behaviour }) => behaviour)),
    parameters: Object.assign({}, ...lastFirst.map(({ parameters }) => parameters)),
    faults: all.flatMap(({ faults = [] }) => faults)
  }
}

/** Chooses a behaviour by the answer. */
const choose = <const Name extends keyof Behaviour>(
  name: Name,
  values: { readonly [answer: string]: NonNullable<Behaviour[Name]> }
) =>
(answer: string): Partial<Served> | undefined =>
  values[answer] === undefined ? undefined : { behaviour: { [name]: values[answer] } }

const behaving = (behaviour: Behaviour | undefined): Partial<Served> | undefined =>
  behaviour === undefined ? undefined : { behaviour }

/** A service that does not know the parameter `limit` does nothing with a limit. */
const ofLimit = (repeat: Repeat): Repeat => (answer, known, field) =>
  known.answer("limit-1") === "more" ? undefined : repeat(answer, known, field)

/** The same for `cursor`. */
const ofCursor = (repeat: Repeat): Repeat => (answer, known, field) =>
  ["refused", "repeated records"].includes(known.answer("next-page") ?? "") ? undefined : repeat(answer, known, field)

/** A parameter whose name nobody knows. */
const unknownName = (field: string) => ({ parameters: { [field]: `unknown-${field}` } })

const largeLimit = (name: string): Repeat =>
  ofLimit((answer, { answer: other, seen }) => {
    const records = seen(name)
    if (answer === "refused") {
      // A limit between those that a probe sends.
      const isBetween = name === "limit-1000" && other("limit-101") === "obeyed"
      return { behaviour: { largeLimit: "refuse", ...(isBetween ? { largestLimit: 500 } : {}) } }
    }
    if (answer === "obeyed") return { behaviour: { largeLimit: "obey" } }
    if (answer !== "another limit" || records === undefined) return undefined
    // Less than a limit that is obeyed is no largest limit.
    return { behaviour: records < 100 ? { largeLimit: "default" } : { largeLimit: "clamp", largestLimit: records } }
  })

/** Pages of a service that hides records are short anyway. */
const smallPages = (records: number | undefined, { answer, answers }: Known): Partial<Served> | undefined => {
  const isHiding = answer("hidden-records") === "yes" || answers("absent-").some(([, one]) => one === "other records")
  if (records === undefined || isHiding) return undefined
  // The largest limit is another one.
  const isShort = answer("limit-101") === "refused" || answer("limit-1000") === "refused"
  return isShort
    ? { faults: [{ fault: "shortPage", records }] }
    : { behaviour: { largestLimit: records, largeLimit: "clamp" } }
}

/** With another name for the limit, a service that refuses it refuses any unknown parameter. */
const limitText: Repeat = (answer, known) =>
  answer === "refused" && known.answer("limit-1") === undefined && known.answer("name-limit") !== undefined
    ? { behaviour: { unknownParameter: "refuse" } }
    : choose("textLimit", { "refused": "refuse", "another limit": "default" })(answer)

const smallLimit = (name: string): Repeat =>
  ofLimit((answer, { seen }) => {
    if (answer === "refused") return { behaviour: { smallLimit: "refuse" } }
    return answer === "another limit"
      ? { behaviour: { smallLimit: seen(name) === 1 ? "clamp" : "default" } }
      : undefined
  })

/** Not of a service that fills its pages: the first one, which a probe reads, is full then. */
const shortPages: Repeat = (_answer, { answer, seen }) => ({
  faults: [{
    fault: "shortPage",
    records: Math.max(1, seen("short-pages") ?? 1),
    rate: 0.3,
    ...(answer("limit-100") === "obeyed" ? { pages: "later" } : {})
  }]
})

const counts: { readonly [answer: string]: Partial<Served> } = {
  "the page": { count: "page" },
  "the list": { count: "total" },
  "what follows the page": { count: "remaining" },
  "the page and what follows": { count: "unread" },
  "no integer": { faults: [{ fault: "envelope", member: "count" }] }
}

/** With `--live`, new records appear where the order says. Those of a list that is newest first can be misplaced. */
const orders: { readonly [answer: string]: Partial<Served> } = {
  "createdAt, newest first": { order: "newest" },
  "createdAt, oldest first": { order: "oldest" },
  "no date": { order: "shuffled", misplaced: 0.5 }
}

const order: Repeat = (answer) => orders[answer.startsWith("not by ") ? "no date" : answer]

const places: { readonly [answer: string]: Partial<Served> } = {
  "first": { order: "newest" },
  "last": { order: "oldest", misplaced: 1 },
  "in several places": { order: "shuffled", misplaced: 0.5 }
}

const cursorLimits: { readonly [answer: string]: Behaviour } = {
  "a refusal": { cursorLimit: "refuse" },
  "the first page": { cursorLimit: "refuse", invalidCursor: "first page" },
  "the next records": { cursorLimit: "obey" },
  "the next 2 records": { cursorLimit: "keep" }
}

const cursorFilters: { readonly [answer: string]: Behaviour } = {
  "a refusal": { cursorFilters: "refuse" },
  "filtered records": { cursorFilters: "refuse", invalidCursor: "first page" },
  "the next page, without the filter": { cursorFilters: "keep" }
}

const cursorLife: Repeat = (answer) => {
  const cursorMs = lifeWith(answer)
  return cursorMs === undefined ? undefined : { faults: [{ fault: "cursorExpires", cursorMs }] }
}

/**
 * Filters whose parameters have names that nobody knows: a made-up value gives what an unknown parameter gives, and the
 * values of other filters do not.
 */
const unknownFilters = ({ answer, answers, list }: Known): ReadonlyArray<string> => {
  if (list.parameterNames === "documented") return []
  const ofUnknown = answer("unknown-parameter") === "refused" ? "a refusal" : "everything"
  const absent = answers("absent-")
  const alike = absent.filter(([, one]) => one === ofUnknown).map(([field]) => field)
  return alike.length === absent.length ? [] : alike
}

const unknownParameter: Repeat = (answer, known) =>
  merged([
    choose("unknownParameter", { ignored: "ignore", refused: "refuse" })(answer) ?? {},
    ...unknownFilters(known).map(unknownName)
  ])

const filter: Repeat = (answer, known, field) => {
  if (answer === "records that begin with it") return { behaviour: { filterMatch: "prefix" } }
  // A filter that gives no record for a value that none has is not ignored: it gives other dates, too.
  if (answer === "other records too" && known.answer(`absent-${field}`) === "no record") {
    return { behaviour: { dayFilter: "overlapping" } }
  }
  const hasOtherName = known.answer(`name-${field}`) !== undefined || unknownFilters(known).includes(field)
  return answer === "other records too" && !hasOtherName ? { faults: [{ fault: "ignoreFilter", field }] } : undefined
}

const absentValues = choose("absentValue", {
  "no record": "nothing",
  "a refusal": "refuse",
  "everything": "everything"
})

/** A status of records of the sandbox. */
const hiddenStatus = { payoutRequests: "processing", payinSources: "pending", invoices: "pending" } as const

const hidden = ({ list }: Known): Partial<Served> => ({ behaviour: { hiddenStatus: hiddenStatus[list.name] } })

const absentValue: Repeat = (answer, known, field) => {
  // A filter that is ignored, or has another name, shows nothing about values.
  if (known.answer(`filter-${field}`) === "other records too" || unknownFilters(known).includes(field)) return undefined
  // A service that ignores such a value also shows the records that it hides without a filter.
  return answer === "other records" ? merged([absentValues("everything") ?? {}, hidden(known)]) : absentValues(answer)
}

/** By the name of the fact, or its beginning before the name of a field. */
export const repeatedOfList: { readonly [name: string]: Repeat } = {
  "name-": (answer, _known, field) => ({ parameters: { [field]: answer } }),
  "next-page": (answer) => answer === "other records" ? undefined : unknownName("cursor"),
  "limit-1": (answer) => answer === "more" ? unknownName("limit") : undefined,
  "limit-1000": largeLimit("limit-1000"),
  "limit-101": largeLimit("limit-101"),
  "limit-100": ofLimit((answer, known) => answer === "fewer" ? smallPages(known.seen("limit-100"), known) : undefined),
  "page-records": (answer, known) => /^\d+$/.test(answer) ? smallPages(Number(answer), known) : undefined,
  "short-pages": shortPages,
  "limit-negative": smallLimit("limit-negative"),
  "limit-0": smallLimit("limit-0"),
  "limit-text": ofLimit(limitText),
  "default-limit": (answer) => /^\d+$/.test(answer) ? { behaviour: { defaultLimit: Number(answer) } } : undefined,
  "count": (answer) => counts[answer],
  "order": order,
  "list-order": order,
  "places": (answer) => places[answer],
  "page-size": choose("longPages", { "the same records with other content": "brief" }),
  "end-of-list": choose("endCursor", { "a null cursor": "null", "an empty cursor": "empty", "no cursor": "absent" }),
  "same-cursor": ofCursor(choose("cursorUse", { refused: "once" })),
  "cursor-list": ofCursor(choose("invalidCursor", { "a refusal": "refuse", "the first page": "first page" })),
  "cursor-limit": ofCursor((answer) => behaving(cursorLimits[answer])),
  "cursor-filters": ofCursor((answer) => behaving(cursorFilters[answer])),
  "cursor-key": ofCursor(choose("cursorKey", { "a refusal": "refuse", "the next page": "obey" })),
  "cursor-life": cursorLife,
  "cursor-place": (answer) => answer === "records of the page again" ? { cursors: "offset" } : undefined,
  "cursor-snapshot": (answer) => ({ cursors: answer === "no" ? "snapshot" : "keyset" }),
  "unknown-parameter": unknownParameter,
  "none-key": choose("missingKey", { 401: 401, 403: 403 }),
  "wrong-key": choose("wrongKey", { 401: 401, 403: 403 }),
  "filter-": filter,
  "absent-": absentValue,
  "prefix-": choose("filterMatch", { "records that begin with it": "prefix" }),
  "parts-": choose("dayFilter", { "records are missing": "partial", "records of other dates": "overlapping" }),
  "hidden-records": (answer, known) => answer === "yes" ? hidden(known) : undefined
}

const errors = choose("errors", {
  "application/json: code, message": "code",
  "application/json: error.code, error.message": "nested",
  "application/json: errors.code, errors.detail": "list",
  "application/problem+json: type, title, status, detail": "problem",
  "text/plain": "text",
  "text/html": "html"
})

const withFault = (fault: Fault | undefined): Partial<Served> | undefined =>
  fault === undefined ? undefined : { faults: [fault] }

const clock: Repeat = (answer, { seen }) => {
  if (answer === "no Date") return withFault({ fault: "header", name: "date", value: "" })
  const seconds = seen("clock") ?? 60
  return answer === "yes"
    ? undefined
    : withFault({ fault: "clock", aheadSeconds: answer === "it is ahead" ? seconds : -seconds })
}

/** Facts that are observed at one list of a base address, and concern all its lists. */
export const repeatedOfAddress: { readonly [name: string]: Repeat } = {
  "unknown-path": (answer) => /^4\d\d$/.test(answer) ? { behaviour: { unknownPath: Number(answer) } } : undefined,
  "error-key": errors,
  "error-parameter": errors,
  "limit-headers": (answer) => ({
    faults: answer === "none" ? [] : answer.split(", ").map((name) => ({ fault: "header", name, value: "100" }))
  }),
  "compression": (answer) =>
    withFault(
      (["gzip", "br", "deflate", "zstd"] as const).flatMap((encoding) =>
        encoding === answer ? [{ fault: "compress", encoding } as const] : []
      )[0]
    ),
  "conditional": (answer) =>
    answer === "no ETag" ? undefined : withFault({ fault: "etag", conditional: answer === "304" }),
  clock
}
