/**
 * The two passes over a list between its full scans. Both only read and write; they have no checkpoint, and they conclude
 * nothing about rows that they do not read. A pass that fails is simply run again, so it waits for no service that is down.
 */
import { type Lists, Monotonic, type Page, PaymentsApi, type PaymentsError, type Position } from "@payments/core"
import { Duration, Effect, type Scope } from "effect"
import {
  type PassKind,
  type ScanProgress,
  type ScanRequest,
  type ScanStart,
  type Session,
  Sink,
  type SinkError
} from "../port/Sink.ts"
import { openPersonal } from "../rule/OpenPersonal.ts"
import type { PersonalRule } from "../rule/Rule.ts"
import { forgetCommits, makeGuard, type MerchantGuard, type SourceGuard } from "./MerchantGuard.ts"
import { type ReadPage, toReadPage } from "./ReadPage.ts"
import { firstWait, toBatch, type Traversal, type TraversalEvent, traverse } from "./ReadPages.ts"

/** A pass that has read all its pages. */
export interface PassSummary {
  readonly kind: PassKind
  readonly list: Lists.ListName
  readonly pages: number
  readonly records: number
  readonly inserted: number
  readonly updated: number
  readonly returned: number
  /** Records that the pass has written although they do not match the document. */
  readonly quarantined: number
  /** Repeated requests. */
  readonly retries: number
  readonly elapsed: Duration.Duration
}

/** The begin of a pass. It starts at the first page, after a complete full scan. */
export interface PassBegun {
  readonly _tag: "Begun"
  readonly list: Lists.ListName
  readonly kind: PassKind
  readonly part: undefined
  readonly start: Extract<ScanStart, "afterComplete">
  readonly progress: ScanProgress
}

/** What all passes of a list share. */
export interface PassContext {
  readonly list: Lists.AnyList
  readonly request: ScanRequest
  readonly rule: PersonalRule
  readonly largestBatch: number
  readonly source: SourceGuard
  readonly emit: (event: PassBegun | TraversalEvent) => Effect.Effect<void>
}

type PassEffect = Effect.Effect<PassSummary, PaymentsError | SinkError, PaymentsApi | Sink>

/** Reads pages from the first one on, until this number of pages in a row has nothing new or changed, or the list ends. */
export const headPass = (context: PassContext, quietPages: number): PassEffect =>
  withSession(context, "head", (session, makePassGuard, convert) =>
    Effect.gen(function*() {
      const { emit, list, request: { limit }, source } = context
      const { name } = list
      const api = yield* PaymentsApi
      const read: (
        query: {
          readonly limit: number
          readonly position: Position.Position | undefined
          readonly onBadRecord: "quarantine"
        }
      ) => Effect.Effect<Page<{ readonly id: string }>, PaymentsError> = api[name].page
      const guard = makePassGuard(true)
      /** Pages that the guard has not admitted yet. */
      const pending: Array<ReadPage> = []
      let retries = 0
      let quiet = 0
      let position: Position.Position | undefined
      for (;;) {
        const requested = source.next()
        const answer = yield* read({ limit, position, onBadRecord: "quarantine" })
        const page = convert(answer, { requested, received: source.next() })
        retries += page.attempts - 1
        pending.push(page)
        for (let admitted; pending.length > 0 && (admitted = yield* guard.admit(pending, false)) > 0;) {
          // One page at a time, because the pass ends after pages without a change.
          for (const one of pending.splice(0, admitted)) {
            const before = yield* session.progress
            const batch = toBatch([one], yield* guard.claim([one]))
            const [elapsed, progress] = yield* Effect.timed(session.commit(batch))
            guard.noteCommit(one.records.length)
            yield* emit({ _tag: "Committed", list: name, kind: "head", before, progress, retries, elapsed })
            quiet = (yield* session.pass?.isQuiet ?? Effect.succeed(true)) ? quiet + 1 : 0
            if (quiet >= quietPages) return retries
          }
        }
        if (page.next === null) return retries
        position = page.next
      }
    }))

