import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect, Fiber, Layer, PlatformError, Queue, Sink, Stdio } from "effect"
import * as StdoutSink from "../../src/destination/StdoutSink.ts"
import { scan, type ScanEvent, type ScanOptions } from "../../src/index.ts"
import * as Stdout from "../../src/stdout/Stdout.ts"

const records = Array.from({ length: 35 }, (_, index) => `{"id":"inv_${index}","n":1.10}`)

/** Makes a stdout that passes each text to the function. */
const stdoutTo = <E extends PlatformError.PlatformError>(
  write: (text: string) => Effect.Effect<void, E>,
  isTerminal = false
) =>
  Stdio.layerTest({
    stdout: () => Sink.forEach((text) => write(String(text))),
    stdoutIsTerminal: Effect.succeed(isTerminal)
  })

const run = (
  api: ReturnType<typeof layerTest>,
  stdout: Layer.Layer<Stdio.Stdio>,
  options: ScanOptions = {}
) =>
  scan("invoices", { limit: 10, largestBatch: 10, ...options }).pipe(
    Effect.provide(Layer.merge(StdoutSink.layer.pipe(Layer.provide(stdout)), api))
  )

/** Runs an export. Returns its summary and the lines that it printed. */
const runPrinting = Effect.fnUntraced(function*(api: ReturnType<typeof layerTest>, isTerminal = false) {
  let out = ""
  const summary = yield* run(api, stdoutTo((text) => Effect.sync(() => void (out += text)), isTerminal))
  return { summary, lines: out.split("\n").slice(0, -1) }
})

describe("an export to stdout", () => {
  it.live("prints each record's text as a line, including records that do not decode", () =>
    Effect.gen(function*() {
      const bad = [`{"id":"inv_x","amount":"1,50"}`, `{"amount":1}`]
      const { lines, summary } = yield* runPrinting(layerTest({ invoices: [...records, ...bad] }))
      assert.deepStrictEqual(lines, [...records, ...bad])
      assert.deepInclude(summary, {
        start: "first",
        pages: 4,
        records: 37,
        quarantined: 2,
        withoutId: 1,
        undocumented: { n: 35 }
      })
    }))

  it.live("prints records again if a refused cursor restarts the list", () =>
    Effect.gen(function*() {
      const faults = [{ fault: "status", status: 410, pages: "later", nth: 2, times: 1 }] as const
      const { lines, summary } = yield* runPrinting(layerTest({ invoices: records, faults: [...faults] }))
      assert.isAbove(lines.length, records.length)
      assert.deepStrictEqual(lines.slice(-records.length), records)
      assert.deepStrictEqual(new Set(lines), new Set(records))
      assert.deepInclude(summary, { pages: 4, records: records.length })
    }))

  it.live("waits for its reader", () =>
    Effect.gen(function*() {
      const taken = yield* Queue.bounded<string>(1)
      let committed = 0
      const onEvent = ({ _tag }: ScanEvent) => Effect.sync(() => void (committed += _tag === "Committed" ? 1 : 0))
      const gate = yield* Queue.bounded<void>(10)
      const stdout = stdoutTo((text) => Effect.andThen(Queue.offer(taken, text), Queue.take(gate)))
      const running = yield* Effect.forkScoped(run(layerTest({ invoices: records }), stdout, { onEvent }))
      for (let page = 0; page < 4; page++) {
        assert.strictEqual((yield* Queue.take(taken)).split("\n").length - 1, page < 3 ? 10 : 5)
        assert.strictEqual(committed, page)
        yield* Queue.offer(gate, undefined)
      }
      assert.deepInclude(yield* Fiber.join(running), { pages: 4, records: 35 })
    }).pipe(Effect.scoped))

  it.live("fails if its reader closes the pipe, because the remaining records would be lost", () =>
    Effect.gen(function*() {
      const gone = PlatformError.systemError({
        module: "Stdio",
        method: "stdout",
        _tag: "Unknown",
        cause: Object.assign(new Error(), { code: "EPIPE" })
      })
      const error = yield* Effect.flip(run(layerTest({ invoices: records }), stdoutTo(() => Effect.fail(gone))))
      assert.strictEqual(
        error.message,
        "standard output: its reader has closed it, and the remaining records are lost. The next run starts at the first page (EPIPE)."
      )
    }))

  it.live("sends no control characters to a terminal", () =>
    Effect.gen(function*() {
      const { lines } = yield* runPrinting(layerTest({ invoices: [`{"id":"a\u009b31m","reference":"\u202e"}`] }), true)
      assert.deepStrictEqual(lines, [String.raw`{"id":"a\u009b31m","reference":"\u202e"}`])
    }))
})

describe("a closed stdout", () => {
  it("is not passed on to programs that this one starts", () => {
    process.env["PAYMENTS_STDOUT"] = "closed"
    Stdout.detectClosed()
    assert.deepStrictEqual([Stdout.isClosed(), process.env["PAYMENTS_STDOUT"]], [true, undefined])
    Stdout.detectClosed()
    assert.isFalse(Stdout.isClosed())
  })
})
