/** Draws services whose undocumented rules are known, to compare what a probe finds with the truth. */
import type { Lists } from "@payments/core"
import type { SandboxOptions } from "@payments/sandbox"
import type { Dice } from "./Seed.ts"

/** How a service disturbs a probe. */
export type Disturbance = "quiet" | "moving" | "failing"

/** The right answers by fact. */
export type Truth = { readonly [fact: string]: ReadonlyArray<string> }

/**
 * Facts that no entry says the truth about: with ignored and renamed filters, they depend on which values are tried, and
 * the life of a cursor on the pauses of the probe.
 */
const unjudged = new Set(["two-filters", "cursor-filters", "cursor-life"])

/** Whether requests can decide the fact. The values of a sandbox do not always have a beginning of their own. */
export const canBeDecided = ({ isDecidable, truth }: HiddenRules, list: Lists.AnyList, fact: string): boolean =>
  (truth(list)[fact] ?? []).length > 0 && !fact.startsWith("prefix-") && isDecidable(list, fact)

/** A service, and the truth about its lists. */
export interface HiddenRules {
  readonly options: SandboxOptions
  /** Whether the probe gets a second key. It takes requests, so only some do. */
  readonly hasOtherKey: boolean
  readonly truth: (list: Lists.AnyList) => Truth
  /** False if the service does not show the truth. */
  readonly isDecidable: (list: Lists.AnyList, fact: string) => boolean
}

/** Whether an answer is right. Undefined if there is no truth to compare it with. */
export const isRight = (
  truth: HiddenRules["truth"],
  list: Lists.AnyList,
  fact: string,
  answer: string | undefined
): boolean | undefined => truth(list)[fact]?.includes(answer ?? "") ?? (unjudged.has(fact) ? undefined : false)

/** With `oddities`, a service also has rules that few services have. */
export const drawRules = (dice: Dice, disturbance: Disturbance, { oddities = false } = {}): HiddenRules => {
  const usual = draw(dice)
  const odd: Rules["odd"] = oddities ? drawOddities(dice) : {}
  const rules: Rules = { ...usual, cursors: odd.cursors ?? usual.cursors, odd }
  return {
    options: optionsOf(rules, disturbance),
    hasOtherKey: rules.odd.cursorKey !== undefined,
    truth: (list) => ({
      ...pageTruth(rules, list),
      ...cursorTruth(rules, list, disturbance),
      ...filterTruth(rules, list),
      ...(list.name === "payinSources" ? {} : transportTruth(rules)),
      ...(list.name === "invoices" ? { "name-limit": ["limit"], "name-cursor": ["cursor"] } : {}),
      ...oddTruth(rules, list)
    }),
    isDecidable: (list, fact) => isShown(rules, list, fact, disturbance)
  }
}

interface Rules extends Omit<ReturnType<typeof draw>, "cursors"> {
  readonly cursors: "keyset" | "offset" | "snapshot"
  readonly odd: Partial<ReturnType<typeof drawOddities>>
}

const draw = (dice: Dice) => ({
  seed: dice.below(1_000_000),
  records: dice.pick([150, 400, 1003]),
  order: dice.pick(["newest", "oldest", "shuffled"] as const),
  count: dice.pick(["page", "total", "remaining"] as const),
  cursors: dice.pick(["keyset", "offset"] as const),
  assumedLimit: 10 + dice.below(60),
  /** An invoice filter whose parameter has another name. */
  renamed: dice.chance(0.4) ? dice.pick(["contract", "settlementDate", "reference"] as const) : undefined,
  /** An invoice filter that is ignored. */
  ignored: dice.chance(0.3) ? dice.pick(["contract", "reference"] as const) : undefined,
  encoding: dice.chance(0.6) ? dice.pick(["gzip", "br"] as const) : undefined,
  aheadSeconds: dice.pick([0, 0, 90, -90]),
  hasLimitHeader: dice.chance(0.5),
  /** Virtual hours per hour of a service whose lists change. */
  speed: dice.pick([100, 1000, 10_000]),
  etag: dice.pick(["no ETag", "no", "304"] as const),
  behaviour: {
    largeLimit: dice.pick(["refuse", "clamp", "obey"] as const),
    smallLimit: dice.pick(["refuse", "clamp", "default"] as const),
    textLimit: dice.pick(["refuse", "default"] as const),
    unknownParameter: dice.pick(["ignore", "refuse"] as const),
    missingKey: dice.pick([401, 403] as const),
    wrongKey: dice.pick([401, 403] as const),
    unknownPath: dice.pick([404, 400, 403] as const),
    errors: dice.pick(["code", "nested", "list", "problem", "text"] as const),
    cursorLimit: dice.pick(["refuse", "obey", "keep"] as const),
    cursorFilters: dice.pick(["refuse", "keep"] as const),
    invalidCursor: dice.pick(["refuse", "first page"] as const),
    absentValue: dice.pick(["nothing", "everything", "refuse"] as const),
    filterMatch: dice.pick(["exact", "exact", "prefix"] as const)
  }
})

