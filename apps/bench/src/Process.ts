/** Runs a part of a measurement in a process of its own. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import type { Tally } from "./Tally.ts"
import type { WorkloadName } from "./workloads/all.ts"
import type { ExportOptions } from "./workloads/exports.ts"

/** What a child can be told to do. */
export type Order =
  | { readonly do: "listen"; readonly records: number }
  | { readonly do: "run"; readonly workload: WorkloadName; readonly url: string }
  | { readonly do: "copy"; readonly url: string; readonly folder: string }
  | {
    readonly do: "copyToPostgres"
    readonly url: string
    readonly database: string
    readonly schema: string
    readonly by: "unnest" | "copy"
  }
  | { readonly do: "export"; readonly options: ExportOptions }
  | { readonly do: "serve"; readonly options: ServeOptions }
  | { readonly do: "first"; readonly records: number }
  | { readonly do: "load"; readonly url: string; readonly pages: number; readonly requests: number }
  | { readonly do: "walk"; readonly url: string }
  | { readonly do: "memory" }
  | { readonly do: "storm"; readonly url: string; readonly listings: number }

/** A server of the sandbox's, or a bare one that sends one of its pages. */
export type ServeOptions =
  | { readonly kind: "bare" }
  | { readonly kind: "generated"; readonly records: number }

/** What came of it. */
export interface Answer {
  readonly url?: string
  readonly ms?: number
  readonly tally?: Tally
  readonly records?: number
  /** Bytes that the process has sent to the disk while it worked, where the system tells. */
  readonly written?: number
  /** Bytes, since the process began. */
  readonly peakRss?: number
}

/** A child that obeys until it is disposed of. */
export class Process implements AsyncDisposable {
  readonly #child: ChildProcess

  constructor(flags: ReadonlyArray<string> = []) {
    // Beside this file: the bundle when this is one, else the source, which Node runs as it is.
    const file = new URL(import.meta.url.endsWith(".ts") ? "./child.ts" : "./child.mjs", import.meta.url)
    this.#child = fork(file, { execArgv: [...process.execArgv, ...flags] })
  }

  async tell(order: Order): Promise<Answer> {
    const ended = new AbortController()
    try {
      const answer = once(this.#child, "message", { signal: ended.signal })
      const exit = once(this.#child, "exit", { signal: ended.signal }).then(([code]) => {
        throw new Error(`the process that was told to ${order.do} ended with ${String(code)}`)
      })
      this.#child.send(order)
      const [message] = await Promise.race([answer, exit]) as [Answer] // our own child sends nothing else
      return message
    } finally {
      ended.abort()
    }
  }

  /** Tells it something that it will not survive. */
  async end(order: Order): Promise<void> {
    const exit = once(this.#child, "exit")
    this.#child.send(order)
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, "exit")
    this.#child.disconnect()
    await exit
  }
}
