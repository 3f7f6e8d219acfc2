/** What core makes of every fault of the catalogue: over a socket with two clients, and in process. */
import { assert, describe, it } from "@effect/vitest"
import { type Lists, PaymentsApi } from "@payments/core"
import { catalogue, conditions, Fault } from "@payments/core/testing"
import { Effect, Result, Schema, Stream } from "effect"
import { Sandbox } from "../src/index.ts"
import { everyCase } from "./FaultCases.ts"
import { type Outcome, records } from "./FaultOutcomes.ts"
import { services } from "./FaultServices.ts"

/** Lists all invoices and tells what came of it. */
const outcomeOf = (query: Lists.InvoiceFilters = {}) =>
  Effect.gen(function*() {
    const { invoices } = yield* PaymentsApi
    const seen: Array<string> = []
    const attempts: Array<number> = []
    const result = yield* invoices.pages(query).pipe(
      Stream.runForEach((page) =>
        Effect.sync(() => {
          attempts.push(page.attempts)
          seen.push(...page.items.map(({ id }) => id))
        })
      ),
      Effect.result
    )
    const outcome: Outcome = {
      ids: seen,
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

describe.each([301, 302, 303, 307, 308] as const)("a redirect with %s to a service that would answer", (status) => {
  const { "over a socket": node, "over a socket, with fetch": fetched } = services
  it.live.each(Object.entries({ node, fetched }))(
    "is not followed by %s, so that it never sees the key",
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
  it("has a reaction of core's for each fault", () => {
    const shown = new Set(Object.values(everyCase).flatMap(({ faults }) => faults.map(({ fault }) => fault)))
    assert.deepStrictEqual(Object.keys(catalogue).filter((name) => !shown.has(name as Fault["fault"])), []) // its own names
  })

  it("has settings beside the conditions, and describes everything", () => {
    for (const [name, { fields }] of Object.entries(catalogue)) {
      const own = Object.keys(fields).filter((field) => field !== "fault" && !conditions.includes(field))
      assert.strictEqual(Object.keys(fields).length, 1 + own.length + conditions.length, name)
    }
  })

  it("refuses what is no fault", () => {
    for (
      const wrong of [
        { fault: "gremlin" },
        { fault: "status" },
        { fault: "status", status: 42 },
        { fault: "reset", rate: 2 },
        { fault: "reset", nth: 0 }
      ]
    ) {
      assert.isFalse(Schema.is(Fault)(wrong))
    }
  })
})