/** How many dates a window pass reads at the same time. */
const windowConcurrency = 4

/**
 * Reads the records of these dates by the window filter of the list, several dates at the same time. If a record was
 * returned for two dates, it is unknown which text is newer, so all dates are read again, one after the other.
 */
export const windowPass = (context: PassContext, dates: ReadonlyArray<string>): PassEffect =>
  withSession(context, "window", (session, makePassGuard, convert) =>
    Effect.gen(function*() {
      const { emit, largestBatch, list, request: { limit }, source } = context
      const { windowFilter: field } = list
      if (field === undefined) return 0
      const sink = yield* Sink
      const startedAt = yield* Monotonic.millis
      const readDate = Effect.fnUntraced(function*(value: string) {
        const state: Traversal = {
          kind: "window",
          gate: undefined,
          begin: Effect.succeed(session),
          session: undefined,
          guard: makePassGuard(false),
          next: source.next,
          convert,
          mustDecide: false,
          restart: false,
          position: undefined,
          isResumed: false,
          retries: 0,
          startedAt,
          lastProgress: { at: undefined },
          wait: firstWait,
          restarts: 0
        }
        yield* traverse(list, { field, value }, limit, largestBatch, sink, state, emit)
        return state.retries
      })
      const retries = yield* Effect.forEach(new Set(dates), readDate, { concurrency: windowConcurrency })
      const { repeats } = yield* session.progress
      if (repeats > 0) retries.push(...(yield* Effect.forEach(new Set(dates), readDate)))
      return retries.reduce((sum, count) => sum + count, 0)
    }))

/** Opens the session of a pass, runs the pass, and summarizes it. Without a complete full scan, the pass reads nothing. */
const withSession = Effect.fn("Export.pass")(function*(
  { emit, list, request, rule, source }: PassContext,
  kind: PassKind,
  read: (
    session: Session,
    makePassGuard: (isWhole: boolean) => MerchantGuard,
    convert: Traversal["convert"]
  ) => Effect.Effect<number, PaymentsError | SinkError, PaymentsApi | Sink>
): Effect.fn.Return<PassSummary, PaymentsError | SinkError, PaymentsApi | Sink | Scope.Scope> {
  const startedAt = yield* Monotonic.millis
  const api = yield* PaymentsApi
  const { inspect, location, passes } = yield* Sink
  if (passes === undefined || inspect === undefined) return noPass(kind, list)
  const personal = yield* openPersonal({ location, personal: inspect.personal }, rule)
  const session = yield* passes.begin(list, kind, { ...request, personal: personal.binding })
  if (session.pass?.isLoaded !== true) return noPass(kind, list)
  const { limit } = request
  const { name } = list
  const preview = { owner: yield* inspect.owner, resumeAt: undefined }
  forgetCommits(source, name, kind)
  yield* emit({
    _tag: "Begun",
    list: name,
    kind,
    part: undefined,
    start: "afterComplete",
    progress: yield* session.progress
  })
  const retries = yield* read(
    session,
    (isWhole) => makeGuard({ name, kind, limit, isWhole, api, location, inspect, preview, rebind: false, source }),
    toReadPage(list, personal.redactorOf(list))
  )
  yield* session.pass.end
  forgetCommits(source, name, kind)
  const { inserted, pages, quarantined, records, returned, updated } = yield* session.progress
  return {
    kind,
    list: name,
    pages,
    records,
    inserted,
    updated,
    returned,
    quarantined,
    retries,
    elapsed: Duration.millis((yield* Monotonic.millis) - startedAt)
  }
}, Effect.scoped)

const noPass = (kind: PassKind, { name }: Lists.AnyList): PassSummary => ({
  kind,
  list: name,
  pages: 0,
  records: 0,
  inserted: 0,
  updated: 0,
  returned: 0,
  quarantined: 0,
  retries: 0,
  elapsed: Duration.zero
})
