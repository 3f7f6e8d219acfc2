/**
 * Follows the cursors of one listing, ahead of whoever takes its pages. At most `ahead` pages have been asked for and not
 * been taken; a page that may be asked for is asked for at once, before the one that named it is looked at. While the pages
 * in memory are large, no further one is requested.
 */
import { Deferred, Effect, type Scope } from "effect"
import type { PaymentsError } from "../PaymentsError.ts"
import type { Fetched } from "./Client.ts"
import type { PageRequest } from "./PageSource.ts"
import type { ProgressGuard } from "./ProgressGuard.ts"

/** What comes after a page: nothing, another page, or the reason why that must not be asked for. */
type Following = "end" | "page" | PaymentsError

/** A page, and whether the listing goes on behind it. */
export interface TakenPage {
  readonly fetched: Fetched
  readonly following: Following
}

/** Characters of the pages that wait and of the one that was taken last. Beyond them, pages are requested one by one. */
const mostInMemory = 4 * 1024 * 1024

/** Gives the pages in turn. What was asked for ahead is cancelled when the scope closes. */
export const makePagesAhead = (
  options: {
    readonly first: PageRequest
    readonly fetch: (request: PageRequest) => Effect.Effect<Fetched, PaymentsError>
    readonly guard: ProgressGuard
    readonly ahead: number
    /** No page is asked for beyond so many records. */
    readonly records: number
  },
  scope: Scope.Scope
): Effect.Effect<TakenPage, PaymentsError> => {
  const coming: Array<Deferred.Deferred<TakenPage, PaymentsError>> = []
  /** Not asked for yet: as many pages as allowed are on their way or waiting. */
  let waiting: PageRequest | undefined = options.first
  /** Whoever takes pages waits for the next one, which is as good as taken. */
  let wanted = false
  let records = 0
  /** Characters of the pages that have come and are waiting, and of the one that was taken last. */
  let waitingSize = 0
  let takenSize = 0

  const mayAsk = () => coming.length - (wanted ? 1 : 0) < options.ahead && waitingSize + takenSize <= mostInMemory

  const ask = (request: PageRequest): Effect.Effect<void> =>
    Effect.suspend(() => {
      waiting = undefined
      const arrival = Deferred.makeUnsafe<TakenPage, PaymentsError>()
      coming.push(arrival)
      return options.fetch(request).pipe(
        Effect.flatMap(arrived),
        Deferred.into(arrival),
        Effect.forkIn(scope, { startImmediately: true })
      )
    })

  const arrived = (fetched: Fetched): Effect.Effect<TakenPage> => {
    const { envelope, request } = fetched
    records += envelope.records.length
    waitingSize += envelope.text.length
    if (envelope.cursor === null || records >= options.records) {
      return Effect.succeed({ fetched, following: "end" })
    }
    const next = { ...request, cursor: envelope.cursor }
    const fault = options.guard.check(next, envelope.records)
    if (fault !== undefined) return Effect.succeed({ fetched, following: fault })
    waiting = next
    const taken: TakenPage = { fetched, following: "page" }
    return mayAsk() ? Effect.as(ask(next), taken) : Effect.succeed(taken)
  }

  return Effect.gen(function*() {
    wanted = true
    // The caller has finished with the previous page.
    takenSize = 0
    if (coming.length === 0 && waiting !== undefined) yield* ask(waiting)
    const [next] = coming
    if (next === undefined) return yield* Effect.die(new Error("a page was taken beyond the last one"))
    const taken = yield* Deferred.await(next)
    wanted = false
    coming.shift()
    takenSize = taken.fetched.envelope.text.length
    waitingSize -= takenSize
    if (waiting !== undefined && mayAsk()) yield* ask(waiting)
    // Over a connection that is used again, Node sends in the next turn of its event loop. The service should have its
    // request before this page keeps us busy.
    if (coming.length > 0) yield* Effect.yieldNow
    return taken
  })
}
