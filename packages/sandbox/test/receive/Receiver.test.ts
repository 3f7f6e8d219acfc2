import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { diceOf, seed } from "@payments/testkit/Seed"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { Effect, Result } from "effect"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import {
  receive,
  type Received,
  type ReceiverFault,
  receiverFaults,
  receiverFaultsFromJson,
  receiverScenarios
} from "../../src/index.ts"

const bodyOf = (numbers: ReadonlyArray<number>, more = "") =>
  `{"type":"payments.changes","list":"invoices","generation":"g1","first":${numbers[0]},"last":${
    numbers.at(-1)
  },"changes":[${
    numbers.map((seq) => `{"seq":${seq},"id":"i","after":{"amount":9007199254740993${more}}}`).join(",")
  }],"schemaVersion":1}`

/** Sends a body. Returns the status, or undefined without an answer. An interruption closes the connection. */
const send = (url: string, body: string, headers: Record<string, string> = {}) =>
  Effect.promise(async (signal) => {
    const init = { method: "POST", body, redirect: "manual", signal } as const
    try {
      const response = await fetch(url, { ...init, headers: { "webhook-id": "msg_1", ...headers } })
      await response.text()
      return response.status
    } catch {
      return undefined
    }
  })

const started = Effect.fnUntraced(function*(
  { faults, to }: { readonly faults?: ReadonlyArray<ReceiverFault>; readonly to?: string } = {}
) {
  const received: Array<Received> = []
  const receiver = yield* receive({
    signatureProblem: ({ headers }) => headers["webhook-signature"] === "wrong" ? "unsigned" : undefined,
    faults,
    to,
    onRequest: (one) => received.push(one)
  })
  return { ...receiver, received }
})

/** Sends a body as {@link send} does. Gives up half a second after the receiver has decided, if there is no answer then. */
const sendBriefly = (url: string, body: string, received: ReadonlyArray<Received>) =>
  Effect.suspend(() => {
    const before = received.length
    const isDecided = Effect.repeat(Effect.sleep("10 millis"), { until: () => received.length > before })
    return Effect.raceFirst(send(url, body), Effect.andThen(isDecided, Effect.delay(Effect.undefined, "500 millis")))
  })

const faultsOf = (json: string) => Result.getOrThrow(receiverFaultsFromJson(json))
const linesOf = (file: string) => readFileSync(file, "utf8").split("\n").slice(0, -1)
const numbersIn = (file: string) => linesOf(file).map((line) => Number(JSON.parse(line).seq))

describe("the receiver", () => {
  it.live("applies each change once, with its exact text, and says what is new", () =>
    Effect.gen(function*() {
      const to = join(yield* temporaryFolder, "changes.ndjson")
      const { received, summary, url } = yield* started({ to })
      for (const numbers of [[1, 2], [1, 2], [2, 3], [9], [7]]) {
        assert.strictEqual(yield* send(url, bodyOf(numbers)), 200)
      }
      assert.deepStrictEqual(received.map(({ delivery }) => delivery), [
        "new",
        "repeat",
        "partial",
        "new",
        "outOfOrder"
      ])
      assert.deepStrictEqual(numbersIn(to), [1, 2, 3, 9, 7])
      assert.strictEqual(
        linesOf(to)[0],
        `{"generation":"g1","list":"invoices","seq":1,"id":"i","after":{"amount":9007199254740993}}`
      )
      assert.strictEqual(statSync(to).mode & 0o777, 0o600)
      assert.deepStrictEqual(summary(), {
        requests: 5,
        refused: 0,
        deliveries: { new: 2, repeat: 1, partial: 1, outOfOrder: 1 },
        applied: 5,
        passedOver: 5
      })
    }).pipe(Effect.scoped))

  it.live("refuses what is not signed, no POST, or no body of a hand-off, and applies nothing of it", () =>
    Effect.gen(function*() {
      const to = join(yield* temporaryFolder, "changes.ndjson")
      const { received, url } = yield* started({ to })
      assert.strictEqual(yield* send(url, bodyOf([1]), { "webhook-signature": "wrong" }), 401)
      for (const body of ["", "{", "[]", bodyOf([1]).replace("changes\",", "other\","), bodyOf([-1])]) {
        assert.strictEqual(yield* send(url, body), 400, body)
      }
      assert.strictEqual((yield* Effect.promise(() => fetch(url))).status, 405)
      assert.deepStrictEqual(
        new Set(received.map(({ problem }) => problem)),
        new Set(["unsigned", "malformed", "notPost"])
      )
      assert.strictEqual(statSync(to).size, 0)
    }).pipe(Effect.scoped))

  it.live("accepts a test without changes", () =>
    Effect.gen(function*() {
      const { received, url } = yield* started()
      const test = `{"type":"payments.test","source":"main","changes":[],"schemaVersion":1}`
      assert.strictEqual(yield* send(url, test), 200)
      assert.deepStrictEqual(received.map(({ applied, delivery }) => [applied, delivery]), [[0, undefined]])
    }).pipe(Effect.scoped))

  it.live(`goes on after a kill at any byte of its file (seed ${seed})`, () =>
    Effect.gen(function*() {
      const dice = diceOf(seed, "kill")
      const folder = yield* temporaryFolder
      const whole = join(folder, "whole")
      yield* Effect.scoped(
        Effect.flatMap(started({ to: whole }), ({ url }) => send(url, bodyOf([1, 2, 3], `,"n":"é\\n"`)))
      )
      const bytes = readFileSync(whole)
      for (let round = 0; round < 40; round++) {
        const to = join(folder, `cut-${round}`)
        writeFileSync(to, bytes.subarray(0, dice.below(bytes.length + 1)))
        yield* Effect.scoped(Effect.flatMap(started({ to }), ({ url }) => send(url, bodyOf([1, 2, 3], `,"n":"é\\n"`))))
        assert.deepStrictEqual(readFileSync(to), bytes)
      }
    }).pipe(Effect.scoped))

  it.live("changes no file that a receiver has not written", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      for (
        const [text, line] of [["notes", 1], ["{}\n", 1], [`{"generation":"g","list":"l","seq":1}\nno`, 2]] as const
      ) {
        const to = join(folder, "other")
        writeFileSync(to, text)
        const error = yield* Effect.flip(Effect.scoped(started({ to })))
        assert.include(error.message, `line ${line} `)
        assert.strictEqual(readFileSync(to, "utf8"), text)
      }
      assert.include((yield* Effect.flip(Effect.scoped(started({ to: folder })))).message, "EISDIR")
    }).pipe(Effect.scoped))

  it.live("answers 500 and applies nothing if the disk is full", () =>
    Effect.gen(function*() {
      assert.include((yield* Effect.flip(Effect.scoped(started({ to: "/dev/full" })))).message, "ENOTSUP")
      const small = yield* smallFileSystem(64)
      if (small === undefined) return
      const to = join(small.folder, "changes.ndjson")
      const { received, url } = yield* started({ to })
      assert.strictEqual(yield* send(url, bodyOf([1])), 200)
      yield* small.fill(0)
      const large = bodyOf([2, 3], `,"name":"${"n".repeat(10_000)}"`)
      assert.strictEqual(yield* send(url, large), 500)
      assert.deepStrictEqual(numbersIn(to), [1])
      yield* small.free
      assert.strictEqual(yield* send(url, large), 200)
      assert.deepStrictEqual(numbersIn(to), [1, 2, 3])
      assert.deepStrictEqual(received.map(({ applied, problem }) => [applied, problem]), [
        [1, undefined],
        [0, "notWritten"],
        [2, undefined]
      ])
    }).pipe(Effect.scoped))
})

