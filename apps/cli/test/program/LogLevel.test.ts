import { assert, it } from "@effect/vitest"
import { payments } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"

it.live("--log-level debug prints each request and each wait, but no key, cursor or filter value", () =>
  Effect.gen(function*() {
    const server = yield* scriptedServer((_, response, count) =>
      count === 1
        ? response.writeHead(503).end()
        : pageOf(response, [`{"id":"a","reference":"canary-value"}`], count === 2 ? "canary-cursor" : null)
    )
    const env = { PAYMENTS_BASE_URL: server.url, PAYMENTS_API_KEY: "canary-key" }
    const list = ["invoices", "list", "--all", "--reference", "canary-value", "--format", "ndjson"]
    const { code, stderr } = yield* payments([...list, "--log-level", "debug"], { env })
    assert.strictEqual(code, 0, stderr)
    assert.deepStrictEqual(stderr.replaceAll(/\d+ ms/g, "N ms").split("\n"), [
      "payments: debug: invoices: request answered with 503 after N ms: ServerFailure",
      "payments: debug: the request is sent again in N ms",
      "payments: debug: invoices: request answered with 200 after N ms",
      "payments: debug: invoices: request answered with 200 after N ms",
      ""
    ])
    const usual = yield* payments(list, { env })
    assert.deepStrictEqual([usual.code, usual.stderr], [0, ""])
  }).pipe(Effect.scoped))