const listNames = ["payoutRequests", "payinSources", "invoices"] as const

/** Each has a share of the services. */
const drawOddities = (dice: Dice) => ({
  /** What is done with a limit over it. */
  largestLimit: dice.chance(0.3) ? dice.pick([50, 200, 500] as const) : undefined,
  defaultLimit: dice.chance(0.3) ? dice.pick([10, 50, 100] as const) : undefined,
  hasHidden: dice.chance(0.1),
  /** A parameter of invoices with another name. */
  renamed: dice.chance(0.15) ? dice.pick(["limit", "cursor"] as const) : undefined,
  /** Records on some pages, however many follow. */
  shortPage: dice.chance(0.1) ? dice.pick([3, 30] as const) : undefined,
  /** A list with few records, and how many. */
  small: dice.chance(0.15) ? { name: dice.pick(listNames), records: dice.pick([0, 1] as const) } : undefined,
  /** What `count` is. */
  count: dice.chance(0.15) ? dice.pick(["absent", "seven"] as const) : undefined,
  endCursor: dice.chance(0.2) ? dice.pick(["empty", "absent"] as const) : undefined,
  cursorUse: dice.chance(0.1) ? "once" as const : undefined,
  hasHtml: dice.chance(0.15),
  /** What a filter by day leaves out or adds. */
  dayFilter: dice.chance(0.2) ? dice.pick(["partial", "overlapping"] as const) : undefined,
  /** What is done with the cursor of another key. */
  cursorKey: dice.chance(0.15) ? dice.pick(["obey", "refuse"] as const) : undefined,
  /** What a cursor is instead of a position. */
  cursors: dice.chance(0.3) ? "snapshot" as const : undefined
})

const otherNames = { contract: "contractId", settlementDate: "settlement_date", reference: "invoiceReference" } as const

const rates = { appearPerHour: 600, changePerHour: 600, vanishPerHour: 300 }

const failures: SandboxOptions["faults"] = [
  { fault: "status", status: 429, rate: 0.04 },
  { fault: "status", status: 503, rate: 0.04 },
  { fault: "reset", rate: 0.02 },
  { fault: "latency", ms: 1, jitterMs: 5 },
  { fault: "cursorExpires", cursorMs: 500 }
]

const optionsOf = (rules: Rules, disturbance: Disturbance): SandboxOptions => {
  const { aheadSeconds, behaviour, encoding, etag, hasLimitHeader, ignored, odd, renamed, speed, ...options } = rules
  return {
    ...options,
    behaviour: {
      ...behaviour,
      largeLimit: largeLimitOf(rules),
      ...(odd.largestLimit === undefined ? {} : { largestLimit: odd.largestLimit }),
      ...(odd.defaultLimit === undefined ? {} : { defaultLimit: odd.defaultLimit }),
      ...(odd.hasHidden === true ? { hiddenStatus: "pending" } : {}),
      ...(odd.endCursor === undefined ? {} : { endCursor: odd.endCursor }),
      ...(odd.cursorUse === undefined ? {} : { cursorUse: odd.cursorUse }),
      ...(odd.hasHtml === true ? { errors: "html" } : {}),
      ...(odd.dayFilter === undefined ? {} : { dayFilter: odd.dayFilter }),
      ...(odd.cursorKey === undefined ? {} : { cursorKey: odd.cursorKey })
    },
    ...(odd.small === undefined ? {} : { records: recordsOf(rules, odd.small) }),
    invoiceParameters: {
      ...(renamed === undefined ? {} : { [renamed]: otherNames[renamed] }),
      ...(odd.renamed === undefined ? {} : { [odd.renamed]: oddNames[odd.renamed] })
    },
    ...(disturbance === "moving" ? { live: { ...rates, speed } } : {}),
    faults: [
      ...(ignored === undefined ? [] : [{ fault: "ignoreFilter", list: "invoices", field: ignored } as const]),
      ...(odd.shortPage === undefined ? [] : [{ fault: "shortPage", records: odd.shortPage, rate: 0.3 } as const]),
      ...(odd.count === undefined
        ? []
        : [{ fault: "envelope", member: "count", ...(odd.count === "seven" ? { value: "7" } : {}) } as const]),
      ...(encoding === undefined ? [] : [{ fault: "compress", encoding } as const]),
      ...(etag === "no ETag" ? [] : [{ fault: "etag", conditional: etag === "304" } as const]),
      ...(hasLimitHeader ? [{ fault: "header", name: "x-ratelimit-limit", value: "100" } as const] : []),
      { fault: "clock", aheadSeconds } as const,
      ...(disturbance === "failing" ? failures : [])
    ]
  }
}

