/**
 * The service of §4 and §5 over any lists, as a function from a request to an answer as data. The sandbox sends the
 * answer over a socket, {@link layerTest} in process, with the same faults.
 */
import {
  all,
  type AnyList,
  byName,
  defaultInvoiceParameters,
  type InvoiceParameters,
  type ListName,
  map,
  type PageLayout,
  pageLimit,
  parameterName
} from "../model/Lists.ts"
import { type Behaviour, isAbsent, withBehaviour } from "./Behaviour.ts"
import type { Fault } from "./Fault.ts"
import type { InjectedRequest } from "./FaultContext.ts"
import { makeInjector } from "./FaultInjector.ts"
import { type ListAnswer, type ListServers, renderPage } from "./ListServer.ts"
import { json, type Reply } from "./Reply.ts"
import { errorBody } from "./ReplyFaults.ts"

/** The lists, and behaviour that the document does not specify. */
export interface ListServiceOptions {
  /** The server of each list. */
  readonly servers: ListServers
  /** Whether a key is valid. */
  readonly accepts: (key: string) => boolean
  /** Records per page if neither the request nor the document (§8) has a limit; default 20. */
  readonly assumedLimit?: number | undefined
  /** The names of the invoice list's parameters (§4.3); default the field names. */
  readonly invoiceParameters?: Partial<InvoiceParameters> | undefined
  /** What the service does where the document is silent. */
  readonly behaviour?: Behaviour | undefined
  /** What it does otherwise in single lists. */
  readonly behaviours?: { readonly [Name in ListName]?: Behaviour | undefined } | undefined
  /** The faults. */
  readonly faults?: ReadonlyArray<Fault> | undefined
  /** The seed of faults with a `rate`; default 1. */
  readonly seed?: number | undefined
}

/** A request to the service. */
export interface ServiceRequest {
  /** Default GET. Lists refuse any other method. */
  readonly method?: string | undefined
  /** The path and the query. */
  readonly target: string
  /** The `authorization` header. */
  readonly authorization: string | undefined
  /** The `if-none-match` header. */
  readonly ifNoneMatch?: string | undefined
  /** Milliseconds since the epoch, from a monotonic clock. */
  readonly now: number
}

/** An answer, and facts of it for logs. `list` and `faults` contain no key, cursor or filter value. */
export interface ServiceAnswer {
  /** The answer. */
  readonly reply: Reply
  /** The list that was requested, if any. */
  readonly list: ListName | undefined
  /** The names of the faults that were applied. */
  readonly faults: ReadonlyArray<Fault["fault"]>
}

/** A list service. */
export interface ListService {
  /** Answers one request. Later answers depend on it, since some faults count requests. */
  readonly answer: (request: ServiceRequest) => ServiceAnswer
  /** Replaces the faults. The new ones count requests from now on. */
  readonly setFaults: (faults: ReadonlyArray<Fault>, now: number) => void
  /** Returns the current faults. */
  readonly faults: () => ReadonlyArray<Fault>
}

