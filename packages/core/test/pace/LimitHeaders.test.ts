/** What a client does if the headers of an answer say that no request is left. */
import { assert, describe, it } from "@effect/vitest"
import { overSleptClock } from "@payments/testkit/Clocks"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Stream } from "effect"
import { PaymentsApi } from "../../src/index.ts"
import { layerHttpClient } from "../../src/node.ts"
import { makeLimitReset, msUntil } from "../../src/pace/LimitHeaders.ts"
import { apiOver } from "../http/Clients.ts"

const now = 1_800_000_000_000

describe("the wait", () => {
  it.each<readonly [headers: { readonly [name: string]: string }, wait: number | undefined]>([
    [{ "ratelimit-remaining": "0", "ratelimit-reset": "5" }, 5000],
    [{ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1800000003" }, 3000],
    [{ "x-rate-limit-remaining": "0", "x-rate-limit-reset": "0.5" }, 500],
    [{ ratelimit: "limit=100, remaining=0, reset=7" }, 7000],
    [{ ratelimit: `"default";r=0;t=9` }, 9000],
    [{ ratelimit: `"second";r=0;t=1, "day";r=40;t=9000` }, undefined],
    [{ "ratelimit-remaining": "3", "ratelimit-reset": "5" }, undefined],
    [{ "ratelimit-remaining": "0" }, undefined],
    [{ "ratelimit-remaining": "0", "ratelimit-reset": "1799999990" }, -10_000],
    [{ "ratelimit-remaining": "0", "ratelimit-reset": "Fri, 27 Nov 2026 20:00:00 GMT" }, undefined],
    [{ "ratelimit-remaining": "none", "ratelimit-reset": "5" }, undefined],
    [{ "ratelimit-limit": "0" }, undefined],
    [{}, undefined]
  ])("of %j is %s ms", (headers, wait) => {
    const resetIn = makeLimitReset()
    assert.isUndefined(resetIn(headers), "the first answer, without one before that counts")
    resetIn({ "ratelimit-remaining": "1", "ratelimit-reset": "5" })
    const reset = resetIn(headers)
    assert.strictEqual(reset === undefined ? undefined : msUntil(reset, { now, elapsed: 0 }), wait)
  })
})

it("a number of seconds is counted from the answer on", () => {
  assert.strictEqual(msUntil(5, { now, elapsed: 2000 }), 3000)
  assert.isBelow(msUntil(5, { now, elapsed: 3_600_000 }), 0)
})

describe("a client", () => {
  /** Returns the milliseconds that the client has waited before each request but the first. */
  const pausesOf = (headersOf: (request: number) => { readonly [name: string]: string }) =>
    overSleptClock(Effect.fnUntraced(function*(slept) {
      const times: Array<number> = []
      const server = yield* scriptedServer((_, response, count) => {
        times.push(slept())
        for (const [name, value] of Object.entries(headersOf(count))) response.setHeader(name, value)
        return pageOf(response, [`{"id":"${count}"}`], count < 4 ? `next-${count}` : null)
      })
      const api = apiOver(layerHttpClient, { invoicesBaseUrl: new URL(server.url) })
      yield* PaymentsApi.use(({ invoices }) => Stream.runDrain(invoices.stream())).pipe(Effect.provide(api))
      return times.slice(1).map((time, index) => time - (times[index] ?? time))
    }))

  it.live("waits before the next request if no request is left", () =>
    Effect.gen(function*() {
      const [first = 0, second = 0] = yield* pausesOf((count) => ({
        "ratelimit-remaining": count === 2 ? "0" : "5",
        "ratelimit-reset": "1"
      }))
      assert.isBelow(first, 900)
      assert.isAtLeast(second, 990)
    }).pipe(Effect.scoped))

  it.live("does not wait for a service whose answers never have a request left", () =>
    Effect.gen(function*() {
      const pauses = yield* pausesOf(() => ({ "ratelimit-remaining": "0", "ratelimit-reset": "20" }))
      assert.isBelow(Math.max(...pauses), 5000)
    }).pipe(Effect.scoped))
})