/** A service refuses limits over 500, and treats limits over 50 and 200 as those. */
const largeLimitOf = ({ behaviour, odd }: Rules) =>
  odd.largestLimit === undefined ? behaviour.largeLimit : odd.largestLimit === 500 ? "refuse" : "clamp"

const recordsOf = ({ records }: Rules, small: NonNullable<Rules["odd"]["small"]>) => {
  const of = (name: Lists.ListName) => name === small.name ? small.records : records
  return { payoutRequests: of("payoutRequests"), payinSources: of("payinSources"), invoices: of("invoices") }
}

const oddNames = { limit: "pageSize", cursor: "after" } as const

/** What the oddities change in the truth. */
const oddTruth = (rules: Rules, { limits, name }: Lists.AnyList): Truth => {
  const { behaviour, odd } = rules
  const renamed = name === "invoices" ? odd.renamed : undefined
  const isIgnored = behaviour.unknownParameter === "ignore"
  const treated = { refuse: "refused", clamp: "another limit", obey: "obeyed" }[largeLimitOf(rules)]
  const over = (limit: number) => [limit <= (odd.largestLimit ?? 100) ? "obeyed" : treated]
  const hasFewer = odd.hasHidden === true || odd.shortPage !== undefined
  return {
    "limit-100": [
      ...(odd.largestLimit === 50 ? [] : ["obeyed"]),
      ...(odd.largestLimit === 50 || hasFewer ? ["fewer"] : [])
    ],
    ...(hasFewer ? { "limit-1": ["obeyed", "fewer"] } : {}),
    "limit-101": over(101),
    "limit-1000": over(1000),
    ...(limits.default === undefined ? {} : { "default-limit": [String(odd.defaultLimit ?? limits.default)] }),
    ...(odd.count === undefined ? {} : { count: odd.count === "absent" ? ["no integer"] : [] }),
    ...(odd.hasHidden === true ? { "hidden-records": ["yes"] } : {}),
    ...(odd.endCursor === undefined
      ? {}
      : { "end-of-list": [odd.endCursor === "empty" ? "an empty cursor" : "no cursor"] }),
    ...(odd.cursorUse === undefined ? {} : { "same-cursor": behaviour.invalidCursor === "refuse" ? ["refused"] : [] }),
    // The cursors that the fault issues are those of any key.
    ...(odd.shortPage === undefined
      ? {}
      : { "cursor-key": ["the next page", "the first page", "other records", "a refusal"] }),
    ...(renamed === undefined ? {} : { [`name-${renamed}`]: [oddNames[renamed]] }),
    // Before the name is known, the cursor has no effect.
    ...(renamed === "cursor"
      ? {
        "next-page": ["other records", isIgnored ? "repeated records" : "refused"],
        "same-cursor": [odd.cursorUse === "once" ? "refused" : "accepted", isIgnored ? "accepted" : "refused"]
      }
      : {})
  }
}

/** Facts that rest on full pages, on a limit or on a cursor. */
const restsOn = {
  fullPages: /^(limit-|default-limit|count|page-size|cursor-|next-page|order|name-limit)/,
  nothing: /^(first-page|.*-key|unknown-path)$/
}

