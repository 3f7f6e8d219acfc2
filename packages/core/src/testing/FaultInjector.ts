/** Selects the faults of each request, and keeps the history that they depend on. */
import { type BoundedMap, makeBoundedMap } from "./BoundedMap.ts"
import { type Fault, listFaults } from "./Fault.ts"
import type { Behaviours, FaultContext, InjectedRequest, ListingHistory } from "./FaultContext.ts"
import { followingDetours, listBehaviours } from "./ListFaults.ts"
import type { ListPage, ListServer } from "./ListServer.ts"
import type { Reply } from "./Reply.ts"
import { replyBehaviours } from "./ReplyFaults.ts"
import { fraction, hash32 } from "./SeededRandom.ts"

/** The reply to a request, and the names of the faults that were applied. */
export interface Injected {
  readonly reply: Reply
  readonly applied: ReadonlyArray<Fault["fault"]>
}

/** Answers a request with the faults that apply to it. */
export type Inject = (
  incoming: InjectedRequest,
  server: ListServer,
  render: (answer: ReturnType<ListServer>) => Reply
) => Injected

/** Limits of the history, so that a server that runs for weeks does not grow. No listing in a test reaches them. */
const longestHistory = 10_000
const mostHistories = 1000
const mostVisits = 10_000
const mostBuckets = 10_000

interface FaultState {
  /** Requests that matched the list, page and time conditions. */
  eligible: number
  /** Requests that the fault was applied to. */
  applied: number
  /**
   * The number of times that each request was made, by a hash of its query. Requests with equal hashes count together.
   */
  readonly visits: BoundedMap<number, number>
  readonly buckets: FaultContext["buckets"]
}

/** Applies these faults to a service, starting at the time `since`. */
export const makeInjector = (faults: ReadonlyArray<Fault>, seed: number, since: number): Inject => {
  const states = faults.map((): FaultState => ({
    eligible: 0,
    applied: 0,
    visits: makeBoundedMap(mostVisits),
    buckets: makeBoundedMap(mostBuckets)
  }))
  const histories = makeBoundedMap<string, ListingHistory>(mostHistories)
  const issued: ListingHistory["issued"] = makeBoundedMap(longestHistory)
  return (incoming, server, render) => {
    if (faults.length === 0) return { reply: render(server(incoming.request)), applied: [] }
    const history = historyOf(histories, issued, incoming)
    const visitor = hash32(incoming.query)
    let listServer = followingDetours(server, { history, list: incoming.list })
    let answer = () => {
      const page = listServer(incoming.request)
      if (page._tag === "Page") remember(history, page, incoming.now)
      return render(page)
    }
    const applied: Array<Fault["fault"]> = []
    for (const [index, fault] of faults.entries()) {
      const state = states[index]
      if (state === undefined) continue
      const visit = state.visits.get(visitor) ?? 0
      const chance = () => {
        state.visits.set(visitor, visit + 1)
        return fraction(seed, index, incoming.list, incoming.query, visit)
      }
      if (!applies(fault, state, { ...incoming, chance, elapsed: incoming.now - since })) continue
      applied.push(fault.fault)
      const context: FaultContext = {
        ...incoming,
        history,
        buckets: state.buckets,
        chance: (place) => fraction(seed, index, incoming.query, visit, place)
      }
      if (isListFault(fault)) listServer = apply(listBehaviours, fault, context)(listServer)
      else answer = surround(apply(replyBehaviours, fault, context), answer)
    }
    return { reply: answer(), applied }
  }
}

const surround = (change: (answer: () => Reply) => Reply, answer: () => Reply) => () => change(answer)

type ListFault = Extract<Fault, { readonly fault: keyof typeof listFaults }>

const isListFault = (fault: Fault): fault is ListFault => Object.hasOwn(listFaults, fault.fault)

/** The cast is sound: each behaviour takes the fault of its own name. TypeScript cannot express that for a union. */
const apply = <Name extends Fault["fault"], Answering, Wrapped>(
  behaviours: Behaviours<Name, Answering, Wrapped>,
  fault: Fault & { readonly fault: Name },
  context: FaultContext
): (answering: Answering) => Wrapped =>
  (behaviours[fault.fault] as (fault: Fault, context: FaultContext) => (answering: Answering) => Wrapped)(
    fault,
    context
  )

const applies = (
  fault: Fault,
  state: FaultState,
  { chance, elapsed, list, request }: InjectedRequest & { readonly chance: () => number; readonly elapsed: number }
): boolean => {
  if (fault.list !== undefined && fault.list !== list) return false
  if (fault.pages !== undefined && (fault.pages === "first") !== (request.cursor === undefined)) return false
  if (elapsed < (fault.afterMs ?? 0) || elapsed >= (fault.untilMs ?? Number.POSITIVE_INFINITY)) return false
  const number = ++state.eligible
  if (fault.nth !== undefined && number !== fault.nth) return false
  if (number < (fault.from ?? 1) || number > (fault.to ?? Number.POSITIVE_INFINITY)) return false
  if (fault.every !== undefined && number % fault.every !== 0) return false
  if (fault.rate !== undefined && chance() >= fault.rate) return false
  if (state.applied >= (fault.times ?? Number.POSITIVE_INFINITY)) return false
  state.applied++
  return true
}

const historyOf = (
  histories: BoundedMap<string, ListingHistory>,
  issued: ListingHistory["issued"],
  { key, list, request }: InjectedRequest
): ListingHistory => {
  const name = JSON.stringify([hash32(key), list, request.limit, Object.entries(request.filters).toSorted()])
  const history: ListingHistory = histories.get(name) ??
    {
      requested: [],
      issued,
      displaced: makeBoundedMap(longestHistory),
      pages: 0,
      before: [],
      current: []
    }
  histories.set(name, history)
  if (history.requested.length === 0 || history.requested.at(-1) !== request.cursor) {
    history.requested.push(request.cursor)
    if (history.requested.length > longestHistory) history.requested.shift()
    history.pages = request.cursor === undefined ? 0 : history.pages
    history.pages++
    history.before = request.cursor === undefined ? [] : history.current
  }
  return history
}

const remember = (history: ListingHistory, page: ListPage, now: number): void => {
  history.current = page.items
  if (page.next !== null) history.issued.set(page.next, now)
}
