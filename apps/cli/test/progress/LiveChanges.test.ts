import { assert, describe, it } from "@effect/vitest"
import type { ChangeRow } from "@payments/copy"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { rowsOf, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { DateTime, Effect, Fiber, Schedule } from "effect"
import * as Table from "../../src/output/Table.ts"
import * as TextWidth from "../../src/output/TextWidth.ts"
import { addChanges, makeScreen, startLive } from "../../src/progress/LiveChanges.ts"
import { runInProcess } from "../program/InProcess.ts"

const screen = makeScreen(Table, TextWidth, false)
const now = DateTime.makeUnsafe("2024-05-01T10:00:00Z")

const change = (seq: number, members: Partial<ChangeRow> = {}): ChangeRow => ({
  seq,
  generation: "1f0e8a2c44d1",
  list: "invoices",
  scan: 2,
  at: "2024-05-01T09:59:18.000Z",
  kind: "update",
  id: `inv_${seq}`,
  fields: ["status"],
  before: `{"status":"pending"}`,
  after: `{"status":"paid"}`,
  rechecked: undefined,
  ...members
})

describe("the live table of changes", () => {
  it("shows the newest rows that fit, the counts, and the ages", () => {
    const state = startLive("sqlite:p.db")
    const scan = {
      scan: 2,
      startedAt: "2024-05-01T09:58:00.000Z",
      endedAt: "2024-05-01T09:58:02.000Z",
      certificate: undefined
    }
    state.lists = [{ list: "invoices", completeScan: scan }, { list: "payin-sources", completeScan: undefined }]
    assert.deepStrictEqual(screen(state, { columns: 80, rows: 24 }, now).slice(0, 3), [
      "Ctrl-C ends. Changes, the newest last, in sqlite:p.db",
      "No changes yet.",
      "Age: invoices 2m, payin-sources never"
    ])
    // The ages of all lists fit 60 columns.
    const all = { ...state, lists: Lists.all.map(({ label }) => ({ list: label, completeScan: scan })) }
    assert.strictEqual(
      screen(all, { columns: 60, rows: 24 }, now)[2],
      "Age: payout-requests 2m, payin-sources 2m, invoices 2m"
    )
    addChanges(state, Array.from({ length: 1200 }, (_, index) => change(index + 1)))
    addChanges(state, [change(1201, { kind: "insert", fields: [], before: undefined, id: "\u001b[31m" })])
    assert.deepStrictEqual(
      screen(state, { columns: 80, rows: 7 }, now).slice(1),
      [
        "Newest of 1,201 changes: 1 insert, 1,200 update",
        "Age: invoices 2m, payin-sources never",
        "",
        "  seq  list      age  change  id          fields",
        "1,200  invoices  42s  update  inv_1200    status pending → paid",
        String.raw`1,201  invoices  42s  insert  \u001b[31m`
      ].slice(0, 6)
    )
  })

  it("fits any terminal, keeps few rows, and survives clocks that were set back", () => {
    const state = startLive("x".repeat(300))
    addChanges(
      state,
      Array.from(
        { length: 600 },
        (_, index) => change(index, { at: "2030-01-01T00:00:00.000Z", id: "é".repeat(200), fields: ["f".repeat(5000)] })
      )
    )
    assert.isAtMost(state.newest.length, 500)
    for (const columns of [1, 10, 60, 80, 160]) {
      for (const rows of [1, 2, 5, 6, 10, 50]) {
        const lines = screen(state, { columns, rows }, now)
        assert.isAtMost(lines.length, rows)
        for (const line of lines) assert.isAtMost(TextWidth.widthOf(line), Math.max(columns, 8), `${columns} ${line}`)
      }
    }
  })

  it.live("is drawn on a terminal without a mark on the first screen, and says how to continue", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      const states = [1, 2].map((amount) => layerTest({ invoices: [`{"id":"a","amount":${amount}}`] }))
      for (const api of states) yield* runInProcess(api, ["export", "invoices", "--to", from])
      const args = ["changes", "--from", from, "--follow", "--resource", "invoices"]
      let written = { out: "", err: "" }
      const following = yield* Effect.forkChild(
        runInProcess(layerTest(), args, true, 80, (_, screenOf) =>
          Effect.sync(() => {
            written = screenOf
          }))
      )
      yield* Effect.repeat(Effect.sync(() => written.out), {
        until: (text) => text.includes("amount 1 → 2"),
        schedule: Schedule.spaced("20 millis")
      })
      yield* Fiber.interrupt(following)
      const { err, out } = written
      assert.isTrue(out.startsWith("\u001b[?1049h\u001b[?25l\u001b[H"))
      assert.isTrue(out.endsWith("\u001b[?25h\u001b[?1049l"))
      const generation = rowsOf(from.slice("sqlite:".length), "SELECT generation FROM changes")[0]?.["generation"]
      assert.strictEqual(
        err,
        `payments: the last change was 1. To continue:\n  payments changes --from ${from} --resource invoices --after 1 --generation ${generation} --follow\n`
      )
    }).pipe(Effect.scoped))

  it.live("is not used in a pipe and with --ack: every change is printed", () =>
    Effect.gen(function*() {
      const from = `sqlite:${yield* temporaryFolder}/p.db`
      const states = [1, 2].map((amount) => layerTest({ invoices: [`{"id":"a","amount":${amount}}`] }))
      for (const api of states) yield* runInProcess(api, ["export", "invoices", "--to", from])
      for (const [terminal, ...flags] of [[false], [true, "--consumer", "c", "--ack"]] as const) {
        let out = ""
        const following = yield* Effect.forkChild(
          runInProcess(layerTest(), ["changes", "--from", from, "--follow", ...flags], terminal, 80, (text) =>
            Effect.sync(() => {
              out = text
            }))
        )
        yield* Effect.repeat(
          Effect.sync(() =>
            out
          ),
          {
            until: (text) =>
              text.includes("amount"),
            schedule: Schedule.spaced("20 millis")
          }
        )
        yield* Fiber.interrupt(following)
        assert.notInclude(out, "\u001b")
      }
    }).pipe(Effect.scoped))
})