/** Whether a service shows a fact. */
const isShown = (rules: Rules, { name }: Lists.AnyList, fact: string, disturbance: Disturbance): boolean => {
  const { odd, records } = rules
  const most = odd.largestLimit ?? 100
  // A list that ends before the limit does not show a larger one.
  if (fact === "limit-1000" && largeLimitOf(rules) === "obey" && (records < 1000 || disturbance === "moving")) {
    return false
  }
  if (fact === "limit-1000" && largeLimitOf(rules) === "clamp" && records <= most) return false
  if (most === 50 && ["limit-101", "limit-1000"].includes(fact)) return false
  if (odd.small?.name === name) return restsOn.nothing.test(fact)
  if ((odd.hasHidden === true || odd.shortPage !== undefined) && restsOn.fullPages.test(fact)) return false
  // Longer lists are not read to their end.
  if (fact === "count" && rules.count !== "page" && records > 5 * most) return false
  if (["hidden-records", "cursor-place", "cursor-snapshot"].includes(fact)) return false
  if (fact.startsWith("parts-")) {
    return records < 200 && most !== 50 && disturbance !== "moving" && odd.shortPage === undefined
  }
  if (odd.dayFilter === "overlapping" && /^(filter|name)-settlementDate$/.test(fact)) return false
  return true
}

const pageTruth = ({ assumedLimit, behaviour, count, order }: Rules, { limits }: Lists.AnyList): Truth => {
  const treatment = { refuse: ["refused"], clamp: ["another limit"], default: ["another limit"], obey: ["obeyed"] }
  return {
    "first-page": ["a page"],
    "next-page": ["other records"],
    "same-cursor": ["accepted"],
    "end-of-list": ["a null cursor"],
    "limit-1": ["obeyed"],
    "limit-100": ["obeyed"],
    "limit-101": treatment[behaviour.largeLimit],
    "limit-1000": treatment[behaviour.largeLimit],
    "limit-0": treatment[behaviour.smallLimit],
    "limit-negative": treatment[behaviour.smallLimit],
    "limit-text": [behaviour.textLimit === "refuse" ? "refused" : "another limit"],
    "default-limit": [String(limits.default ?? assumedLimit)],
    "count": [{ page: "the page", total: "the list", remaining: "what follows the page" }[count]],
    "unknown-parameter": [behaviour.unknownParameter === "refuse" ? "refused" : "ignored"],
    "order": [{ newest: "createdAt, newest first", oldest: "createdAt, oldest first", shuffled: "no date" }[order]],
    "page-size": ["the same records"],
    "configured-key": ["accepted"],
    "none-key": [String(behaviour.missingKey)],
    "wrong-key": [String(behaviour.wrongKey)]
  }
}

const cursorTruth = (
  { behaviour, cursors, ignored, odd, renamed }: Rules,
  { name }: Lists.AnyList,
  disturbance: Disturbance
): Truth => {
  const { cursorFilters, cursorLimit, invalidCursor } = behaviour
  const isRefused = invalidCursor === "refuse"
  const refused = isRefused ? "a refusal" : "the first page"
  // An expired cursor is refused, whatever invalid cursors give.
  const expired = disturbance === "failing" ? ["a refusal"] : []
  const hasOwnFilters = name === "invoices" && (renamed !== undefined || ignored !== undefined)
  return {
    "cursor-list": [refused, ...expired],
    "cursor-place": [
      cursors === "offset" ? "records of the page again" : "the records that follow",
      // The cursors that the fault of short pages issues are positions.
      ...odd.shortPage === undefined ? [] : ["the records that follow", "records of the page again"]
    ],
    "cursor-snapshot": [cursors === "snapshot" ? "no" : "yes", ...odd.shortPage === undefined ? [] : ["yes"]],
    "cursor-key": odd.cursorKey === undefined
      ? []
      : [odd.cursorKey === "refuse" ? refused : "the next page", ...expired],
    "cursor-limit": [
      { refuse: refused, obey: "the next records", keep: "the next 2 records" }[cursorLimit],
      ...expired
    ],
    ...(hasOwnFilters ? {} : {
      "cursor-filters": [
        cursorFilters === "keep"
          ? "the next page, without the filter"
          : isRefused
          ? "a refusal"
          : "filtered records",
        ...expired
      ],
      // In the other lists, one filter selects a part of what the other selects.
      ...(name === "invoices" ? { "two-filters": ["records that match both"] } : {})
    })
  }
}

