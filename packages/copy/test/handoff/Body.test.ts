import { assert, describe, it } from "@effect/vitest"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Schema } from "effect"
import {
  type BatchLimits,
  bodyOf,
  chooseBatch,
  isErasure,
  isSent,
  messageId,
  type Shape
} from "../../src/handoff/Body.ts"
import type { ChangeRow } from "../../src/store/Store.ts"

const full: Shape = { source: "north", isThin: false }
const thin: Shape = { ...full, isThin: true }
const start = {
  generation: "g1",
  after: 0,
  selection: "invoices",
  nonce: "n",
  storedAt: "2026-01-01T00:01:00.500Z",
  scannedAt: "2026-01-01T00:00:00.000Z"
}

const row = (seq: number, more: Partial<ChangeRow> = {}): ChangeRow => ({
  seq,
  generation: "g1",
  list: "invoices",
  scan: 1,
  at: "2026-01-01T00:00:00.000Z",
  kind: "update",
  id: `inv_${seq}`,
  fields: ["amount"],
  before: `{"id":"inv_${seq}","amount":1}`,
  after: `{"id":"inv_${seq}","amount":9007199254740993}`,
  rechecked: undefined,
  ...more
})

const rowsFrom = (dice: ReturnType<typeof diceOf>, count: number): ReadonlyArray<ChangeRow> => {
  let seq = dice.below(5)
  return Array.from({ length: count }, () =>
    row(seq += 1 + dice.below(3), {
      list: dice.chance(0.85) ? "invoices" : "payout-requests",
      kind: dice.pick(["insert", "update", "missing", "returned"]),
      id: dice.pick(["a", "\"", "ü\\", "\u2028", "日本"]),
      after: dice.chance(0.2)
        ? undefined
        : `{"amount":${"9".repeat(1 + dice.below(60))},"x":${JSON.stringify("é".repeat(dice.below(200)))}}`
    }))
}

describe(`a batch (seed ${seed})`, () => {
  it.prop(
    "has the next changes of one list, as many as the limits allow, at least one",
    { nth: Schema.Int },
    ({ nth }) => {
      const dice = diceOf(seed, "batches", nth)
      const kinds = dice.chance(0.5) ? undefined : new Set([dice.pick(["insert", "update", "missing"] as const)])
      const shape = { ...dice.pick([full, thin]), kinds }
      const limits: BatchLimits = { changes: 1 + dice.below(12), bytes: dice.below(3000) }
      let left = rowsFrom(dice, dice.below(60))
      const wanted = left.filter((one) => isSent(shape, one))
      const sent: Array<ChangeRow> = []
      for (let after = 0;;) {
        const { batch, texts } = chooseBatch(shape, left, { ...start, after }, limits) ?? {}
        if (batch === undefined) break
        const own = left.filter((one) =>
          one.list === batch.list && isSent(shape, one) && one.seq >= batch.first && one.seq <= batch.last
        )
        assert.strictEqual(own.length, batch.changes)
        assert.isAtMost(own.length, limits.changes)
        const body = bodyOf(shape, batch, own)
        assert.deepStrictEqual(bodyOf(shape, batch, own, texts), body)
        if (own.length > 1) assert.isAtMost(body.length, limits.bytes)
        // One more change of the list would exceed a limit.
        const following = left.find((one) => one.seq > batch.last && isSent(shape, one))
        if (following?.list === batch.list && own.length < limits.changes) {
          const larger = { ...batch, last: following.seq, changes: own.length + 1 }
          assert.isAbove(bodyOf(shape, larger, [...own, following]).length + 16, limits.bytes)
        }
        assert.deepInclude(JSON.parse(Buffer.from(body).toString()), {
          first: own[0]?.seq,
          last: own.at(-1)?.seq,
          list: batch.list
        })
        sent.push(...own)
        left = left.filter(({ seq }) => seq > batch.last)
        after = batch.last
      }
      assert.deepStrictEqual(sent, wanted)
    }
  )
})

describe("the body of a batch", () => {
  const rows = [row(3), row(5, { kind: "missing", fields: [], before: undefined, after: undefined })]
  const batch = { ...start, first: 3, last: 5, list: "invoices", changes: 2 }

  it("has the exact texts, and the age of the copy when the boundary was stored", () => {
    assert.strictEqual(
      Buffer.from(bodyOf(full, batch, rows)).toString(),
      `{"type":"payments.changes","timestamp":"2026-01-01T00:01:00.500Z","source":"north","list":"invoices","generation":"g1",` +
        `"first":3,"last":5,"copy":{"scannedAt":"2026-01-01T00:00:00.000Z","ageSeconds":60},"changes":[` +
        `{"seq":3,"at":"2026-01-01T00:00:00.000Z","change":"update","id":"inv_3","fields":["amount"],"before":{"id":"inv_3","amount":1},"after":{"id":"inv_3","amount":9007199254740993}},` +
        `{"seq":5,"at":"2026-01-01T00:00:00.000Z","change":"missing","id":"inv_5","fields":[],"before":null,"after":null}],"schemaVersion":1}`
    )
  })

  it("has only the number, kind and id of each change if it is thin", () => {
    assert.include(
      Buffer.from(bodyOf(thin, { ...batch, scannedAt: undefined }, rows)).toString(),
      `"copy":{"scannedAt":null,"ageSeconds":null},"changes":[{"seq":3,"change":"update","id":"inv_3"},{"seq":5,"change":"missing","id":"inv_5"}],`
    )
  })

  it("has the same bytes and id each time, and another id after any change of a text or a nonce", () => {
    const body = bodyOf(full, batch, rows)
    const id = messageId(batch, body)
    assert.match(id, /^msg_[\w-]{32}$/)
    assert.deepStrictEqual(bodyOf(full, batch, [...rows]), body)
    assert.strictEqual(messageId(batch, bodyOf(full, batch, rows)), id)
    const erased = bodyOf(full, batch, [
      row(3, { before: "{\"id\":\"inv_3\"}", after: "{\"id\":\"inv_3\"}" }),
      ...rows.slice(1)
    ])
    assert.notStrictEqual(messageId(batch, erased), id)
    assert.notStrictEqual(messageId({ nonce: "other" }, body), id)
  })
})

describe("an erasure", () => {
  const erased = row(7, { scan: 0, after: `{"id":"inv_7","amount":1}`, before: `{"id":"inv_7","amount":1}` })

  it("is a change by a redaction whose text has no personal data any more", () => {
    const person = `{"id":"inv_7","customerDocumentNumber":"1"}`
    const cases = [
      [erased, true],
      [{ ...erased, kind: "returned" }, true],
      [{ ...erased, scan: 1 }, false],
      [{ ...erased, after: person, before: person }, false],
      [{ ...erased, kind: "missing", after: undefined, before: undefined }, false]
    ] as const
    for (const [one, expected] of cases) assert.strictEqual(isErasure(one), expected, JSON.stringify(one))
  })

  it("is sent whatever kinds are chosen, with its number and id only", () => {
    const shape: Shape = { ...full, kinds: new Set(["insert"]) }
    assert.isTrue(isSent(shape, erased))
    const { batch } = chooseBatch(shape, [erased], start, { changes: 9, bytes: 9999 }) ?? {}
    if (batch === undefined) return assert.fail()
    for (const one of [shape, { ...shape, isThin: true }]) {
      const body = Buffer.from(bodyOf(one, batch, [erased])).toString()
      assert.include(body, `"changes":[{"seq":7,"change":"erased","id":"inv_7"}]`)
    }
    return undefined
  })
})
