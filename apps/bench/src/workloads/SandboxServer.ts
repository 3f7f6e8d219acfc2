/** The sandbox server, and a bare server for comparison. */
import { Lists } from "@payments/core"
import { ListServer } from "@payments/core/testing"
import { type Fault, Sandbox, type SandboxOptions, World } from "@payments/sandbox"
import { Effect, ManagedRuntime } from "effect"
import { createServer } from "node:http"
import type { ServeOptions } from "./Process.ts"

/** Starts a server that runs as long as the process. Returns the base address. */
export const serve = (options: ServeOptions): Promise<string> => {
  switch (options.kind) {
    case "bare":
      return bare()
    case "generated":
      return sandbox({ records: options.records })
  }
}

const sandbox = (options: SandboxOptions): Promise<string> =>
  ManagedRuntime.make(Sandbox.layer(options)).runPromise(Sandbox.use(({ url }) => Effect.succeed(url)))

/** The services of {@link serveMany}. */
let services: ReadonlyArray<Sandbox["Service"]> = []

/** Starts services that run as long as the process. Returns their base addresses. */
export const serveMany = async (options: ReadonlyArray<SandboxOptions>): Promise<ReadonlyArray<string>> => {
  const start = (one: SandboxOptions) => ManagedRuntime.make(Sandbox.layer(one)).runPromise(Effect.service(Sandbox))
  services = await Promise.all(options.map(start))
  return services.map(({ url }) => url)
}

/** Replaces the faults of a service. */
export const setFaults = (index: number, faults: ReadonlyArray<Fault>): Promise<void> =>
  Effect.runPromise(services[index]?.setFaults(faults) ?? Effect.die(`there is no service ${index}`))

/** Returns the number of requests that each service has received. */
export const countRequests = (): Promise<ReadonlyArray<number>> =>
  Effect.runPromise(
    Effect.forEach(services, (service) => Effect.map(service.counters, (counters) => counters.requests))
  )

/** Returns the number of answers of each service, by status. */
export const countStatuses = (): Promise<ReadonlyArray<Readonly<Record<string, number>>>> =>
  Effect.runPromise(
    Effect.forEach(services, (service) => Effect.map(service.counters, (counters) => counters.statuses))
  )

/** Starts a server that sends one prepared page of 100 records for every request. */
const bare = (): Promise<string> => {
  const page = World.make({ records: 100_000 }).servers.payoutRequests({ filters: {}, limit: 100, cursor: undefined })
  if (page._tag !== "Page") throw new Error("no page")
  const body = Buffer.from(ListServer.renderPage(Lists.documentedPage, page).body)
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body)
  })
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`)
    })
  })
}

/** Returns the milliseconds from the start of a sandbox of this size to the end of its first response. */
export const firstPage = async (records: number): Promise<number> => {
  const start = performance.now()
  const url = await serve({ kind: "generated", records })
  const response = await fetch(`${url}/v0/payoutRequests?limit=100`, {
    headers: { authorization: "Bearer sandbox_key" }
  })
  await response.arrayBuffer()
  return performance.now() - start
}
