import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { canary, echoingEnv } from "@payments/testkit/programs/EchoingService"
import { payments, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Deferred, Effect, Fiber } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const data = {
  payoutRequests: [
    `{"id":"por_1","reference":"ord-1","customerId":"cus_1","amount":9007199254740991,"status":"paid","x":1.10}`,
    `{"id":"por_2","reference":"cus_1","customerId":"cus_1"}`
  ],
  payinSources: [`{"id":"pis_1","customerId":"cus_1","customerDetails":{"name":"Zoë \\u001b[31m Cus_1 Núñez"}}`],
  invoices: [`{"id":"inv_1","reference":"other","contract":"cus_1","amount":-5,"paymentDate":null}`]
}
const api = layerTest(data)
const bothFields = [data.payoutRequests[1], data.payoutRequests[0]]

/** The document of `--format json`, without the records, whose text is compared. */
const documentOf = (out: string) => JSON.parse(out, (key, value: unknown) => key === "record" ? undefined : value)

describe("payments find", () => {
  it.effect("prints each record once with the fields that have the text, in every format", () =>
    Effect.gen(function*() {
      const json = yield* runInProcess(api, ["find", "cus_1", "--format", "json"])
      assert.deepStrictEqual([json.code, json.err], [0, ""])
      assert.deepStrictEqual(documentOf(json.out), {
        items: [
          { list: "payout-requests", fields: ["reference", "customerId"], id: "por_2", missing: false },
          { list: "payout-requests", fields: ["customerId"], id: "por_1", missing: false },
          { list: "payin-sources", fields: ["customerId"], id: "pis_1", missing: false },
          { list: "invoices", fields: ["contract"], id: "inv_1", missing: false }
        ],
        complete: true,
        count: 4,
        next: null,
        lists: [
          { list: "payout-requests", complete: true, count: 2 },
          { list: "payin-sources", complete: true, count: 1 },
          { list: "invoices", complete: true, count: 1 }
        ],
        schemaVersion: 1
      })
      for (const text of bothFields) assert.include(json.out, `"record":${text}}`)
      const { out } = yield* runInProcess(api, ["find", "cus_1"])
      assert.deepStrictEqual(out.split("\n").map((line) => /"record":(.*),"schemaVersion":1\}$/.exec(line)?.[1]), [
        ...bothFields,
        ...data.payinSources,
        ...data.invoices,
        undefined
      ])
      const csv = (yield* runInProcess(api, ["find", "ord-1", "--format", "csv"])).out.split("\r\n")
      assert.strictEqual(csv[0], "list,fields,id,missing,record")
      assert.match(csv[1] ?? "", /^payout-requests,reference,por_1,false,"\{""id""/)
      const table = yield* runInProcess(api, ["find", "cus_1"], true, 80)
      assert.match(table.out, /^list +id +fields +status +amount\n/)
      assert.include(table.out, "9,007,199,254,740,991")
      // oxlint-disable-next-line no-control-regex -- a control character must not reach the terminal, except colours
      assert.notMatch(table.out.replaceAll(/\u001b\[\d+m/g, ""), /[\u0000-\u0009\u000b-\u001f]/)
    }))

  it.effect("prints one table of all lists on a terminal", () =>
    Effect.gen(function*() {
      const wider = layerTest({
        payoutRequests: [{ id: "por_1", customerId: "cus_1", status: "failed" }],
        payinSources: [{ id: "pis_1", customerId: "cus_1", status: "authorized", createdAt: "2024-01-10T07:07:32Z" }]
      })
      const { out } = yield* runInProcess(wider, ["find", "cus_1"], true, 120)
      assert.deepStrictEqual(out.split("\n").map((line) => line.split(" ")[0]), [
        "list",
        "payout-requests",
        "payin-sources",
        ""
      ])
    }))

  it.effect("says when a list has more matches, without the text", () =>
    Effect.gen(function*() {
      const { code, err, out } = yield* runInProcess(api, ["find", "cus_1", "--limit", "1", "--format", "json"])
      assert.strictEqual(code, 0)
      const nextNeeds = { command: "payments find --format json --limit 10000", arguments: ["TEXT"] }
      assert.deepInclude(documentOf(out), { complete: false, count: 3, next: null, nextNeeds })
      assert.deepInclude(JSON.parse(err).note, { next: null, nextNeeds })
      assert.notInclude(err, "cus_1")
      const table = yield* runInProcess(api, ["find", "cus_1", "--limit", "1"], true, 80)
      assert.include(table.err, "Not all matches are shown. These lists have more than 1: payout requests.")
      // Only a terminal shows the typed text again.
      assert.match(table.err, /Show\smore\swith:\n {2}payments find cus_1 --limit 10000\n/)
      const json = yield* runInProcess(api, ["find", "cus_1", "--limit", "1", "--format", "json"], true, 80)
      assert.include(documentOf(json.out), { next: "payments find cus_1 --format json --limit 10000" })
      const none = yield* runInProcess(api, ["find", "absent-text"])
      assert.deepStrictEqual([none.code, none.out], [0, ""])
      assert.include(none.err, "--from searches every documented text field of a copy")
      assert.notInclude(none.err, "absent-text")
    }))

  it.effect("prints the other lists if one fails, and exits with the code of its error", () =>
    Effect.gen(function*() {
      const failing = layerTest({ ...data, faults: [{ fault: "status", status: 403, list: "payinSources" }] })
      const { code, err, out } = yield* runInProcess(failing, ["find", "cus_1", "--format", "json"])
      assert.strictEqual(code, 4)
      const document = documentOf(out)
      assert.deepInclude(document, { complete: false, count: 3, next: null })
      assert.deepInclude(document.lists[1], { list: "payin-sources", complete: false, count: 0 })
      assert.strictEqual(document.lists[1].error.reason, "Forbidden")
      const error = JSON.parse(err).error
      assert.deepInclude(error, { reason: "Forbidden", exitCode: 4 })
      assert.match(error.message, /^payin-sources: forbidden/)
    }))

  it.live("ends the JSON document if it is interrupted", () =>
    Effect.gen(function*() {
      const slow = layerTest({ ...data, faults: [{ fault: "latency", ms: 60_000, list: "invoices" }] })
      const printed = yield* Deferred.make<string>()
      let latest = ""
      const running = yield* Effect.forkChild(
        runInProcess(slow, ["find", "cus_1", "--format", "json"], false, 0, (out) => {
          latest = out
          return out.includes("pis_1") ? Deferred.succeed(printed, out) : Effect.void
        })
      )
      yield* Deferred.await(printed)
      yield* Fiber.interrupt(running)
      const document = documentOf(latest)
      assert.deepInclude(document, { complete: false, count: 3 })
      assert.strictEqual(document.error.reason, "Interrupted")
      assert.strictEqual(document.items.length, 3)
    }))

  it.live(
    "searches every field of a copy without a request, also for parts of a text from a file",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const from = `sqlite:${join(folder, "payments.db")}`
        yield* runInProcess(api, ["export", "--to", from])
        const file = join(folder, "the text")
        writeFileSync(file, "cUs_1 núñez\n".replace("núñez", "Núñez"))
        const offline = layerTest({ faults: [{ fault: "reset" }] })
        const { code, err, out } = yield* runInProcess(
          offline,
          ["find", `@${file}`, "--from", from, "--contains", "--format", "json"]
        )
        assert.deepStrictEqual([code, err], [0, ""])
        assert.deepStrictEqual(documentOf(out).items, [
          { list: "payin-sources", fields: ["customerDetails.name"], id: "pis_1", missing: false }
        ])
        assert.include(out, String(data.payinSources[0]))
        const part = `sqlite:${join(folder, "part.db")}`
        yield* runInProcess(api, ["export", "invoices", "--to", part])
        const unread = yield* runInProcess(offline, ["find", "absent", "--from", part, "--format", "json"])
        assert.isFalse(documentOf(unread.out).complete)
        assert.deepStrictEqual(
          documentOf(unread.out).lists.map(({ complete }: { readonly complete: boolean }) => complete),
          [false, false, true]
        )
        assert.include(unread.err, "payout-requests: no export has read the whole list yet")
        writeFileSync(file, "CUS_1")
        const words = ["find", `@${file}`, "--from", from, "--contains", "--format", "json"]
        const cut = yield* runInProcess(offline, [...words, "--limit", "1"])
        assert.strictEqual(
          documentOf(cut.out).next,
          `payments find '@${file}' --from ${from} --contains --format json --limit 10000`
        )
        const none = yield* runInProcess(offline, ["find", "Cus_1", "--from", from])
        assert.include(none.err, "--contains finds fields that contain it")
        // The column tells nothing while the service returns all of the records.
        const table = runInProcess(offline, [...words.slice(0, -2), "--format", "table"], true, 120)
        assert.match((yield* table).out, /^list[^\n]*createdAt\n/)
        assert.notInclude((yield* table).out, "missing")
        const emptied = ["export", "payin-sources", "--to", from, "--missing-limit", "100%"]
        for (let scan = 0; scan < 2; scan++) yield* runInProcess(layerTest(), emptied)
        const found = yield* table
        assert.match(found.out, /^list[^\n]*createdAt +missing\n/)
        assert.match(found.out, /payin-sources .* missing\n/)
        assert.include(found.err, "Rows that the service no longer returns (missing): 1 of these.")
      }).pipe(Effect.scoped)
  )

  it.effect("refuses an empty text, a wrong limit and parts of a text without a copy", () =>
    Effect.gen(function*() {
      const { code, err, out } = yield* runInProcess(api, ["find", "", "--limit", "0", "--contains"])
      assert.deepStrictEqual([code, out], [2, ""])
      for (const problem of ["TEXT is empty", "--limit", "--contains needs a copy"]) assert.include(err, problem)
      assert.strictEqual((yield* runInProcess(api, ["find"])).code, 2)
    }))

  it.live("repeats the text in no message, even if the service does", () =>
    Effect.gen(function*() {
      const env = yield* echoingEnv
      for (const text of [canary.name, canary.document]) {
        const { stderr } = yield* payments(["find", text, "--log-level", "debug"], { env })
        assert.notStrictEqual(stderr, "")
        for (const secret of Object.values(canary)) assert.notInclude(stderr.toLowerCase(), secret.toLowerCase())
      }
    }).pipe(Effect.scoped))
})
