/** Chooses which faults a request meets, and remembers of earlier requests what the faults need. */
import type { ListName } from "../Lists.ts"
import type { ListPage, ListRequest, ListServer } from "../ListServer.ts"
import { type Fault, listFaults, type replyFaults } from "./Fault.ts"
import { followingDetours, listBehaviours } from "./ListFaults.ts"
import { makeRecent, type Recent } from "./Recent.ts"
import type { Reply } from "./Reply.ts"
import { replyBehaviours } from "./ReplyFaults.ts"
import { draw, fraction } from "./SeededRandom.ts"

/** What is remembered of a listing, which is known by its key, list, filters and limit. */
export interface Trail {
  /** The cursors asked for, in turn; undefined begins the listing. A request that comes again at once counts once. */
  readonly asked: Array<string | undefined>
  /** When each cursor was given. */
  readonly issued: Recent<string, number>
  /** Records that stand first on the page behind a cursor, in the place of its own. */
  readonly displaced: Recent<string, string>
  /** Pages since the listing began. */
  pages: number
  /** The records of the page before, and of this one. */
  before: ReadonlyArray<string>
  current: ReadonlyArray<string>
}

/** One request, as the faults that meet it see it. */
export interface Meeting {
  readonly request: ListRequest
  readonly now: number
  /** As it came, without the question mark. */
  readonly query: string
  readonly key: string
  readonly trail: Trail
  /** Of the fault itself, by a hash of the key: the key itself is not kept. */
  readonly buckets: Recent<number, { readonly tokens: number; readonly at: number }>
  /** An even draw from [0, 1), the same whenever this request comes for the same time. */
  readonly chance: (index: number) => number
}

/** A request before faults. */
export interface InjectedRequest {
  readonly list: ListName
  readonly request: ListRequest
  readonly now: number
  readonly query: string
  readonly key: string
}

/** What comes of a request, and the names of the faults it met. */
export interface Injected {
  readonly reply: Reply
  readonly met: ReadonlyArray<Fault["fault"]>
}

/** Answers a request through the faults that meet it. */
export type Inject = (
  incoming: InjectedRequest,
  server: ListServer,
  render: (answer: ReturnType<ListServer>) => Reply
) => Injected

/** How much is remembered: a test's listings are shorter, and a server that runs for weeks must not grow. */
const longestTrail = 10_000
const mostTrails = 1000
const mostVisits = 10_000
const mostBuckets = 10_000

interface FaultState {
  eligible: number
  met: number
  /** How often each request came, by a hash of its query. Of two with one hash, each counts for both. */
  readonly visits: Recent<number, number>
  readonly buckets: Meeting["buckets"]
}

/** Lays these faults over a service, from the moment `since`. */
export const makeInjector = (faults: ReadonlyArray<Fault>, seed: number, since: number): Inject => {
  const states = faults.map((): FaultState => ({
    eligible: 0,
    met: 0,
    visits: makeRecent(mostVisits),
    buckets: makeRecent(mostBuckets)
  }))
  const trails = makeRecent<string, Trail>(mostTrails)
  return (incoming, server, render) => {
    if (faults.length === 0) return { reply: render(server(incoming.request)), met: [] }
    const trail = trailOf(trails, incoming)
    const visitor = draw(incoming.query)
    let listServer = followingDetours(server, trail)
    let answer = () => {
      const page = listServer(incoming.request)
      if (page._tag === "Page") remember(trail, page, incoming.now)
      return render(page)
    }
    const met: Array<Fault["fault"]> = []
    for (const [index, fault] of faults.entries()) {
      const state = states[index]
      if (state === undefined) continue
      const visit = state.visits.get(visitor) ?? 0
      const chance = () => {
        state.visits.set(visitor, visit + 1)
        return fraction(seed, index, incoming.list, incoming.query, visit)
      }
      if (!meets(fault, state, incoming, since, chance)) continue
      met.push(fault.fault)
      const meeting: Meeting = {
        ...incoming,
        trail,
        buckets: state.buckets,
        chance: (place) => fraction(seed, index, incoming.query, visit, place)
      }
      if (isListFault(fault)) listServer = layList(fault, meeting)(listServer)
      else answer = surround(layReply(fault, meeting), answer)
    }
    return { reply: answer(), met }
  }
}

const surround = (change: (answer: () => Reply) => Reply, answer: () => Reply) => () => change(answer)

type ListFault = Extract<Fault, { readonly fault: keyof typeof listFaults }>
type ReplyFault = Extract<Fault, { readonly fault: keyof typeof replyFaults }>

const isListFault = (fault: Fault): fault is ListFault => Object.hasOwn(listFaults, fault.fault)

/** The behaviour under a fault's own name takes that fault; TypeScript does not follow a name through a union. */
const layList = (fault: ListFault, meeting: Meeting): (server: ListServer) => ListServer =>
  (listBehaviours[fault.fault] as (fault: ListFault, meeting: Meeting) => (server: ListServer) => ListServer)(
    fault,
    meeting
  )

/** As {@link layList}. */
const layReply = (fault: ReplyFault, meeting: Meeting): (answer: () => Reply) => Reply =>
  (replyBehaviours[fault.fault] as (fault: ReplyFault, meeting: Meeting) => (answer: () => Reply) => Reply)(
    fault,
    meeting
  )

const meets = (
  fault: Fault,
  state: FaultState,
  { list, now, request }: InjectedRequest,
  since: number,
  chance: () => number
): boolean => {
  if (fault.list !== undefined && fault.list !== list) return false
  if (fault.pages !== undefined && (fault.pages === "first") !== (request.cursor === undefined)) return false
  const elapsed = now - since
  if (elapsed < (fault.afterMs ?? 0) || elapsed >= (fault.untilMs ?? Number.POSITIVE_INFINITY)) return false
  const number = ++state.eligible
  if (fault.nth !== undefined && number !== fault.nth) return false
  if (number < (fault.from ?? 1) || number > (fault.to ?? Number.POSITIVE_INFINITY)) return false
  if (fault.every !== undefined && number % fault.every !== 0) return false
  if (fault.rate !== undefined && chance() >= fault.rate) return false
  if (state.met >= (fault.times ?? Number.POSITIVE_INFINITY)) return false
  state.met++
  return true
}

const trailOf = (trails: Recent<string, Trail>, { key, list, request }: InjectedRequest): Trail => {
  const name = JSON.stringify([draw(key), list, request.limit, Object.entries(request.filters).toSorted()])
  const trail: Trail = trails.get(name) ??
    {
      asked: [],
      issued: makeRecent(longestTrail),
      displaced: makeRecent(longestTrail),
      pages: 0,
      before: [],
      current: []
    }
  trails.set(name, trail)
  if (trail.asked.length === 0 || trail.asked.at(-1) !== request.cursor) {
    trail.asked.push(request.cursor)
    if (trail.asked.length > longestTrail) trail.asked.shift()
    trail.pages = request.cursor === undefined ? 0 : trail.pages
    trail.pages++
    trail.before = request.cursor === undefined ? [] : trail.current
  }
  return trail
}

const remember = (trail: Trail, page: ListPage, now: number): void => {
  trail.current = page.items
  if (page.next !== null) trail.issued.set(page.next, now)
}
