/**
 * The contract of §4 and §5 over any lists, as a function from a request to an answer as data. The sandbox performs the
 * answer on a socket, {@link layerTest} in process; both meet the same faults.
 */
import {
  all,
  type AnyList,
  defaultInvoiceParameters,
  type InvoiceParameters,
  type ListName,
  parameterName
} from "../Lists.ts"
import { limitOf, type ListAnswer, type ListServers, renderPage } from "../ListServer.ts"
import type { Fault } from "./Fault.ts"
import { type InjectedRequest, makeInjector } from "./FaultInjector.ts"
import { json, type Reply } from "./Reply.ts"

/** What is served, and how where the document leaves it open. */
export interface ListServiceOptions {
  /** Answer the requests of each list. */
  readonly servers: ListServers
  /** Whether a key is let in. */
  readonly accepts: (key: string) => boolean
  /** Records per page when a request names no limit, where the document shows no default (§8); 20 unless given. */
  readonly assumedLimit?: number | undefined
  /** The names of the invoice list's parameters (§4.3); the field names unless given. */
  readonly invoiceParameters?: Partial<InvoiceParameters> | undefined
  /** What goes wrong, for which requests. */
  readonly faults?: ReadonlyArray<Fault> | undefined
  /** Draws faults that come at a rate; 1 unless given. */
  readonly seed?: number | undefined
}

/** A request. */
export interface ServiceRequest {
  /** GET unless given. Any other is refused on a list. */
  readonly method?: string | undefined
  /** Path and query. */
  readonly target: string
  /** The header of that name. */
  readonly authorization: string | undefined
  /** Milliseconds since the epoch, by a clock that only moves forward. */
  readonly now: number
}

/** An answer, and what may be told of it: nothing here holds a key, a cursor or a filter's value. */
export interface ServiceAnswer {
  /** What to perform. */
  readonly reply: Reply
  /** The list that was asked for, if any. */
  readonly list: ListName | undefined
  /** The names of the faults that the request met. */
  readonly faults: ReadonlyArray<Fault["fault"]>
}

/** A list service. */
export interface ListService {
  /** Answers one request; what it met is remembered for the next. */
  readonly answer: (request: ServiceRequest) => ServiceAnswer
  /** Lays other faults over it, which begin to count now. */
  readonly setFaults: (faults: ReadonlyArray<Fault>, now: number) => void
  /** Those that lie over it now. */
  readonly faults: () => ReadonlyArray<Fault>
}

/** Serves the lists. `now` is when the faults begin. */
export const makeListService = (options: ListServiceOptions, now: number): ListService => {
  let faults = options.faults ?? []
  const seed = options.seed ?? 1
  let inject = makeInjector(faults, seed, now)
  const byPath = new Map<string, AnyList>(all.map((list) => [list.path, list]))
  const names = { ...defaultInvoiceParameters, ...options.invoiceParameters }
  /** The page that a request asks for, or the answer to one that asks for none. */
  const route = (request: ServiceRequest): InjectedRequest | ServiceAnswer => {
    const [path = "", query = ""] = split(request.target)
    const list = byPath.get(path)
    const refuse = (code: string, status: number): ServiceAnswer => ({
      reply: json(JSON.stringify({ code }), status),
      list: list?.name,
      faults: []
    })
    if (list === undefined) return refuse("NOT_FOUND", 404)
    if ((request.method ?? "GET") !== "GET") {
      const { reply, ...refused } = refuse("METHOD_NOT_ALLOWED", 405)
      return { ...refused, reply: { ...reply, headers: { ...reply.headers, allow: "GET" } } }
    }
    const key = keyOf(request)
    if (!options.accepts(key)) return refuse("UNAUTHORIZED", 401)
    const given = parametersOf(query, list, names)
    if (given === undefined) return refuse("INVALID_PARAMETER", 400)
    const { cursor, limit: limitText, ...filters } = given
    const limit = limitOf(limitText, list.limits.default ?? options.assumedLimit ?? 20)
    if (limit === undefined) return refuse("INVALID_LIMIT", 400)
    return { list: list.name, request: { filters, limit, cursor }, now: request.now, query, key }
  }
  return {
    answer: (request) => {
      const routed = route(request)
      if ("reply" in routed) return routed
      const { applied, reply } = inject(routed, options.servers[routed.list], render)
      return { reply, list: routed.list, faults: applied }
    },
    setFaults: (next, since) => {
      faults = next
      inject = makeInjector(faults, seed, since)
    },
    faults: () => faults
  }
}

/** The key that a request carries (§5); empty where it carries none. */
const keyOf = ({ authorization }: ServiceRequest): string => /^Bearer (\S+)$/i.exec(authorization ?? "")?.[1] ?? ""

const split = (target: string): ReadonlyArray<string> => {
  const at = target.indexOf("?")
  return at === -1 ? [target] : [target.slice(0, at), target.slice(at + 1)]
}

const render = (answer: ListAnswer): Reply =>
  answer._tag === "Page" ? json(renderPage(answer)) : json(`{"code":"INVALID_CURSOR"}`, 400)

/** The parameters by field name, or undefined where one comes twice. Others are ignored, since none are forbidden. */
const parametersOf = (
  query: string,
  list: AnyList,
  invoiceNames: Readonly<Record<string, string>>
): Record<string, string> | undefined => {
  const sent = new URLSearchParams(query)
  const found: Record<string, string> = {}
  for (const field of [...Object.keys(list.filters), "limit", "cursor"]) {
    const [value, ...more] = sent.getAll(parameterName(list, field, invoiceNames))
    if (more.length > 0) return undefined
    if (value !== undefined) found[field] = value
  }
  return found
}
