/** Sandbox servers. */
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { Effect, ManagedRuntime } from "effect"

/** The services of {@link serveMany}. */
let services: ReadonlyArray<Sandbox["Service"]> = []

/** The services run as long as the process. Returns their base addresses. */
export const serveMany = async (options: ReadonlyArray<SandboxOptions>): Promise<ReadonlyArray<string>> => {
  const start = (one: SandboxOptions) => ManagedRuntime.make(Sandbox.layer(one)).runPromise(Effect.service(Sandbox))
  services = await Promise.all(options.map(start))
  return services.map(({ url }) => url)
}

/** Returns the number of requests that all services have received. */
export const countRequests = (): Promise<number> =>
  Effect.runPromise(Effect.forEach(services, ({ counters }) => counters)).then((counters) =>
    counters.reduce((sum, { requests }) => sum + requests, 0)
  )
