/**
 * The tuned read of the Node client: sends a request with undici and collects the whole body. As `HttpPages` does with
 * any other client, it enforces the deadlines and the size limit, follows no redirect, and decodes the body. It closes
 * the connection on interruption.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Effect } from "effect"
import { announcedLength, BodyBytes } from "../config/BodyBytes.ts"
import { bodyReason, connectionReason } from "../config/SystemCode.ts"
import { type Reason, Timeout } from "../model/PaymentsError.ts"
import { type AttemptProgress, nextCheckAt, nextDeadline } from "./Deadline.ts"
import { acceptEncoding, codingOf, decodeWhole, isIdentity } from "./NodeDecoder.ts"
import { tooLarge, type TunedReadAnswer, type TunedReadRequest } from "./TunedRead.ts"

/** Ends reads whose deadline has passed, with one timer for all reads. */
export class ReadDeadlines {
  readonly #reads = new Set<UndiciRead>()
  #timer: NodeJS.Timeout | undefined
  /** When the timer fires. */
  #nextCheckAt = Number.POSITIVE_INFINITY

  add(read: UndiciRead): void {
    this.#reads.add(read)
    if (read.nextCheckAt() < this.#nextCheckAt) this.#arm()
  }

  remove(read: UndiciRead): void {
    this.#reads.delete(read)
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const read of this.#reads) read.close()
  }

  #arm(): void {
    clearTimeout(this.#timer)
    this.#nextCheckAt = Number.POSITIVE_INFINITY
    for (const read of this.#reads) this.#nextCheckAt = Math.min(this.#nextCheckAt, read.nextCheckAt())
    this.#timer = this.#nextCheckAt === Number.POSITIVE_INFINITY
      ? undefined
      : setTimeout(() => this.#check(), Math.max(1, this.#nextCheckAt - performance.now())).unref()
  }

  #check(): void {
    const now = performance.now()
    for (const read of this.#reads) {
      const { at, phase } = read.deadline()
      if (at <= now) read.fail(new Timeout({ phase }))
    }
    this.#arm()
  }
}

/** Sends one request and reads its answer. An interruption closes the connection. */
export const readOverUndici = (
  dispatcher: Dispatcher,
  deadlines: ReadDeadlines,
  request: TunedReadRequest
): Effect.Effect<TunedReadAnswer, Reason> =>
  Effect.callback((resume) => {
    const read = new UndiciRead(request, deadlines, resume)
    deadlines.add(read)
    const { origin, path } = request
    // Over plain http, which is for this machine only, compression costs more time than it saves.
    const headers = origin.startsWith("https:")
      ? { ...request.headers, "accept-encoding": acceptEncoding }
      : request.headers
    try {
      // `ReadDeadlines` replaces the timeouts of undici.
      dispatcher.dispatch({ method: "GET", origin, path, headers, headersTimeout: 0, bodyTimeout: 0 }, read)
    } catch (error) {
      read.fail(connectionReason(error))
    }
    return Effect.sync(() => read.close())
  })

type Resume = (outcome: Effect.Effect<TunedReadAnswer, Reason>) => void

class UndiciRead implements Dispatcher.DispatchHandler {
  readonly #request: TunedReadRequest
  readonly #deadlines: ReadDeadlines
  readonly #progress: AttemptProgress
  #resume: Resume | undefined
  #controller: Dispatcher.DispatchController | undefined
  #status = 0
  #headers: Readonly<Record<string, string | undefined>> = {}
  readonly #body: BodyBytes
  /** The length that `content-length` announces, or 0. */
  #announced = 0

  constructor(request: TunedReadRequest, deadlines: ReadDeadlines, resume: Resume) {
    const startedAt = performance.now()
    this.#request = request
    this.#body = new BodyBytes(request.maxBytes)
    this.#deadlines = deadlines
    this.#progress = { startedAt, phase: "headers", lastBytesAt: startedAt }
    this.#resume = resume
  }

  deadline() {
    return nextDeadline(this.#request.deadlines, this.#progress)
  }

  /** Returns when to check the deadline next. */
  nextCheckAt(): number {
    return nextCheckAt(this.#request.deadlines, this.#progress, performance.now())
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#resume === undefined) this.close()
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  ): void {
    // An interim answer (RFC 9110 §15.2). The final answer follows.
    if (status < 200) return
    this.#status = status
    this.#headers = joined(headers)
    this.#announced = announcedLength(this.#headers)
    this.#progress.phase = "body"
    this.#progress.lastBytesAt = performance.now()
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#body.add(chunk, this.#announced)
    this.#progress.lastBytesAt = performance.now()
    if (this.#body.size > this.#request.maxBytes) this.fail(tooLarge(this.#request.maxBytes))
  }

  onResponseEnd(): void {
    this.#controller = undefined
    const bytes = this.#body.finish()
    const coding = codingOf(this.#headers["content-encoding"])
    const answer = { status: this.#status, headers: this.#headers }
    this.#settle(
      isIdentity(coding)
        ? Effect.succeed({ ...answer, bytes })
        : Effect.map(decodeWhole(coding, bytes, this.#request.maxBytes), (decoded) => ({ ...answer, bytes: decoded }))
    )
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#controller = undefined
    this.#settle(Effect.fail(
      this.#progress.phase === "headers" ? connectionReason(error) : bodyReason(error)
    ))
  }

  fail(reason: Reason): void {
    this.#settle(Effect.fail(reason))
    this.close()
  }

  /** Closes the connection. The rest of the answer is not read. */
  close(): void {
    this.#settle(undefined)
    this.#controller?.abort(new Error("the read was ended"))
  }

  #settle(outcome: Effect.Effect<TunedReadAnswer, Reason> | undefined): void {
    const resume = this.#resume
    this.#resume = undefined
    this.#body.drop()
    this.#deadlines.remove(this)
    if (outcome !== undefined) resume?.(outcome)
  }
}

/** Joins header fields that repeat (RFC 9110 §5.3). */
const joined = (
  headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
): Readonly<Record<string, string | undefined>> => {
  const fields: Record<string, string | undefined> = {}
  for (const name in headers) {
    const value = headers[name]
    fields[name] = typeof value === "string" ? value : value?.join(", ")
  }
  return fields
}
