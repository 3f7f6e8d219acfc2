/**
 * One answer of undici, as a web `Response` whose body can also be taken whole ({@link WholeBody}). Bytes are gathered
 * as they arrive; where nobody takes them, a little of them, then the connection is told to wait.
 */
import type { Dispatcher } from "@effect/platform-node/Undici"
import { Effect } from "effect"
import { pipeline, Readable } from "node:stream"
import { type Reason, Transport } from "../PaymentsError.ts"
import { decodeStream, decodeWhole, isPlain } from "./NodeDecoder.ts"
import { systemCode } from "./SystemCode.ts"
import { tooLarge, type WholeBody, wholeBody } from "./WholeBody.ts"

/** Bytes that wait for a reader before the connection waits. A page fits. */
const unreadBytes = 256 * 1024

/** An answer whose headers have come. */
export class NodeAnswer implements WholeBody {
  readonly #controller: Dispatcher.DispatchController
  readonly #coding: string
  readonly #headers: Headers
  readonly #status: number
  #chunks: Array<Uint8Array> = []
  #size = 0
  #paused = false
  /** How it ended: with an error, or whole. */
  #end: { readonly error: unknown } | "whole" | undefined
  /** Whoever waits for bytes or the end. */
  #wake: (() => void) | undefined

  constructor(
    controller: Dispatcher.DispatchController,
    status: number,
    fields: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  ) {
    this.#controller = controller
    this.#status = status
    this.#headers = headersOf(fields)
    this.#coding = this.#headers.get("content-encoding")?.trim().toLowerCase() ?? ""
  }

  /** The answer as any web API takes it; made once, since a body can be read once. */
  toResponse(): Response & WholeBody {
    let source: AsyncIterator<Uint8Array> | undefined
    const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (out) => {
        const { done, value } = await (source ??= this.#decoded()).next()
        if (done === true) out.close()
        else out.enqueue(new Uint8Array(value))
      },
      cancel: () => this.close()
    }, { highWaterMark: 0 })
    const response = new Response(body, { headers: this.#headers })
    // A `Response` cannot be made with every status that a server can send.
    Object.defineProperty(response, "status", { value: this.#status })
    return Object.assign(response, { [wholeBody]: this[wholeBody].bind(this) })
  }

  /** The connection has brought bytes. */
  arrived(chunk: Uint8Array): void {
    this.#chunks.push(chunk)
    this.#size += chunk.length
    if (this.#wake !== undefined) this.#wake()
    else if (this.#size > unreadBytes && !this.#paused) {
      this.#paused = true
      this.#controller.pause()
    }
  }

  /** All bytes have come, or no more will. */
  ended(error?: unknown): void {
    this.#end ??= error === undefined ? "whole" : { error }
    this.#wake?.()
  }

  /** Nobody wants the rest: the connection is closed. */
  close(): void {
    if (this.#end === undefined) this.#controller.abort(new Error("the answer is no longer wanted"))
  }

  [wholeBody](cap: number, onBytes: () => void): Effect.Effect<Uint8Array, Reason> {
    const gathered = Effect.callback<Uint8Array, Reason>((resume) => {
      const settle = (outcome: Effect.Effect<Uint8Array, Reason>) => {
        this.#wake = undefined
        resume(outcome)
      }
      this.#wake = () => {
        onBytes()
        if (this.#size > cap) {
          this.close()
          settle(Effect.fail(tooLarge(cap)))
        } else if (this.#end === "whole") settle(Effect.succeed(this.#taken()))
        else if (this.#end !== undefined) settle(Effect.fail(truncated(this.#end.error)))
      }
      this.#resume()
      this.#wake()
      return Effect.sync(() => this.close())
    })
    return isPlain(this.#coding)
      ? gathered
      : Effect.flatMap(gathered, (bytes) => decodeWhole(this.#coding, bytes, cap))
  }

  #taken(): Uint8Array {
    const chunks = this.#chunks
    this.#chunks = []
    this.#size = 0
    return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks)
  }

  async *#raw(): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#size > 0) yield this.#taken()
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

  #resume(): void {
    if (this.#paused) this.#controller.resume()
    this.#paused = false
  }
}

const truncated = (error: unknown): Reason => new Transport({ kind: "truncated", code: systemCode(error) })

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
