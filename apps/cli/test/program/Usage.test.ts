/** The messages for a wrong command line. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { ConfigProvider, Effect } from "effect"
import { TestConsole } from "effect/testing"
import { runInProcess } from "./InProcess.ts"

/** Values that people type: a document number, a name, an e-mail address, text that begins like a flag. */
const values = [
  "4433221100",
  "Canary-Name",
  "canary@example.com",
  "--4433221100",
  "-4433221100",
  "--Canary",
  "-xCanary"
]

const runWith = (...args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const before = (yield* TestConsole.errorLines).length
    const { code, err, out } = yield* runInProcess(layerTest({}), args)
    return { code, out, err: [...(yield* TestConsole.errorLines).slice(before), err].join("\n") }
  })

describe("a usage error", () => {
  it.effect("never repeats a value of the command line", () =>
    Effect.gen(function*() {
      const commands = (value: string) => [
        ["invoices", "list", value],
        ["invoices", "list", "--reference", "a", value, value],
        ["invoices", "list", "--document-number", value, value],
        ["invoices", "list", "--format", value],
        ["invoices", "list", "--limit", value],
        ["invoices", "list", `--limit=${value}`],
        ["invoices", "list", `--all=${value}`],
        ["invoices", "list", `--documnt-number=${value}`],
        ["invoices", "list", `--settlement-date=${value}`],
        ["invoices", "list", `--payment-date=${value}`],
        ["invoices", value],
        [value],
        ["export", value, "--to", "sqlite:x.db"],
        ["changes", "--after", value],
        ["changes", "--resource", value],
        ["sandbox", `--port=${value}`],
        [`--completions=${value}`]
      ]
      for (const value of values) {
        for (const args of commands(value)) {
          const { code, err, out } = yield* runWith(...args)
          assert.deepStrictEqual([code, out], [2, ""], args.join(" "))
          assert.match(err, /^payments: \S/, args.join(" "))
          assert.notMatch(err, /4433221100|canary/i, args.join(" "))
        }
      }
    }))

  it.effect("names the flag and the expected value", () =>
    Effect.gen(function*() {
      for (
        const [args, words] of [
          [["--limit", "abc"], "Invalid value for --limit. Expected: a whole number from 1 to 100"],
          [["--max", "1.5"], "Invalid value for --max. Expected: a whole number, 1 or more"],
          [["--limit", ""], "Invalid value for --limit. Expected: a whole number from 1 to 100"],
          [["--limit", "5", "--limit", "6"], "--limit is given 2 times. Expected: at most 1 value"],
          [["--settlement-date", ""], "Invalid value for --settlement-date. Expected: a day such as 2024-05-31"],
          [["--reference", ""], "Invalid value for --reference. Expected: text that is not empty"],
          [["--cursor-file", ""], "Invalid value for --cursor-file. Expected: text that is not empty"],
          [["--format", "xml"], "Invalid value for --format. Expected: table, json, ndjson"],
          [
            ["--document-number"],
            "Missing value for --document-number. Expected: text; --document-number=VALUE if it starts with -"
          ],
          [["--limt", "5"], "Unrecognized flag: --limt. Did you mean --limit?"],
          [["canary"], "Unexpected argument (word 3 of the command line)."],
          [["--payment-date", "garbage"], "Invalid value for --payment-date. Expected: a date-time such as"]
        ] as const
      ) {
        const { err } = yield* runWith("invoices", "list", ...args)
        assert.include(err, `payments: ${words}`)
      }
      const several = yield* runWith("invoices", "list", "--limit", "abc", "--max", "0", "--settlement-date", "today")
      assert.deepStrictEqual(several.err.match(/--[a-z-]+(?=\.)/g), ["--settlement-date", "--limit", "--max"])
      const after = yield* runWith("changes", "--after", "yesterday")
      assert.include(after.err, "Invalid value for --after. Expected: a whole number, 0 or more")
      for (const limits of [["--limit", "8"], ["--limit", "8", "--limit", "9"]]) {
        const { err } = yield* runWith("changes", ...limits)
        assert.notInclude(err, "Unknown command", "8 is the value of a flag that does not exist")
      }
      const both = yield* runWith("--vrbose", "invioces")
      assert.include(both.err, "Unknown command of payments: invioces. Did you mean invoices?")
      const command = yield* runWith("invioces")
      assert.include(command.err, "Unknown command of payments: invioces. Did you mean invoices?")
    }))

  it.effect("suggests the nearest command, flag and value", () =>
    Effect.gen(function*() {
      for (
        const [args, suggestion] of [
          [["payouts"], "payout-requests"],
          [["payin"], "payin-sources"],
          [["invoices", "ls"], "list"],
          [["changes", "consumer"], "consumers"],
          [["invoices", "list", "--documnt-number", "x"], "--document-number"],
          [["invoices", "list", "--format", "JSN"], "json"],
          [["export", "invoice", "--to", "-"], "invoices"],
          [["status", "--resource", "payout"], "payout-requests"],
          [["status", "--log-level", "verbose"], undefined],
          [["status", "--log-level", "warning"], "warn"],
          [["sandbox", "--faults", "flakky"], "flaky"],
          [["zzz"], undefined]
        ] as const
      ) {
        const { err } = yield* runWith(...args)
        if (suggestion === undefined) assert.notInclude(err, "Did you mean", args.join(" "))
        else assert.include(err, ` Did you mean ${suggestion}?`, args.join(" "))
      }
    }))
})

