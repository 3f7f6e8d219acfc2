/** A proxy before a server, which a test can stop and start again. */
import { Effect } from "effect"
import { freePort } from "./FreePort.ts"
import { makeTcpGate } from "./TcpGate.ts"

/** Makes a proxy, which does not listen yet. Closing the scope stops it. */
export const makeProxy = Effect.fnUntraced(function*(target: number) {
  const { open, port, refuse } = yield* makeTcpGate(yield* Effect.promise(freePort))
  return {
    port,
    start: open(target),
    /** Closes all connections and refuses new ones. */
    stop: refuse
  }
})
