/**
 * What a service does where its document is silent, as data. The first value of each choice is what the sandbox does by
 * default. Records and cursors are the subject of the wrappers here; `ListService.ts` applies the other choices.
 */
import { Schema } from "effect"
import { type AnyList, type Filter, matches } from "../model/Lists.ts"
import { makeBoundedMap } from "./BoundedMap.ts"
import type { ListAnswer, ListPage, ListRequest, ListServer } from "./ListServer.ts"

const choice = <const Values extends ReadonlyArray<string | number>>(values: Values, description: string) =>
  Schema.optionalKey(Schema.Literals(values).annotate({ description }))

const number = (description: string, { least, most, unset }: { least: number; most: number; unset: number }) =>
  Schema.optionalKey(
    Schema.Int.check(Schema.isBetween({ minimum: least, maximum: most })).annotate({
      description: `${description}, ${least} to ${most}; default ${unset}`
    })
  )

/** The choices. A new one is one entry, and the code that obeys it. */
export const Behaviour = Schema.Struct({
  largestLimit: number("the largest limit", { least: 1, most: 10_000, unset: 100 }),
  largeLimit: choice(
    ["refuse", "clamp", "obey", "default"],
    "a limit over the largest: refused, treated as the largest, obeyed, or treated as no limit"
  ),
  defaultLimit: number("the limit of a request without one, if the document states 20", {
    least: 1,
    most: 10_000,
    unset: 20
  }),
  smallLimit: choice(["refuse", "clamp", "default"], "limit 0 or less: refused, treated as 1, or as no limit"),
  textLimit: choice(["refuse", "default"], "a limit that is no number: refused, or treated as no limit"),
  unknownParameter: choice(["ignore", "refuse"], "a parameter that the document does not name"),
  missingKey: choice([401, 403, 400], "the status of a request without a key"),
  wrongKey: choice([401, 403], "the status of a request with a wrong key"),
  unknownPath: number("the status of a path that the service does not have", { least: 400, most: 499, unset: 404 }),
  errors: choice(["code", "nested", "list", "problem", "text", "html"], "the shape of error bodies"),
  endCursor: choice(
    ["null", "empty", "absent"],
    "what the last page has instead of a cursor: null, empty text or nothing"
  ),
  cursorUse: choice(["often", "once"], "how often a cursor is accepted"),
  cursorLimit: choice(
    ["refuse", "obey", "keep"],
    "a cursor with another limit: refused, obeyed, or the first one applies"
  ),
  cursorFilters: choice(["refuse", "keep"], "a cursor with other filters: refused, or the first ones still apply"),
  cursorKey: choice(["obey", "refuse"], "a cursor that was issued to another key"),
  invalidCursor: choice(["refuse", "first page"], "a cursor that the service did not issue for the request"),
  absentValue: choice(["nothing", "everything", "refuse"], "a filter with a value that no record has"),
  filterMatch: choice(["exact", "prefix"], "whether a filter also selects values that begin with its text"),
  dayFilter: choice(
    ["complete", "partial", "overlapping"],
    "a filter by day: all records of the day, every second one, or those of the next day as well"
  ),
  longPages: choice(
    ["whole", "brief"],
    "the records of pages with a limit over 50: as in other pages, or without their last member"
  ),
  hiddenStatus: Schema.optionalKey(
    Schema.String.annotate({ description: "records with this status appear only if a filter is given" })
  )
})

/** The choices of a service. */
export type Behaviour = typeof Behaviour.Type

/** Wraps the server of a list so that its filters and cursors behave as chosen. */
export const withBehaviour = (list: AnyList, behaviour: Behaviour, server: ListServer): ListServer => {
  const { absentValue, cursorUse, dayFilter = "complete", filterMatch, hiddenStatus, longPages } = behaviour
  const chosen = [
    filterMatch === "prefix" ? byPrefix(list) : undefined,
    dayFilter === "complete" ? undefined : byDay(list, dayFilter),
    absentValue === "everything" ? ignoringAbsentValues : undefined,
    hiddenStatus === undefined ? undefined : hiding(hiddenStatus),
    longPages === "brief" ? shortening : undefined,
    cursorUse === "once" ? acceptingOnce : undefined,
    keepingRequests(behaviour)
  ]
  return chosen.reduce((wrapped, wrap) => wrap?.(wrapped) ?? wrapped, server)
}

/** The number of cursors whose requests are remembered. */
const mostCursors = 10_000

/** Remembers for which request each cursor was issued. */
const keepingRequests =
  ({ cursorFilters, cursorLimit, invalidCursor }: Behaviour) => (server: ListServer): ListServer => {
    const requests = makeBoundedMap<string, ListRequest>(mostCursors)
    const kept = (request: ListRequest): ListRequest => {
      const first = request.cursor === undefined ? undefined : requests.get(request.cursor)
      return first === undefined ? request : {
        ...request,
        filters: cursorFilters === "keep" ? first.filters : request.filters,
        limit: cursorLimit === "keep" ? first.limit : request.limit
      }
    }
    return (request) => {
      const known = kept(request)
      const answer = server(known)
      if (answer._tag === "CursorRefused" && invalidCursor === "first page") {
        return server({ ...request, cursor: undefined })
      }
      if (answer._tag === "Page" && answer.next !== null) requests.set(answer.next, known)
      return answer
    }
  }

