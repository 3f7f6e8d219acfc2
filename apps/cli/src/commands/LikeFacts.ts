/** Makes the options of a sandbox that serves as a service was observed. Only certain facts count. */
import type { KnownFact } from "@payments/copy/facts"
import type { Lists } from "@payments/core"
import type { Behaviour, Fault } from "@payments/core/testing"
import type { SandboxOptions } from "@payments/sandbox"

type Options = Pick<SandboxOptions, "order" | "count" | "assumedLimit" | "invoiceParameters" | "behaviour" | "faults">

/** How far a clock that is ahead or behind is off here. */
const clockSeconds = 60

export const likeFacts = (facts: ReadonlyArray<KnownFact>): Options => {
  const certain = facts.filter(({ degree }) => degree === "certain")
  /** Returns the answers to the facts whose names begin so. */
  const answersTo = (start: string, list?: Lists.ListName) =>
    certain.flatMap((fact) =>
      fact.name.startsWith(start) && (list === undefined || fact.list === list) ? [fact.answer ?? ""] : []
    )
  /** Returns what the table has for the first answer that it knows. */
  const from = <const A>(start: string, table: { readonly [answer: string]: A }): A | undefined =>
    answersTo(start).map((answer) => table[answer]).find((value) => value !== undefined)
  const order = from("order", {
    "createdAt, newest first": "newest",
    "createdAt, oldest first": "oldest",
    "no date": "shuffled"
  })
  const count = from("count", { "the page": "page", "the list": "total", "what follows the page": "remaining" })
  const [assumedLimit] = answersTo("default-limit", "invoices").map(Number)
  return {
    ...(order === undefined ? {} : { order }),
    ...(count === undefined ? {} : { count }),
    ...(assumedLimit === undefined ? {} : { assumedLimit }),
    invoiceParameters: { ...unknownNames(certain), ...fieldsOf(certain, "name-") },
    behaviour: behaviourOf(from),
    faults: faultsOf(certain, answersTo)
  }
}

/** Returns the answers to the facts whose names begin so, by the rest of their names. */
const fieldsOf = (facts: ReadonlyArray<KnownFact>, start: string): { readonly [field: string]: string } =>
  Object.fromEntries(
    facts.flatMap(({ answer = "", name }) => name.startsWith(start) ? [[name.slice(start.length), answer]] : [])
  )

/** A parameter that is refused, although the service refuses no value of others, has a name that nobody knows. */
const unknownNames = (certain: ReadonlyArray<KnownFact>): { readonly [field: string]: string } => {
  const ofInvoices = certain.filter(({ list }) => list === "invoices")
  const refusesNames = ofInvoices.some(({ answer, name }) => name === "unknown-parameter" && answer === "refused")
  const absent = refusesNames ? Object.entries(fieldsOf(ofInvoices, "absent-")) : []
  const refused = absent.filter(([, answer]) => answer === "a refusal")
  return refused.length === absent.length
    ? {}
    : Object.fromEntries(refused.map(([field]) => [field, `unknown-${field}`]))
}

const largeLimits = { "refused": "refuse", "another limit": "clamp", "obeyed": "obey" } as const

const behaviourOf = (
  from: <const A>(start: string, table: { readonly [answer: string]: A }) => A | undefined
): Behaviour => {
  const chosen = {
    // Limit 1000 shows nothing about a shorter list.
    largeLimit: from("limit-1000", largeLimits) ?? from("limit-101", largeLimits),
    smallLimit: from("limit-negative", { "refused": "refuse", "another limit": "default" }),
    textLimit: from("limit-text", { "refused": "refuse", "another limit": "default" }),
    unknownParameter: from("unknown-parameter", { ignored: "ignore", refused: "refuse" }),
    missingKey: from("none-key", { 401: 401, 403: 403 }),
    wrongKey: from("wrong-key", { 401: 401, 403: 403 }),
    unknownPath: from("unknown-path", { 404: 404, 400: 400, 403: 403, 405: 405 }),
    errors: from("error-", {
      "application/json: code, message": "code",
      "application/json: error.code, error.message": "nested",
      "application/json: errors.code, errors.detail": "list",
      "application/problem+json: type, title, status, detail": "problem",
      "text/plain": "text"
    }),
    cursorLimit: from("cursor-limit", { "the next records": "obey", "the next 2 records": "keep" }),
    cursorFilters: from("cursor-filters", {
      "a refusal": "refuse",
      "filtered records": "refuse",
      "the next page, without the filter": "keep"
    }),
    invalidCursor: from("cursor-list", { "a refusal": "refuse", "the first page": "first page" }),
    absentValue: from("absent-", { "no record": "nothing", "a refusal": "refuse", "everything": "everything" }),
    filterMatch: from("prefix-", { "records that begin with it": "prefix" })
  } as const
  // Without the entries that no fact decides, for which the sandbox has its own.
  return Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined))
}

const faultsOf = (
  certain: ReadonlyArray<KnownFact>,
  answersTo: (start: string) => ReadonlyArray<string>
): ReadonlyArray<Fault> => {
  const encoding = (["gzip", "br"] as const).find((name) => answersTo("compression").includes(name))
  const [clock] = answersTo("clock")
  const headers = answersTo("limit-headers").flatMap((names) => names === "none" ? [] : names.split(", "))
  return [
    ...certain.flatMap(({ answer, list, name }): ReadonlyArray<Fault> =>
      name.startsWith("filter-") && answer === "other records too"
        ? [{ fault: "ignoreFilter", list, field: name.slice(7) }]
        : []
    ),
    ...(encoding === undefined ? [] : [{ fault: "compress", encoding } as const]),
    ...answersTo("conditional").filter((answer) => answer !== "no ETag").slice(0, 1)
      .map((answer): Fault => ({ fault: "etag", conditional: answer === "304" })),
    ...[...new Set(headers)].map((name): Fault => ({ fault: "header", name, value: "100" })),
    ...(clock === "it is ahead" || clock === "it is behind"
      ? [{ fault: "clock", aheadSeconds: clock === "it is ahead" ? clockSeconds : -clockSeconds } as const]
      : [])
  ]
}
