/** What a source does after an error, and which sources a reload replaces. */
import { assert, describe, it } from "@effect/vitest"
import { SinkError, SinkReason } from "@payments/copy"
import { PaymentsConfigError } from "@payments/core"
import { type AfterError, afterError, noAttempts } from "../../src/loop/SourceLoop.ts"
import { changesOf } from "../../src/loop/Worker.ts"

const sinkError = (reason: SinkError["reason"]) => new SinkError({ location: "", reason })
const settings = new PaymentsConfigError({ problems: [] })
const unavailable = sinkError(new SinkReason.Unavailable({ code: "ECONNREFUSED" }))
const locked = sinkError(new SinkReason.Locked({ label: "invoices" }))
const wrong = sinkError(new SinkReason.WrongSetting({ problem: "no key" }))
const foreign = sinkError(new SinkReason.OtherSource({ bound: "a", given: "b" }))

const wait = (level: "Warn" | "Error", message: string): AfterError => ({ _tag: "Wait", level, message, waitMs: 1000 })
const failed = wait("Error", "destination failed")

describe("a source whose", () => {
  const cases: ReadonlyArray<
    readonly [
      name: string,
      error: SinkError | PaymentsConfigError,
      openMs: number | undefined,
      ofFile: AfterError["_tag"] | AfterError,
      alone: AfterError["_tag"] | AfterError
    ]
  > = [
    ["settings are wrong", settings, undefined, wait("Error", "settings cannot be read"), "End"],
    ["destination cannot be reached", unavailable, undefined, wait("Warn", "destination waits"), "Wait"],
    ["destination is locked", locked, undefined, failed, failed],
    ["destination cannot be opened", wrong, undefined, failed, "End"],
    ["destination is open, with a wrong setting", wrong, 10, "Stop", "Stop"],
    ["destination belongs to another source", foreign, undefined, "Stop", "Stop"]
  ]
  for (const [name, error, openMs, ofFile, alone] of cases) {
    it.each([[false, ofFile], [true, alone]] as const)(
      `${name} (alone: %s) does as the table says`,
      (isStrict, expected) => {
        const [, action] = afterError(noAttempts, { error, openMs, isStrict })
        assert.deepStrictEqual(typeof expected === "string" ? action._tag : action, expected)
      }
    )
  }

  it("destination cannot be opened again only waits, because it was open before", () => {
    const [opened] = afterError(noAttempts, { error: unavailable, openMs: 10, isStrict: true })
    assert.strictEqual(afterError(opened, { error: wrong, openMs: undefined, isStrict: true })[1]._tag, "Wait")
  })

  it("destination fails often waits longer each time, for a minute at most, until it was open for a minute", () => {
    let attempts = noAttempts
    const waitAfter = (openMs: number | undefined) => {
      const [next, action] = afterError(attempts, { error: unavailable, openMs, isStrict: false })
      attempts = next
      return action._tag === "Wait" ? action.waitMs / 1000 : undefined
    }
    const short = Array.from({ length: 8 }, () => waitAfter(undefined))
    assert.deepStrictEqual([...short, waitAfter(59_999), waitAfter(60_000), waitAfter(10)], [
      1,
      2,
      4,
      8,
      16,
      32,
      60,
      60,
      60,
      1,
      2
    ])
  })
})

describe("a reload of the sources file", () => {
  it("replaces what is new, changed or stopped, and removes what is gone", () => {
    const of = (name: string, revision = "1") => ({ name, revision })
    const found = changesOf(
      [of("same"), of("changed"), of("stopped"), of("gone")],
      [of("same"), of("changed", "2"), of("stopped"), of("new")],
      (name) => name !== "stopped"
    )
    const names = (sources: ReadonlyArray<{ readonly name: string }>) => sources.map(({ name }) => name)
    assert.deepStrictEqual([names(found.added), names(found.changed), names(found.removed)], [["new"], [
      "changed",
      "stopped"
    ], ["gone"]])
  })
})