describe("the faults of the receiver", () => {
  const status = `{"fault":"status","status":500,"nth":1}`
  it.live.each(
    [
      [status, 500, false],
      [status.replace("}", `,"applied":true}`), 500, true],
      [`{"fault":"status","status":410,"nth":1}`, 410, false],
      [`{"fault":"redirect","location":"/x","nth":1}`, 302, false],
      [`{"fault":"close","nth":1}`, undefined, true],
      [`{"fault":"reset","applied":false,"nth":1}`, undefined, false],
      [`{"fault":"stall","at":"headers","nth":1}`, undefined, true],
      [`{"fault":"stall","at":"body","nth":1}`, undefined, true],
      [`{"fault":"truncate","nth":1}`, undefined, true],
      [`{"fault":"drip","bytes":1,"everyMs":1,"nth":1}`, 200, true],
      [`{"fault":"latency","ms":30,"nth":1}`, 200, true],
      [`{"fault":"header","name":"retry-after","value":"0","nth":1}`, 200, true],
      // A receiver never says 2xx for what it has not applied.
      [`{"fault":"status","status":202,"applied":false,"nth":1}`, 202, true]
    ] as const
  )("%s: the first answer is %s, applied: %s", ([fault, answer, isApplied]) =>
    Effect.gen(function*() {
      const to = join(yield* temporaryFolder, "changes.ndjson")
      const { received, url } = yield* started({ to, faults: faultsOf(fault) })
      const sent = fault.includes("stall") ? sendBriefly(url, bodyOf([1]), received) : send(url, bodyOf([1]))
      assert.strictEqual(yield* sent, answer)
      assert.deepStrictEqual(numbersIn(to), isApplied ? [1] : [])
      assert.strictEqual(yield* send(url, bodyOf([1])), 200)
      assert.deepStrictEqual(numbersIn(to), [1])
      assert.deepStrictEqual(received.map(({ delivery }) => delivery), ["new", isApplied ? "repeat" : "new"])
    }).pipe(Effect.scoped))

  it.live.each(Object.entries(receiverScenarios))(
    "%s applies each change once",
    ([name, { faults }]) =>
      Effect.gen(function*() {
        const to = join(yield* temporaryFolder, "changes.ndjson")
        const { received, url } = yield* started({ to, faults: name === "slow" ? [] : faults })
        for (let round = 0; round < 6; round++) {
          yield* name === "late" ? sendBriefly(url, bodyOf([1, 2]), received) : send(url, bodyOf([1, 2]))
        }
        assert.deepStrictEqual(numbersIn(to), name === "gone" || name === "moved" ? [] : [1, 2])
      }).pipe(Effect.scoped)
  )

  it("of other names, or with a wrong condition, are refused", () => {
    for (
      const json of ["{", `{"fault":"emptyPage"}`, `{"fault":"x"}`, `{"fault":"close","applied":1}`, `3`, `[null]`]
    ) {
      assert.isTrue(Result.isFailure(receiverFaultsFromJson(json)), json)
    }
    assert.strictEqual(Object.keys(receiverFaults).length, 9)
  })
})
