/** Draws services whose undocumented rules are known, to compare what a probe finds with the truth. */
import type { Lists } from "@payments/core"
import type { SandboxOptions } from "@payments/sandbox"
import type { Dice } from "./Seed.ts"

/** How a service disturbs a probe. */
export type Disturbance = "quiet" | "moving" | "failing"

/** The right answers by fact. */
export type Truth = { readonly [fact: string]: ReadonlyArray<string> }

/** Facts that no entry says the truth about: with ignored and renamed filters, they depend on which values are tried. */
const unjudged = new Set(["two-filters", "cursor-filters"])

/** Whether requests can decide the fact. The values of a sandbox do not always have a beginning of their own. */
export const canBeDecided = (truth: HiddenRules["truth"], list: Lists.AnyList, fact: string): boolean =>
  truth(list)[fact] !== undefined && !fact.startsWith("prefix-")

/** A service, and the truth about its lists. */
export interface HiddenRules {
  readonly options: SandboxOptions
  readonly truth: (list: Lists.AnyList) => Truth
}

/** Whether an answer is right. Undefined if there is no truth to compare it with. */
export const isRight = (
  truth: HiddenRules["truth"],
  list: Lists.AnyList,
  fact: string,
  answer: string | undefined
): boolean | undefined => truth(list)[fact]?.includes(answer ?? "") ?? (unjudged.has(fact) ? undefined : false)

export const drawRules = (dice: Dice, disturbance: Disturbance): HiddenRules => {
  const rules = draw(dice)
  return {
    options: optionsOf(rules, disturbance),
    truth: (list) => ({
      ...pageTruth(rules, list),
      ...cursorTruth(rules, list, disturbance),
      ...filterTruth(rules, list),
      ...(list.name === "payinSources" ? {} : transportTruth(rules)),
      ...(list.name === "invoices" ? { "name-limit": ["limit"], "name-cursor": ["cursor"] } : {})
    })
  }
}

type Rules = ReturnType<typeof draw>

const draw = (dice: Dice) => ({
  seed: dice.below(1_000_000),
  records: dice.pick([150, 400, 1000]),
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
  const { aheadSeconds, encoding, etag, hasLimitHeader, ignored, renamed, speed, ...options } = rules
  return {
    ...options,
    ...(renamed === undefined ? {} : { invoiceParameters: { [renamed]: otherNames[renamed] } }),
    ...(disturbance === "moving" ? { live: { ...rates, speed } } : {}),
    faults: [
      ...(ignored === undefined ? [] : [{ fault: "ignoreFilter", list: "invoices", field: ignored } as const]),
      ...(encoding === undefined ? [] : [{ fault: "compress", encoding } as const]),
      ...(etag === "no ETag" ? [] : [{ fault: "etag", conditional: etag === "304" } as const]),
      ...(hasLimitHeader ? [{ fault: "header", name: "x-ratelimit-limit", value: "100" } as const] : []),
      { fault: "clock", aheadSeconds } as const,
      ...(disturbance === "failing" ? failures : [])
    ]
  }
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
  { behaviour, ignored, renamed }: Rules,
  { name }: Lists.AnyList,
  disturbance: Disturbance
): Truth => {
  const { cursorFilters, cursorLimit, invalidCursor } = behaviour
  const isRefused = invalidCursor === "refuse"
  const refused = isRefused ? "a refusal" : "the first page"
  // The fault of expiring cursors knows no cursor that was issued for another request.
  const expired = disturbance === "failing" ? ["a refusal"] : []
  const hasOwnFilters = name === "invoices" && (renamed !== undefined || ignored !== undefined)
  return {
    "cursor-list": [refused, ...expired],
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
  Object.assign({}, ...Object.keys(list.filters).map((field) => truthOfFilter(rules, list, field)))

const truthOfFilter = ({ behaviour, ignored, renamed }: Rules, { name }: Lists.AnyList, field: string): Truth => {
  const { absentValue, filterMatch, unknownParameter } = behaviour
  const isInvoice = name === "invoices"
  const absent = { nothing: "no record", everything: "everything", refuse: "a refusal" }[absentValue]
  // A service that ignores unknown values, or the filter, does not show which parameter means it.
  const showsName = isInvoice && absentValue !== "everything" && field !== ignored
  if (isInvoice && renamed !== undefined && field === renamed) {
    return {
      ...(unknownParameter === "refuse"
        ? { [`absent-${field}`]: ["a refusal"] }
        : { [`absent-${field}`]: ["everything"], [`filter-${field}`]: ["other records too"] }),
      [`prefix-${field}`]: [unknownParameter === "refuse" ? "a refusal" : "other records"],
      ...(showsName ? { [`name-${field}`]: [otherNames[renamed]] } : {})
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
    [`filter-${field}`]: ["only matching records", ...filterMatch === "prefix" ? ["records that begin with it"] : []],
    [`absent-${field}`]: [absent],
    ...(showsName ? { [`name-${field}`]: [field] } : {}),
    [`prefix-${field}`]: [filterMatch === "prefix" ? "records that begin with it" : exact]
  }
}

const shapes = {
  code: "application/json: code, message",
  nested: "application/json: error.code, error.message",
  list: "application/json: errors.code, errors.detail",
  problem: "application/problem+json: type, title, status, detail",
  text: "text/plain"
}

const transportTruth = ({ aheadSeconds, behaviour, encoding, etag, hasLimitHeader }: Rules): Truth => ({
  "unknown-path": [String(behaviour.unknownPath)],
  "error-key": [shapes[behaviour.errors]],
  ...(behaviour.textLimit === "refuse" ? { "error-parameter": [shapes[behaviour.errors]] } : {}),
  "limit-headers": [hasLimitHeader ? "x-ratelimit-limit" : "none"],
  "compression": [encoding ?? "none"],
  "conditional": [etag],
  "clock": [aheadSeconds === 0 ? "yes" : aheadSeconds > 0 ? "it is ahead" : "it is behind"]
})
