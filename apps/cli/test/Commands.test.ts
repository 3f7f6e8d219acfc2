import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { PaymentsApi } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { run } from "@payments/export/program"
import { Effect, Layer, Sink, Stdio } from "effect"
import { TestConsole } from "effect/testing"
import { join } from "node:path"
import { payments } from "../src/cli.ts"
import { labels, rowsOf, temporaryFolder } from "./Program.ts"
import { services, size } from "./Services.ts"

interface Screen {
  /** Whether stdout and stderr are terminals. */
  readonly terminal: boolean
  out: string
  err: string
}

/** Standard streams that are kept, on a terminal or not. */
const stdio = (screen: Screen) => {
  const keep = (where: "out" | "err") => () =>
    Sink.forEach((text: string | Uint8Array) => Effect.sync(() => void (screen[where] += String(text))))
  return Stdio.layerTest({
    stdout: keep("out"),
    stderr: keep("err"),
    stdoutIsTerminal: Effect.succeed(screen.terminal),
    stderrIsTerminal: Effect.succeed(screen.terminal)
  })
}

const payment = Effect.fnUntraced(
  function*(api: Layer.Layer<PaymentsApi>, args: ReadonlyArray<string>, terminal = false) {
    const screen: Screen = { terminal, out: "", err: "" }
    const code = yield* run(payments(api, layerHttpClient), args, "0.0.0").pipe(
      Effect.provide(Layer.merge(NodeServices.layer, stdio(screen)))
    )
    return { code, ...screen }
  }
)

describe.each(services)("payments over %s", (_, api) => {
  it.effect("lists and exports every list", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (const label of labels) {
        const { code, out } = yield* payment(api, [label, "list", "--all"])
        assert.deepStrictEqual([code, out.split("\n").length - 1], [0, size])
      }
      const file = join(folder, "payments.db")
      const { code, out } = yield* payment(api, ["export", "--to", `sqlite:${file}`])
      assert.strictEqual(code, 0)
      for (const label of labels) {
        assert.match(out, new RegExp(`^${label} +${size} +${size} +0 +0 +2 `, "m"))
        assert.deepStrictEqual(rowsOf(file, `SELECT count(*) AS n FROM ${label.replace("-", "_")}`), [{ n: size }])
      }
    }).pipe(Effect.scoped))
})

describe("on a terminal", () => {
  const hostile = PaymentsApi.layerTest({
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

  it.effect("prints a table, with what a terminal would obey escaped", () =>
    Effect.gen(function*() {
      const { code, err, out } = yield* payment(hostile, ["invoices", "list"], true)
      assert.deepStrictEqual([code, err], [0, ""])
      // oxlint-disable-next-line no-control-regex -- they are what must not be there
      assert.notMatch(out, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
      const [head = "", a = "", b = "", c = ""] = out.split("\n")
      assert.match(head, /^id +reference +status +amount +contract/)
      assert.include(a, "red\\u001b[31m")
      assert.match(b, /^b +null +-5/)
      assert.match(c, /^c +漢字漢字漢字 +1200/)
    }))

  it.effect("prints ndjson that a terminal cannot obey and JSON still means the same", () =>
    Effect.gen(function*() {
      const { out } = yield* payment(hostile, ["invoices", "list", "--format", "ndjson"], true)
      assert.notMatch(out, /[\u007f-\u009f\u202e]/)
      const [first = ""] = out.split("\n")
      assert.deepInclude(JSON.parse(first), { contract: "\u202egnp.exe" })
      const { out: exact } = yield* payment(hostile, ["invoices", "list", "--format", "ndjson"])
      assert.include(exact, "\u202egnp.exe")
    }))

  it.effect("says how to go on, with the cursor quoted for the shell", () =>
    Effect.gen(function*() {
      const api = PaymentsApi.layerTest({ invoices: [{ id: "a" }, { id: "b" }], reservedCursors: true })
      const shown = yield* payment(api, ["invoices", "list", "--limit", "1"], true)
      const cursor = /--cursor '([^']+)'\.\n$/.exec(shown.err)?.[1] ?? ""
      const next = yield* payment(api, ["invoices", "list", "--limit", "1", "--cursor", cursor])
      assert.deepStrictEqual([next.code, next.out, next.err], [0, `{"id":"b"}\n`, ""])
      const logged = yield* payment(api, ["invoices", "list", "--limit", "1"])
      assert.notInclude(logged.err, cursor)
    }))
})

describe("a usage error", () => {
  it.effect("is said on stderr, once, with nothing on stdout", () =>
    Effect.gen(function*() {
      const { code, out } = yield* payment(PaymentsApi.layerTest({}), ["invoices", "list", "--limt", "5"])
      assert.deepStrictEqual([code, out], [2, ""])
      assert.deepStrictEqual(yield* TestConsole.logLines, [])
      assert.include((yield* TestConsole.errorLines).join("\n"), "payments: Unrecognized flag: --limt")
    }))
})
