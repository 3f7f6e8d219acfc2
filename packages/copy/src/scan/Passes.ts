/**
 * The two passes over a list between its full scans. Both only read and write; they have no checkpoint, and they conclude
 * nothing about rows that they do not read. A pass that fails is simply run again, so it waits for no service that is down.
 */
import { type Lists, Monotonic, PaymentsApi, type PaymentsError, type Position } from "@payments/core"
import { Duration, Effect, type Scope, Struct } from "effect"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { Counts } from "../port/Counts.ts"
import {
  type Part,
  type PassKind,
  type ScanProgress,
  type ScanRequest,
  type Session,
  Sink,
  type SinkError
} from "../port/Sink.ts"
import { openPersonal } from "../rule/OpenPersonal.ts"
import type { PersonalRule } from "../rule/Rule.ts"
import { type PageBatch, pageReader } from "./PageBatch.ts"
import { makePageGate } from "./PageGate.ts"
import { commitPages, makeReading, type Reading, type ReadingEvent, readPages } from "./ReadPages.ts"
import { forgetCommits, type SourceGuard } from "./SourceGuard.ts"

/** The quarantined records are those that the pass has written although they do not match the document. */
const passCounts = ["pages", "records", "inserted", "updated", "returned", "quarantined"] as const
const noCounts = Struct.pick(ScanTotals.none.counts, passCounts)

/** A pass that has read all its pages. */
export interface PassSummary extends Pick<Counts, typeof passCounts[number]>, Pick<ScanProgress, "drift"> {
  readonly kind: PassKind
  readonly list: Lists.ListName
  /** Repeated requests. */
  readonly retries: number
  readonly elapsed: Duration.Duration
}

export interface PassContext {
  readonly list: Lists.AnyList
  readonly request: ScanRequest
  readonly rule: PersonalRule
  readonly largestBatch: number
  readonly source: SourceGuard
  readonly emit: (event: ReadingEvent) => Effect.Effect<void>
}

type PassEffect<A> = Effect.Effect<A, PaymentsError | SinkError, PaymentsApi | Sink>

/** Reads pages from the first one on. Ends with the list, or after `quietPages` pages in a row without a change. */
export const headPass = (context: PassContext, quietPages: number): PassEffect<PassSummary> =>
  runPass(context, "head", ({ pass, readingOf }) =>
    Effect.gen(function*() {
      const reading = readingOf(undefined)
      const { api, guard, limit, source: { next } } = reading
      const read = pageReader(api, context.list.name)
      /** Pages that the guard has not admitted yet. */
      const pending: Array<PageBatch> = []
      let quiet = 0
      let position: Position.Position | undefined
      for (;;) {
        const requested = next()
        const answer = yield* read({ limit, position, onBadRecord: "quarantine" })
        const page = reading.convert(answer, { requested, received: next() })
        reading.retries += page.attempts - 1
        pending.push(page)
        for (let admitted; pending.length > 0 && (admitted = yield* guard.admit(pending, false)) > 0;) {
          // One page at a time, because the pass ends after pages without a change.
          for (const one of pending.splice(0, admitted)) {
            yield* commitPages(reading, [one])
            quiet = (yield* pass.isQuiet) ? quiet + 1 : 0
            if (quiet >= quietPages) return reading.retries
          }
        }
        if (answer.next === null) return reading.retries
        position = answer.next
      }
    }))

/** Dates that are read at the same time. */
const windowConcurrency = 4

/**
 * Reads the records of these dates by the window filter of the list, several dates at the same time. If a record was
 * returned for two dates, it is unknown which text is newer, so all dates are read again, one after the other.
 */
export const windowPass = (context: PassContext, dates: ReadonlyArray<string>): PassEffect<PassSummary> =>
  runPass(context, "window", ({ readingOf, session }) =>
    Effect.gen(function*() {
      const { windowFilter: field } = context.list
      if (field === undefined) return 0
      const readDate = Effect.fnUntraced(function*(value: string) {
        const reading = readingOf({ field, value })
        yield* readPages(reading)
        return reading.retries
      })
      const retries = yield* Effect.forEach(new Set(dates), readDate, { concurrency: windowConcurrency })
      const { repeats } = yield* session.progress
      if (repeats > 0) retries.push(...(yield* Effect.forEach(new Set(dates), readDate)))
      return retries.reduce((sum, count) => sum + count, 0)
    }))

interface OpenPass {
  readonly session: Session
  readonly pass: NonNullable<Session["pass"]>
  readonly readingOf: (part: Part | undefined) => Reading
}

/** Reads nothing without a complete full scan of the list. */
const runPass = Effect.fn("Export.pass")(function*(
  { emit, largestBatch, list, request, rule, source }: PassContext,
  kind: PassKind,
  read: (open: OpenPass) => PassEffect<number>
): Effect.fn.Return<PassSummary, PaymentsError | SinkError, PaymentsApi | Sink | Scope.Scope> {
  const startedAt = yield* Monotonic.millis
  const api = yield* PaymentsApi
  const sink = yield* Sink
  const { inspect, location, passes } = sink
  const emptyPass = { kind, list: list.name, ...noCounts, drift: [], retries: 0, elapsed: Duration.zero }
  if (passes === undefined || inspect === undefined) return emptyPass
  const personal = yield* openPersonal({ location, personal: inspect.personal }, rule)
  const session = yield* passes.begin(list, kind, { ...request, personal: personal.binding })
  const { pass } = session
  if (pass?.isLoaded !== true) return emptyPass
  const { name } = list
  const preview = { owner: yield* inspect.owner, resumeAt: undefined }
  forgetCommits(source, name, kind)
  const { start } = session
  yield* emit({ _tag: "Begun", list: name, kind, part: undefined, start, progress: yield* session.progress })
  const redactor = personal.redactorOf(list)
  const readingOf = (part: Part | undefined) =>
    makeReading({
      api,
      sink,
      list,
      kind,
      part,
      limit: request.limit,
      largestBatch,
      redactor,
      rebind: false,
      preview,
      source,
      gate: makePageGate(),
      begin: Effect.succeed(session),
      startedAt,
      lastProgress: { at: undefined },
      emit
    })
  const retries = yield* read({ session, pass, readingOf })
  yield* pass.end
  forgetCommits(source, name, kind)
  const elapsed = Duration.millis((yield* Monotonic.millis) - startedAt)
  return { kind, list: name, ...Struct.pick(yield* session.progress, [...passCounts, "drift"]), retries, elapsed }
}, Effect.scoped)