/** Returns a service over the lists. `now` is the time at which the faults start. */
export const makeListService = (options: ListServiceOptions, now: number): ListService => {
  const behaviours = map(({ name }): Behaviour => ({ ...options.behaviour, ...options.behaviours?.[name] }))
  let faults = options.faults ?? []
  const seed = options.seed ?? 1
  let inject = makeInjector(faults, seed, now)
  const byPath = new Map<string, AnyList>(all.map((list) => [list.path, list]))
  const names = { ...defaultInvoiceParameters, ...options.invoiceParameters }
  const servers = map((list) => withBehaviour(list, behaviours[list.name], options.servers[list.name]))
  /** Returns the parsed request for a page, or the answer that refuses the request. */
  const route = (request: ServiceRequest): InjectedRequest | ServiceAnswer => {
    const [path = "", query = ""] = split(request.target)
    const list = byPath.get(path)
    const nearest = list ?? all.find((other) => path.startsWith(`${other.path}/`))
    const behaviour = nearest === undefined ? options.behaviour ?? {} : behaviours[nearest.name]
    const refuse = (code: string, status: number): ServiceAnswer => ({
      reply: refusal(behaviour, code, status),
      list: list?.name,
      faults: []
    })
    if (list === undefined) return refuse("NOT_FOUND", behaviour.unknownPath ?? 404)
    if ((request.method ?? "GET") !== "GET") {
      const { reply, ...refused } = refuse("METHOD_NOT_ALLOWED", 405)
      return { ...refused, reply: { ...reply, headers: { ...reply.headers, allow: "GET" } } }
    }
    const key = keyOf(request)
    if (!options.accepts(key)) {
      return refuse("UNAUTHORIZED", (key === "" ? behaviour.missingKey : behaviour.wrongKey) ?? 401)
    }
    const given = parametersOf(query, list, names, behaviour)
    if (given === undefined) return refuse("INVALID_PARAMETER", 400)
    const { cursor, limit: limitText, ...filters } = given
    const documented = list.limits.default === undefined ? undefined : behaviour.defaultLimit ?? list.limits.default
    const limit = chosenLimit(behaviour, limitText, documented ?? options.assumedLimit ?? 20)
    if (limit === undefined) return refuse("INVALID_LIMIT", 400)
    const server = servers[list.name]
    const hasAbsent = behaviour.absentValue === "refuse" &&
      Object.entries(filters).some(([field, value]) => isAbsent(server, field, value))
    if (hasAbsent) return refuse("UNKNOWN_VALUE", 400)
    const { ifNoneMatch, now: at } = request
    const bound = behaviour.cursorKey === "refuse" ? { key } : {}
    return { list: list.name, request: { filters, limit, cursor, ...bound }, now: at, query, key, ifNoneMatch }
  }
  return {
    answer: (request) => {
      const routed = route(request)
      if ("reply" in routed) return routed
      const { page } = byName[routed.list]
      const { applied, reply } = inject(
        routed,
        servers[routed.list],
        (found) => render(page, found, behaviours[routed.list])
      )
      return { reply, list: routed.list, faults: applied }
    },
    setFaults: (next, since) => {
      faults = next
      inject = makeInjector(faults, seed, since)
    },
    faults: () => faults
  }
}

/** Returns the key of a request (§5), or empty text if it has none. */
const keyOf = ({ authorization }: ServiceRequest): string => /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? ""

const split = (target: string): ReadonlyArray<string> => {
  const at = target.indexOf("?")
  return at === -1 ? [target] : [target.slice(0, at), target.slice(at + 1)]
}

const render = (layout: PageLayout, answer: ListAnswer, behaviour: Behaviour): Reply =>
  answer._tag === "Page"
    ? renderPage(
      { ...layout, end: { null: layout.end, empty: "", absent: undefined }[behaviour.endCursor ?? "null"] },
      answer
    )
    : refusal(behaviour, "INVALID_CURSOR", 400)

const refusal = ({ errors }: Behaviour, code: string, status: number): Reply =>
  errors === undefined ? json(JSON.stringify({ code }), status) : errorBody(errors, status, "")

/** Returns the limit that applies, or undefined if the request is refused. */
const chosenLimit = (behaviour: Behaviour, text: string | undefined, unset: number): number | undefined => {
  const maximum = behaviour.largestLimit ?? pageLimit.maximum
  if (text === undefined) return unset
  const limit = text === "" ? Number.NaN : Number(text)
  if (!Number.isInteger(limit)) return behaviour.textLimit === "default" ? unset : undefined
  if (limit > maximum) {
    return { refuse: undefined, clamp: maximum, obey: limit, default: unset }[behaviour.largeLimit ?? "refuse"]
  }
  if (limit >= pageLimit.minimum) return limit
  return behaviour.smallLimit === "default" ? unset : behaviour.smallLimit === "clamp" ? 1 : undefined
}

/**
 * Returns the parameters by field name, or undefined if one repeats, or if it is unknown and the service refuses such
 * parameters. The document does not forbid them.
 */
const parametersOf = (
  query: string,
  list: AnyList,
  invoiceNames: Readonly<Record<string, string>>,
  { unknownParameter }: Behaviour
): Record<string, string> | undefined => {
  const sent = new URLSearchParams(query)
  const found: Record<string, string> = {}
  let known = 0
  for (const field of [...Object.keys(list.filters), "limit", "cursor"]) {
    const [value, ...more] = sent.getAll(parameterName(list, field, invoiceNames))
    if (more.length > 0) return undefined
    if (value === undefined) continue
    found[field] = value
    known++
  }
  return unknownParameter === "refuse" && sent.size > known ? undefined : found
}