/** Issues another cursor with each page, and accepts each until it has led to a page. */
const acceptingOnce = (server: ListServer): ListServer => {
  const unused = makeBoundedMap<string, string | undefined>(mostCursors)
  let issued = 0
  return (request) => {
    const cursor = request.cursor === undefined ? undefined : unused.get(request.cursor)
    if (request.cursor !== undefined && cursor === undefined) return { _tag: "CursorRefused" }
    const answer = server({ ...request, cursor })
    if (answer._tag === "CursorRefused") return answer
    if (request.cursor !== undefined) unused.set(request.cursor, undefined)
    if (answer.next === null) return answer
    const next = `once-${++issued}-${answer.next}`
    unused.set(next, answer.next)
    return { ...answer, next }
  }
}

const hiding = (status: string) => (server: ListServer): ListServer => (request) => {
  const answer = server(request)
  if (answer._tag !== "Page" || Object.keys(request.filters).length > 0) return answer
  const items = answer.items.filter((text) => memberOf(text, "status") !== status)
  return { ...answer, items, count: answer.count === answer.items.length ? items.length : answer.count }
}

/** Leaves out the last member of each record of a long page. */
const shortening = (server: ListServer): ListServer => (request) => {
  const answer = server(request)
  if (answer._tag !== "Page" || request.limit <= 50) return answer
  const items = answer.items.map((text) =>
    JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(text)).slice(0, -1)))
  )
  return { ...answer, items }
}

/** Whether no record matches this filter. */
export const isAbsent = (server: ListServer, field: string, value: string): boolean => {
  const answer = server({ filters: { [field]: value }, limit: 1, cursor: undefined })
  return answer._tag === "Page" && answer.items.length === 0
}

const ignoringAbsentValues = (server: ListServer): ListServer => (request) => {
  const filters = Object.fromEntries(
    Object.entries(request.filters).filter(([field, value]) => !isAbsent(server, field, value))
  )
  return server({ ...request, filters })
}

/** The most records that a filter reads here. */
const mostRecords = 10_000

const typeOf = (list: AnyList, field: string): Filter | undefined =>
  Object.entries<Filter>(list.filters).find(([name]) => name === field)?.[1]

const byPrefix = (list: AnyList) => (server: ListServer): ListServer => (request): ListAnswer => {
  const wanted = Object.entries(request.filters)
  if (wanted.length === 0) return server(request)
  const found = allRecords(server, {}).filter((text) =>
    wanted.every(([field, value]) => {
      const member = memberOf(text, field)
      const filter = typeOf(list, field)
      return typeof member === "string" &&
        (member.startsWith(value) || filter !== undefined && matches(filter, member, value))
    })
  )
  return pageIn(found, request)
}

const byDay =
  (list: AnyList, kind: "partial" | "overlapping") => (server: ListServer): ListServer => (request): ListAnswer => {
    const [field, day] = Object.entries(request.filters).find(([name]) => typeOf(list, name)?.type === "day") ?? []
    if (field === undefined || day === undefined) return server(request)
    if (kind === "partial") {
      return pageIn(allRecords(server, request.filters).filter((_, index) => index % 2 === 0), request)
    }
    const others = Object.fromEntries(Object.entries(request.filters).filter(([name]) => name !== field))
    const ms = Date.parse(day)
    const days = new Set([day, Number.isNaN(ms) ? day : new Date(ms + dayMs).toISOString().slice(0, 10)])
    return pageIn(allRecords(server, others).filter((text) => days.has(String(memberOf(text, field)))), request)
  }

const dayMs = 86_400_000

/** Returns a page of records that were selected here. */
const pageIn = (found: ReadonlyArray<string>, { cursor, limit }: ListRequest): ListAnswer => {
  const from = cursor === undefined ? 0 : Number(/^at-(\d+)$/.exec(cursor)?.[1])
  if (Number.isNaN(from)) return { _tag: "CursorRefused" }
  const items = found.slice(from, from + limit)
  const end = from + items.length
  return { _tag: "Page", items, next: end < found.length ? `at-${end}` : null, count: items.length }
}

const allRecords = (server: ListServer, filters: ListRequest["filters"]): ReadonlyArray<string> => {
  const texts: Array<string> = []
  let request: ListRequest | undefined = { filters, limit: 100, cursor: undefined }
  while (request !== undefined && texts.length < mostRecords) {
    const page: ListPage | undefined = pageOf(server(request))
    texts.push(...page?.items ?? [])
    request = page?.next == null ? undefined : { ...request, cursor: page.next }
  }
  return texts
}

const pageOf = (answer: ListAnswer): ListPage | undefined => answer._tag === "Page" ? answer : undefined

const memberOf = (text: string, name: string): unknown => (JSON.parse(text) as Record<string, unknown>)[name] // a record