describe("--help", () => {
  it.effect("after an unknown command is a usage error that names the nearest one", () =>
    Effect.gen(function*() {
      for (
        const [args, expected] of [
          [["invoces", "--help"], "Unknown command of payments: invoces. Did you mean invoices?"],
          [["--help", "invoces"], "Unknown command of payments: invoces. Did you mean invoices?"],
          [["changes", "acc", "-h"], "Unknown command of payments changes: acc. Did you mean ack?"],
          [["canary-5ecret", "--help"], "Unknown command of payments (word 1 of the command line)."]
        ] as const
      ) {
        const { code, err } = yield* runWith(...args)
        assert.strictEqual(code, 2, args.join(" "))
        assert.include(err, `payments: ${expected}\nSee payments`)
      }
      for (
        const args of [
          ["--help"],
          ["completions", "bash", "--help"],
          ["export", "invoices", "--help"],
          ["changes", "--from", "x", "consumers", "--help"],
          ["--source", "x", "changes", "--help"]
        ]
      ) {
        const { code, err } = yield* runWith(...args)
        assert.deepStrictEqual([code, err], [0, ""], args.join(" "))
      }
    }))
})

describe("--payment-date", () => {
  it.effect("accepts every prefix of a date-time, and nothing else", () =>
    Effect.gen(function*() {
      for (
        const text of [
          "2024",
          "2024-05",
          "2024-05-31",
          "2024-05-31T14",
          "2024-05-31T14:03",
          "2024-05-31T14:03:07",
          "2024-05-31T14:03:07.1",
          "2024-05-31T14:03:07.123Z",
          "2024-05-31T14:03:07+02:00",
          "20240531",
          "20240531T140307Z"
        ]
      ) {
        const { code, err } = yield* runWith("invoices", "list", "--payment-date", text)
        assert.deepStrictEqual([code, err], [0, ""], text)
      }
      for (
        const text of [
          "garbage",
          "202",
          "2024-13",
          "2024-02-30",
          "2024-5-1",
          "2024-05-31T25",
          "31/05/2024",
          "1",
          "null"
        ]
      ) {
        const { code } = yield* runWith("invoices", "list", "--payment-date", text)
        assert.strictEqual(code, 2, text)
      }
    }))
})

describe("help", () => {
  it.effect("has colours on a terminal that has them, unless NO_COLOR or FORCE_COLOR say otherwise", () =>
    Effect.gen(function*() {
      const isColored = (environment: Record<string, string>, terminal: boolean) =>
        Effect.gen(function*() {
          const before = (yield* TestConsole.logLines).length
          yield* runInProcess(layerTest({}), ["--help"], terminal).pipe(
            Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(environment)))
          )
          return (yield* TestConsole.logLines).slice(before).join("\n").includes("\u001b[")
        })
      for (
        const [environment, terminal, colored] of [
          [{ TERM: "xterm" }, true, true],
          [{}, true, true],
          [{ TERM: "xterm" }, false, false],
          [{ TERM: "dumb" }, true, false],
          [{ TERM: "xterm", NO_COLOR: "1" }, true, false],
          [{ TERM: "xterm", NO_COLOR: "" }, true, true],
          [{ FORCE_COLOR: "1" }, false, true],
          [{ FORCE_COLOR: "0" }, true, false],
          [{ TERM: "dumb", FORCE_COLOR: "1" }, true, true],
          [{ NO_COLOR: "1", FORCE_COLOR: "1" }, true, false]
        ] as const
      ) {
        assert.strictEqual(yield* isColored(environment, terminal), colored, JSON.stringify([environment, terminal]))
      }
    }))
})
