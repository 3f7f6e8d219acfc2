import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { runInProcess } from "../program/InProcess.ts"

const emptyApi = layerTest()
const bad = String.raw`{"id":"=1+1","amount":"1,50","note":"\u001b[31m","big":9007199254740993}`
const api = layerTest({
  invoices: [`{"id":"good","amount":1}`, bad, `{"amount":2}`],
  payinSources: [`{"id":"p","status":7}`]
})

describe("payments quarantine", () => {
  it.live.each(["sqlite:p.db", "file:files?format=csv"])(
    "lists id, path and expectation, and in the formats for programs also the exact text, from %s",
    (name) =>
      Effect.gen(function*() {
        const from = name.replace(":", `:${yield* temporaryFolder}/`)
        const exported = yield* runInProcess(api, ["export", "--to", from])
        assert.strictEqual(exported.code, 10)
        const command = /list them with: payments (quarantine --from \S+)\n/.exec(exported.err)?.[1] ?? ""
        assert.strictEqual(command, `quarantine --from ${from.replace(/\?.*/, "")}`)
        const run = (...args: ReadonlyArray<string>) => runInProcess(emptyApi, [...command.split(" "), ...args])

        const { code, err, out } = yield* run()
        assert.deepStrictEqual([code, err], [0, ""])
        assert.include(out, `,"raw":${bad},"schemaVersion":1}\n`)
        const rows = out.trimEnd().split("\n").map((line) => JSON.parse(line))
        const listed = rows.map(({ expected, id, list, path }) => [list, id, path, typeof expected])
        assert.sameDeepMembers(listed, [
          ["invoices", "=1+1", "amount", "string"],
          ["invoices", null, "id", "string"],
          ["payin-sources", "p", "status", "string"]
        ])
        assert.deepStrictEqual(JSON.parse((yield* run("--format", "json")).out), rows)
        assert.strictEqual((yield* run("--resource", "payin-sources")).out.split("\n").length, 2)
        const csv = yield* run("--format", "csv", "--resource", "invoices")
        assert.match(csv.out, /^list,id,path,expected,scan,raw\r\ninvoices,'=1\+1,amount,.*\r\ninvoices,,id,/)
      }).pipe(Effect.scoped)
  )

  it.live("prints a table that fits the terminal, with control characters escaped and without the texts", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      yield* runInProcess(layerTest({ invoices: [String.raw`{"id":"a\u001b[2J","amount":null,"status":1}`] }), [
        "export",
        "--to",
        from
      ])
      const { out } = yield* runInProcess(emptyApi, ["quarantine", "--from", from], true, 60)
      const [head, ...lines] = out.trimEnd().split("\n")
      assert.match(head ?? "", /^list +id +path +expected$/)
      assert.match(lines.join("\n"), /^invoices +a\\u001b\[2J +status +\S/)
      for (const line of [head ?? "", ...lines]) assert.isAtMost(line.length, 60)
    }).pipe(Effect.scoped))

  it.live("reports that no record is quarantined", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      yield* runInProcess(layerTest({ invoices: [`{"id":"a"}`] }), ["export", "--to", from])
      assert.deepInclude(yield* runInProcess(emptyApi, ["quarantine", "--from", from]), {
        code: 0,
        out: "",
        err: "No record is quarantined.\n"
      })
      const json = yield* runInProcess(emptyApi, ["quarantine", "--from", from, "--format", "json"])
      assert.deepStrictEqual(JSON.parse(json.out), [])
    }).pipe(Effect.scoped))

  it.live("lists more records than one read of the database returns, each once", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      const invoices = Array.from({ length: 1203 }, (_, index) => `{"id":"i${index}","amount":"x"}`)
      yield* runInProcess(layerTest({ invoices }), ["export", "--to", from])
      const { out } = yield* runInProcess(emptyApi, ["quarantine", "--from", from])
      assert.deepStrictEqual(
        out.trimEnd().split("\n").map((line) => JSON.parse(line).id),
        invoices.map((_, index) => `i${index}`)
      )
    }).pipe(Effect.scoped))
})
