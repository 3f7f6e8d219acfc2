/**
 * One request over undici, and its answer as a web `Response`, for whoever treats it as any other `HttpClient`.
 * Bytes are gathered as they arrive; where nobody takes them, a little of them, then the connection is told to wait.
 *
 * The runtime may hold an answer long after its use, until it cleans up in full. So nothing but the little that is
 * needed hangs on it: no fiber, no body that was taken, no page.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Effect } from "effect"
import { pipeline, Readable } from "node:stream"
import { BodyBytes } from "./BodyBytes.ts"
import { decodeStream } from "./NodeDecoder.ts"

/** Bytes that wait for a reader before the connection waits. A page fits. */
const unreadBytes = 256 * 1024

/** A request that is sent once. */
export class NodeExchange implements Dispatcher.DispatchHandler {
  #controller: Dispatcher.DispatchController | undefined
  #unwanted = false
  /** Whoever waits for the headers, or for what came instead. */
  #answer: ((answer: Effect.Effect<Response, unknown>) => void) | undefined
  #coding = ""
  readonly #unread = new BodyBytes(unreadBytes)
  #paused = false
  /** How it ended: with an error, or whole. */
  #end: { readonly error: unknown } | "whole" | undefined
  /** Whoever waits for bytes or the end. */
  #wake: (() => void) | undefined

  /** Sends the request; gives the answer when its headers have come. */
  send(dispatcher: Dispatcher, options: Dispatcher.DispatchOptions): Effect.Effect<Response, unknown> {
    return Effect.callback((resume) => {
      this.#answer = resume
      try {
        dispatcher.dispatch(options, this)
      } catch (error) {
        this.#settle(Effect.fail(error))
      }
      return Effect.sync(() => this.close())
    })
  }

  /** Closes the connection when that signal comes. */
  closeOn(signal: AbortSignal): void {
    signal.addEventListener("abort", () => this.close(), { once: true })
  }

  /** Nobody wants the rest: the connection is closed. */
  close(): void {
    this.#unwanted = true
    this.#answer = undefined
    if (this.#end === undefined) this.#controller?.abort(new Error("the answer is no longer wanted"))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#unwanted) this.close()
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    fields: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  ): void {
    // An interim answer (RFC 9110 §15.2); the one that counts follows.
    if (status < 200) return
    const headers = headersOf(fields)
    this.#coding = headers.get("content-encoding")?.trim().toLowerCase() ?? ""
    this.#settle(Effect.succeed(this.#response(status, headers)))
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Uint8Array): void {
    this.#unread.add(chunk)
    if (this.#wake !== undefined) this.#wake()
    else if (this.#unread.size > unreadBytes && !this.#paused) {
      this.#paused = true
      controller.pause()
    }
  }

  onResponseEnd(): void {
    this.#finish("whole")
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#finish({ error })
    this.#settle(Effect.fail(error))
  }

  #finish(end: { readonly error: unknown } | "whole"): void {
    this.#end ??= end
    this.#controller = undefined
    this.#wake?.()
  }

  #settle(answer: Effect.Effect<Response, unknown>): void {
    const resume = this.#answer
    this.#answer = undefined
    resume?.(answer)
  }

  #response(status: number, headers: Headers): Response {
    let source: AsyncIterator<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (out) => {
        const { done, value } = await (source ??= this.#decoded()).next()
        if (done === true) out.close()
        else out.enqueue(new Uint8Array(value))
      },
      cancel: () => this.close()
    }, { highWaterMark: 0 })
    const response = new Response(body, { headers })
    // A `Response` cannot be made with every status that a server can send.
    Object.defineProperty(response, "status", { value: status })
    return response
  }

  #resume(): void {
    if (this.#paused) this.#controller?.resume()
    this.#paused = false
  }

  /** The bytes as sent, for whoever treats this as any other answer. */
  async *#raw(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#unread.size > 0) yield this.#unread.take()
      else if (this.#end === "whole") return
      else if (this.#end !== undefined) throw this.#end.error
      else {
        this.#resume()
        // oxlint-disable-next-line no-await-in-loop -- each part is waited for in its turn
        await new Promise<void>((resolve) => {
          this.#wake = resolve
        })
        this.#wake = undefined
      }
    }
  }

  #decoded(): AsyncIterator<Uint8Array> {
    const decoder = decodeStream(this.#coding)
    // What goes wrong on the way ends the decoded stream too.
    return decoder === undefined
      ? this.#raw()
      : pipeline(Readable.from(this.#raw()), decoder, () => {})[Symbol.asyncIterator]()
  }
}

const headersOf = (fields: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>): Headers => {
  const headers = new Headers()
  for (const [name, value] of Object.entries(fields)) {
    for (const one of typeof value === "string" ? [value] : value ?? []) {
      // A server may send what a header cannot hold here; no such field is of use to anyone.
      try {
        headers.append(name, one)
      } catch {}
    }
  }
  return headers
}