const filterTruth = (rules: Rules, list: Lists.AnyList): Truth =>
  Object.assign(
    {},
    ...Object.keys(list.filters).map((field) => truthOfFilter(rules, list, field)),
    dayTruth(rules, list)
  )

const dayTruth = ({ behaviour, odd, renamed }: Rules, { windowFilter }: Lists.AnyList): Truth => {
  if (windowFilter === undefined) return {}
  const parts = `parts-${windowFilter}`
  const unnamed = renamed === windowFilter && behaviour.unknownParameter === "ignore" ? ["records of other dates"] : []
  // The next day may have no record.
  return odd.dayFilter === "overlapping"
    ? {
      [parts]: ["records of other dates"],
      [`filter-${windowFilter}`]: ["only matching records", "other records too"]
    }
    : { [parts]: [odd.dayFilter === "partial" ? "records are missing" : "complete and disjoint", ...unnamed] }
}

const truthOfFilter = ({ behaviour, ignored, odd, renamed }: Rules, { name }: Lists.AnyList, field: string): Truth => {
  const { absentValue, filterMatch, unknownParameter } = behaviour
  const isInvoice = name === "invoices"
  const absent = { nothing: "no record", everything: "everything", refuse: "a refusal" }[absentValue]
  // A service that ignores unknown values, or the filter, does not show which parameter means it.
  const showsName = isInvoice && absentValue !== "everything" && field !== ignored
  const isRenamed = isInvoice && renamed !== undefined && field === renamed
  /** What the assumed name gives, before or without another one. */
  const unnamed = {
    filter: isRenamed && unknownParameter === "ignore" ? ["other records too"] : [],
    absent: isRenamed ? [unknownParameter === "refuse" ? "a refusal" : "everything"] : [],
    prefix: isRenamed ? [unknownParameter === "refuse" ? "a refusal" : "other records"] : []
  }
  if (isRenamed && !showsName) {
    return {
      [`absent-${field}`]: unnamed.absent,
      ...(unnamed.filter.length === 0 ? {} : { [`filter-${field}`]: unnamed.filter }),
      [`prefix-${field}`]: unnamed.prefix
    }
  }
  if (isInvoice && field === ignored) {
    return {
      [`filter-${field}`]: ["other records too"],
      // A beginning may be the value of another record, which is not refused.
      [`prefix-${field}`]: [
        "other records",
        ...absentValue === "refuse" && filterMatch === "exact" ? ["a refusal"] : []
      ],
      [`absent-${field}`]: [absentValue === "refuse" ? "a refusal" : "everything"]
    }
  }
  const exact = { nothing: "no record", everything: "other records", refuse: "a refusal" }[absentValue]
  return {
    [`filter-${field}`]: [
      "only matching records",
      ...filterMatch === "prefix" ? ["records that begin with it"] : [],
      ...unnamed.filter
    ],
    // With a filter, the service shows the records that it hides, too.
    [`absent-${field}`]: [
      absent,
      ...odd.hasHidden === true && absent === "everything" ? ["other records"] : [],
      ...unnamed.absent
    ],
    ...(showsName ? { [`name-${field}`]: [isRenamed ? otherNames[renamed] : field] } : {}),
    [`prefix-${field}`]: [filterMatch === "prefix" ? "records that begin with it" : exact, ...unnamed.prefix]
  }
}

const shapes = {
  code: "application/json: code, message",
  nested: "application/json: error.code, error.message",
  list: "application/json: errors.code, errors.detail",
  problem: "application/problem+json: type, title, status, detail",
  text: "text/plain",
  html: "text/html"
}

const transportTruth = ({ aheadSeconds, behaviour, encoding, etag, hasLimitHeader, odd }: Rules): Truth => ({
  "unknown-path": [String(behaviour.unknownPath)],
  "error-key": [shapes[odd.hasHtml === true ? "html" : behaviour.errors]],
  ...(behaviour.textLimit === "refuse"
    ? { "error-parameter": [shapes[odd.hasHtml === true ? "html" : behaviour.errors]] }
    : {}),
  "limit-headers": [hasLimitHeader ? "x-ratelimit-limit" : "none"],
  "compression": [encoding ?? "none"],
  "conditional": [etag],
  // The sandbox does not speak TLS, and the probe may not provoke 429.
  "rate-limit": [],
  "http-version": [],
  "clock": [aheadSeconds === 0 ? "yes" : aheadSeconds > 0 ? "it is ahead" : "it is behind"]
})
