/**
 * An export in a child process, for tests that stop or kill it. It prints a line for each commit, then its result. After each
 * commit it waits for SIGUSR2.
 */
import { layerTest } from "@payments/core/testing"
import { briefTimes, recordsOf, urlOf } from "@payments/testkit/postgres/PostgresTest"
import { Effect, Latch, Layer, Result } from "effect"
import { scan } from "../../src/index.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"

const mayGoOn = Latch.makeUnsafe()
process.on("SIGUSR2", () => mayGoOn.openUnsafe())

const [port = "", schema = "", writer = ""] = process.argv.slice(2)

const result = await Effect.runPromise(
  Effect.result(
    scan("payoutRequests", {
      limit: 10,
      largestBatch: 10,
      onEvent: (event) =>
        event._tag === "Committed"
          ? Effect.andThen(
            // The test sends the signal after it has received the line.
            Effect.sync(() => {
              mayGoOn.closeUnsafe()
              console.log("committed")
            }),
            mayGoOn.await
          )
          : Effect.void
    }).pipe(
      Effect.provide(
        Layer.merge(
          PostgresSink.layer(urlOf({ port: Number(port) }, schema), briefTimes),
          layerTest({ payoutRequests: recordsOf(writer) })
        )
      )
    )
  )
)
console.log(Result.isSuccess(result) ? "done" : result.failure.reason._tag)
