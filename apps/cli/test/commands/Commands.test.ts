import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { labels, rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { services, size } from "@payments/testkit/programs/Services"
import { Effect } from "effect"
import { TestConsole } from "effect/testing"
import { join } from "node:path"
import { runInProcess, withoutColors } from "../program/InProcess.ts"

describe.each(services)("payments over %s", (_, api) => {
  it.effect("lists and exports every list", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const label of labels) {
        const { code, out } = yield* runInProcess(api, [label, "list", "--all"])
        assert.deepStrictEqual([code, out.split("\n").length - 1], [0, size])
      }
      const file = join(folder, "payments.db")
      const { code, out } = yield* runInProcess(api, ["export", "--to", `sqlite:${file}`])
      assert.strictEqual(code, 0)
      for (const label of labels) {
        assert.match(out, new RegExp(`^${label} +${size} +${size} +0 +0 +0 +2 `, "m"))
        assert.deepStrictEqual(rowsOf(file, `SELECT count(*) AS n FROM ${label.replace("-", "_")}`), [{ n: size }])
      }
    }).pipe(Effect.scoped))
})

describe("on a terminal", () => {
  const hostile = layerTest({
    invoices: [
      {
        id: "a",
        reference: "red\u001b[31m\u0007\u009b2J",
        status: "paid",
        amount: 1000,
        contract: "\u202egnp.exe",
        description: "x"
      },
      { id: "b", reference: null, amount: -5 },
      `{"id":"c","reference":"漢字漢字漢字","amount":12e2}`
    ]
  })

  it.effect("prints a table, with control characters escaped", () =>
    Effect.gen(function*() {
      const { code, err, out } = yield* runInProcess(hostile, ["invoices", "list"], true).pipe(withoutColors)
      assert.deepStrictEqual([code, err], [0, ""])
      // oxlint-disable-next-line no-control-regex -- the test looks for control characters
      assert.notMatch(out, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
      const [head = "", a = "", b = "", c = ""] = out.split("\n")
      assert.match(head, /^id +amount +status +reference +contract/)
      assert.include(a, "red\\u001b[31m")
      assert.match(b, /^b +-5 +null/)
      assert.match(c, /^c +1,200 +漢字漢字漢字/)
    }))

  it.effect("escapes control characters in ndjson without changing its JSON value", () =>
    Effect.gen(function*() {
      const { out } = yield* runInProcess(hostile, ["invoices", "list", "--format", "ndjson"], true)
      assert.notMatch(out, /[\u007f-\u009f\u202e]/)
      const [first = ""] = out.split("\n")
      assert.deepInclude(JSON.parse(first), { contract: "\u202egnp.exe" })
      const { out: exact } = yield* runInProcess(hostile, ["invoices", "list", "--format", "ndjson"])
      assert.include(exact, "\u202egnp.exe")
    }))

  it.effect("prints how to continue, with the cursor quoted for the shell", () =>
    Effect.gen(function*() {
      const api = layerTest({ invoices: [{ id: "a" }, { id: "b" }], reservedCursors: true })
      const shown = yield* runInProcess(api, ["invoices", "list", "--limit", "1"], true)
      const cursor = /--cursor '([^']+)'\n$/.exec(shown.err)?.[1] ?? ""
      const next = yield* runInProcess(api, ["invoices", "list", "--limit", "1", "--cursor", cursor])
      assert.deepStrictEqual([next.code, next.out, next.err], [0, `{"id":"b"}\n`, ""])
      const logged = yield* runInProcess(api, ["invoices", "list", "--limit", "1"])
      assert.notInclude(logged.err, cursor)
    }))
})

describe("a table", () => {
  it.effect("never shortens an id or an amount, however narrow the terminal, and reports an empty list", () =>
    Effect.gen(function*() {
      const id = "inv_0123456789012345678901234567890123456789"
      const api = layerTest({
        invoices: [{
          id,
          amount: -9007199254740991,
          status: "paid",
          reference: "r".repeat(200),
          contract: "c".repeat(200)
        }]
      })
      const narrow = yield* runInProcess(api, ["invoices", "list"], true, 40).pipe(withoutColors)
      assert.strictEqual(
        narrow.out,
        `id                  amount  status\n${id.slice(0, 40)}\n${id.slice(40)}\n    -9,007,199,254,740,991  paid\n`
      )
      const wider = yield* runInProcess(api, ["invoices", "list"], true, 100).pipe(withoutColors)
      const [, row = ""] = wider.out.split("\n")
      assert.match(row, /^inv_\d{40} +-9,007,199,254,740,991  paid +r+…/)
      assert.isAtMost(row.length, 100)
      const none = yield* runInProcess(layerTest({}), ["invoices", "list"], true)
      assert.deepStrictEqual([none.out, none.err], ["", "No records.\n"])
      // An empty page with a cursor is not the end of the list.
      const gap = yield* runInProcess(
        layerTest({ invoices: [{ id: "a" }], faults: [{ fault: "emptyPage", nth: 1 }] }),
        [
          "invoices",
          "list"
        ],
        true
      )
      assert.strictEqual(gap.out, "")
      assert.match(gap.err, /^More records remain\./)
    }))
})

describe("a usage error", () => {
  it.effect("is printed on stderr once, with nothing on stdout", () =>
    Effect.gen(function*() {
      const { code, out } = yield* runInProcess(layerTest({}), ["invoices", "list", "--limt", "5"])
      assert.deepStrictEqual([code, out], [2, ""])
      assert.deepStrictEqual(yield* TestConsole.logLines, [])
      assert.include((yield* TestConsole.errorLines).join("\n"), "payments: Unrecognized flag: --limt")
    }))

  it.effect("names an invalid option of the sandbox", () =>
    Effect.gen(function*() {
      for (
        const [flags, problem] of [
          [["--live", "--speed", "1e15"], "a number from 0 to 1000000"],
          [["--live", "--speed=-60"], "a number from 0 to 1000000"],
          [["--control-host", "0.0.0.0"], "--control-host needs --control-port"],
          [["--faults", `{"fault":"sttus"}`], "fault 0: unknown fault `sttus`; one of latency, status, "],
          [["--faults", `{"fault":"body","text":"x","status":9999}`], "fault 0.status: "]
        ] as const
      ) {
        const { code, err, out } = yield* runInProcess(layerTest({}), ["sandbox", "--port", "0", ...flags])
        const stderr = [err, ...(yield* TestConsole.errorLines)].join("\n")
        assert.deepStrictEqual([code, out, stderr.includes(problem)], [2, "", true], `${flags.join(" ")}: ${stderr}`)
      }
    }))
})
