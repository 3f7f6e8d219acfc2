/** How the client reacts to every fault of the catalogue: over a socket with two HTTP clients, and in process. */
import { assert, describe, it } from "@effect/vitest"
import { type Lists, PaymentsApi } from "@payments/core"
import { catalogue, conditions, Fault } from "@payments/core/testing"
import { Effect, Result, Schema, Stream } from "effect"
import { Sandbox } from "../../src/index.ts"
import { everyCase } from "./FaultCases.ts"
import { type Outcome, records } from "./FaultOutcomes.ts"
import { services } from "./FaultServices.ts"

/** Lists all invoices. Returns the outcome. */
const outcomeOf = (query: Lists.InvoiceFilters = {}) =>
  Effect.gen(function*() {
    const { invoices } = yield* PaymentsApi
    const received: Array<string> = []
    const attempts: Array<number> = []
    const result = yield* invoices.pages(query).pipe(
      Stream.runForEach((page) =>
        Effect.sync(() => {
          attempts.push(page.attempts)
          received.push(...page.items.map(({ id }) => id))
        })
      ),
      Effect.result
    )
    const outcome: Outcome = {
      ids: received,
      attempts,
      error: Result.isFailure(result) ? result.failure : undefined
    }
    return outcome
  })

describe.each(Object.entries(services))("%s, a service that", (_, service) => {
  it.live.each(Object.entries(everyCase))("%s", ([, { config, expect, faults, query }]) =>
    Effect.gen(function*() {
      expect(
        yield* outcomeOf(query).pipe(Effect.provide(service({ lists: { invoices: records }, faults }, config)))
      )
    }))
})

describe.each([301, 302, 303, 307, 308] as const)("a redirect with %s to another service", (status) => {
  const { "over a socket": overSocket, "over a socket, with fetch": overSocketWithFetch } = services
  it.live.each(Object.entries({ "a socket": overSocket, "a socket, with fetch": overSocketWithFetch }))(
    "is not followed over %s, so that the other service never receives the key",
    ([, service]) =>
      Effect.gen(function*() {
        const other = yield* Sandbox
        const faults: ReadonlyArray<Fault> = [{ fault: "redirect", location: `${other.url}/v1/invoices`, status }]
        const { error } = yield* outcomeOf().pipe(
          Effect.provide(service({ lists: { invoices: records }, faults }, undefined))
        )
        assert.deepInclude(error?.reason, { _tag: "RedirectRefused", status })
        assert.strictEqual((yield* other.counters).requests, 0)
      }).pipe(Effect.provide(Sandbox.layer({ lists: { invoices: records } })))
  )
})

describe("the catalogue of faults", () => {
  it("has a case for each fault", () => {
    const covered = new Set(Object.values(everyCase).flatMap(({ faults }) => faults.map(({ fault }) => fault)))
    assert.deepStrictEqual(Object.keys(catalogue).filter((name) => !covered.has(name as Fault["fault"])), []) // the catalogue's own names
  })

  it("gives every fault all conditions", () => {
    for (const [name, { fields }] of Object.entries(catalogue)) {
      const own = Object.keys(fields).filter((field) => field !== "fault" && !conditions.includes(field))
      assert.strictEqual(Object.keys(fields).length, 1 + own.length + conditions.length, name)
    }
  })

  it("refuses a fault with an unknown name or a wrong setting", () => {
    for (
      const invalid of [
        { fault: "gremlin" },
        { fault: "status" },
        { fault: "status", status: 42 },
        { fault: "reset", rate: 2 },
        { fault: "reset", nth: 0 }
      ]
    ) {
      assert.isFalse(Schema.is(Fault)(invalid))
    }
  })
})
