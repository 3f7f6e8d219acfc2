/** Runs a part of a measurement in a child process. */
import type { Fault, SandboxOptions } from "@payments/sandbox"
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import type { WorkloadResult } from "../harness/WorkloadResult.ts"
import type { WorkloadName } from "./all.ts"
import type { Copies } from "./copies.ts"
import type { ExportOptions } from "./exports.ts"

/** A request to a child process. `listen` starts the server of PageServer.ts, `serve` a server of SandboxServer.ts. */
export type ChildRequest =
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
  | { readonly do: "compareCopies" | "readCopies"; readonly copies: Copies }
  | { readonly do: "serve"; readonly options: ServeOptions }
  | { readonly do: "firstPage"; readonly records: number }
  | { readonly do: "load"; readonly url: string; readonly pages: number; readonly requests: number }
  | { readonly do: "readAll"; readonly url: string }
  | { readonly do: "memory" }
  | { readonly do: "storm"; readonly url: string; readonly listings: number }
  | { readonly do: "serveMany"; readonly services: ReadonlyArray<SandboxOptions> }
  | { readonly do: "setFaults"; readonly service: number; readonly faults: ReadonlyArray<Fault> }
  | { readonly do: "countRequests" | "countStatuses" }

/** Which server to start: a sandbox, or a bare server that always sends the same page of a sandbox. */
export type ServeOptions =
  | { readonly kind: "bare" }
  | { readonly kind: "generated"; readonly records: number }

/** The response of a child process. */
export interface ChildResponse {
  /** The base address of the server that the child started. */
  readonly url?: string
  /** The base addresses of the services that the child started. */
  readonly urls?: ReadonlyArray<string>
  /** The requests that these services received. */
  readonly requests?: ReadonlyArray<number>
  /** The answers of these services, by status. */
  readonly statuses?: ReadonlyArray<Readonly<Record<string, number>>>
  readonly ms?: number
  readonly result?: WorkloadResult
  readonly records?: number
  /** Bytes that the child wrote to the disk during the request; 0 if the system does not report them. */
  readonly written?: number
  /** The largest resident set since the start of the child, in bytes. */
  readonly peakRss?: number
}

/** A child process that handles requests until it is disposed. */
export class Process implements AsyncDisposable {
  readonly #child: ChildProcess

  constructor(flags: ReadonlyArray<string> = []) {
    // Tests run the source of this file and the built child, which starts in a quarter of the time.
    const file = new URL(import.meta.url.endsWith(".ts") ? "../../dist/child.mjs" : "./child.mjs", import.meta.url)
    this.#child = fork(file, { execArgv: [...process.execArgv, ...flags] })
  }

  /** Sends a request and returns the response. Fails if the child exits first. */
  async send(request: ChildRequest): Promise<ChildResponse> {
    const abort = new AbortController()
    try {
      const response = once(this.#child, "message", { signal: abort.signal })
      const exit = once(this.#child, "exit", { signal: abort.signal }).then(([code]) => {
        throw new Error(`the process exited with code ${String(code)} during the request "${request.do}"`)
      })
      this.#child.send(request)
      const [message] = await Promise.race([response, exit]) as [ChildResponse] // child.ts sends nothing else
      return message
    } finally {
      abort.abort()
    }
  }

  /** Sends a request that ends the child, and waits for its exit. */
  async sendLast(request: ChildRequest): Promise<void> {
    const exit = once(this.#child, "exit")
    this.#child.send(request)
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, "exit")
    this.#child.disconnect()
    await exit
  }
}
