import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { seed } from "@payments/testkit/Seed"
import { Option, Schema } from "effect"
import { createHash } from "node:crypto"
import { layoutOf } from "../../src/plan/Columns.ts"
import { type Change, differingRows, hashed, type Plan, plan, type StoredRow } from "../../src/plan/Plan.ts"
import { type Piece, RowSet } from "../../src/plan/RowSet.ts"
import * as ScanTotals from "../../src/plan/ScanTotals.ts"
import type { BatchRecord } from "../../src/port/Sink.ts"
import { recordOf } from "../session/Batches.ts"

const layout = layoutOf(Lists.payoutRequests)
const ids = ["a", "b", "c", "d", "e"] as const

/** A record with one of few ids and contents, so that they often repeat and differ. */
const Drawn = Schema.Struct({
  id: Schema.Literals([...ids, "none"]),
  amount: Schema.Int.check(Schema.isBetween({ minimum: -2, maximum: 2 })),
  /** A member that some comparisons ignore. */
  note: Schema.Literals(["absent", "1", "2"]),
  /** Whether the members are in reverse order, which gives another text. */
  isReversed: Schema.Boolean,
  kind: Schema.Literals(["good", "good", "wrongType", "inexact"])
})
type Drawn = typeof Drawn.Type

const textOf = ({ amount, id, kind, note, isReversed }: Drawn): string => {
  const figure = kind === "good" ? `${amount}` : kind === "inexact" ? `${amount}.00000000000000001` : `"${amount}"`
  const members = [
    ...(id === "none" ? [] : [`"id":"${id}"`]),
    `"amount":${figure}`,
    ...(note === "absent" ? [] : [`"authUrl":${note}`])
  ]
  return `{${(isReversed ? members.toReversed() : members).join(",")}}`
}

const batchRecordOf = (drawn: Drawn): BatchRecord =>
  recordOf(
    Lists.payoutRequests,
    drawn.id === "none" ? undefined : drawn.id,
    textOf(drawn),
    drawn.kind === "good" && drawn.id !== "none" ? undefined : { path: "amount", expected: "an integer" }
  )

/** Returns the value of the amount column: 0, for null, if only parsing would make it an integer. */
const amountIn = (text: string): number => Number(/"amount":(-?\d+)[,}]/.exec(text)?.[1] ?? 0)

/** Returns the members to compare, by name. */
const membersIn = (text: string, ignoring: boolean) =>
  Object.fromEntries(
    [...text.matchAll(/"(id|amount|authUrl)":("[^"]*"|[^,}]*)/g)].flatMap(([, name = "", value]) =>
      ignoring && name === "authUrl" ? [] : [[name, value] as const]
    ).toSorted()
  )

const isSame = (before: string, after: string, ignoring: boolean): boolean => {
  if (before === after) return true
  // Another spelling is a change. But if the record has an ignored member, only its other members are compared.
  const mayBeReversed = ignoring && `${before}${after}`.includes("authUrl")
  return mayBeReversed && JSON.stringify(membersIn(before, true)) === JSON.stringify(membersIn(after, true))
}

/** A row of the simulated destination. */
interface Row {
  readonly row: number
  text: string
  missing: boolean
}

const digestOf = (texts: ReadonlyArray<string>): bigint =>
  texts.reduce((sum, text) => sum + BigInt(`0x${createHash("sha256").update(text).digest("hex").slice(0, 32)}`), 0n) %
  2n ** 128n

const writeInto = (rows: Map<string, Row>, planned: Plan): void => {
  const touched = new Set<number>()
  for (const { cells, hash, id, isNew, raw, row } of planned.writes) {
    assert.isFalse(touched.has(row), "a row is written once")
    touched.add(row)
    const held = rows.get(id)
    assert.strictEqual(held === undefined, isNew)
    assert.strictEqual(row, held?.row ?? rows.size)
    assert.strictEqual(hash, createHash("sha256").update(raw).digest("hex"))
    assert.strictEqual(cells[layout.columns.findIndex(({ name }) => name === "amount")] ?? 0, amountIn(raw))
    rows.set(id, { row, text: raw, missing: false })
  }
  for (const found of planned.reappeared) {
    const held = [...rows.values()].find(({ row }) => row === found)
    if (held === undefined) assert.fail("only an existing row can reappear")
    else held.missing = false
  }
}

/** Applies changes to texts, and checks each change's `before`. */
const replay = (texts: Map<string, string>, missing: Set<string>, changes: ReadonlyArray<Change>): void => {
  for (const { after, before, fields, id, kind } of changes) {
    assert.strictEqual(before, texts.get(id), `${kind} of ${id}`)
    assert.strictEqual(kind === "insert", before === undefined)
    assert.strictEqual(kind === "returned", missing.has(id))
    if (kind === "update") assert.isAbove(fields.length, 0)
    texts.set(id, after)
    missing.delete(id)
  }
}

const Batches = Schema.Array(Schema.Struct({
  records: Schema.Array(Drawn).check(Schema.isMaxLength(8)),
  /** Whether the batch was planned but not written, because the process was killed. It is read again. */
  lost: Schema.Boolean,
  /** Whether the process ended after this batch. */
  endsProcess: Schema.Boolean
})).check(Schema.isMaxLength(8))

describe(`a planned batch (seed ${seed})`, () => {
  it.prop("stores the last occurrence of each record, with correct counts, sums, digest and changes", {
    before: Schema.Array(Schema.Struct({ drawn: Drawn, missing: Schema.Boolean })).check(Schema.isMaxLength(5)),
    batches: Batches,
    ignoring: Schema.Boolean,
    emitting: Schema.Boolean
  }, ({ batches, before, ignoring, emitting }) => {
    const rows = new Map<string, Row>()
    for (const { drawn, missing } of before) {
      if (drawn.id !== "none" && !rows.has(drawn.id)) {
        rows.set(drawn.id, { row: rows.size, text: textOf(drawn), missing })
      }
    }
    const texts = new Map([...rows].map(([id, { text }]) => [id, text]))
    const missing = new Set([...rows].flatMap(([id, row]) => row.missing ? [id] : []))
    const model = new Map(texts)
    const modelSeen = new Set<string>()
    const counted = { records: 0, withoutId: 0, repeats: 0, quarantined: 0, returned: 0 }
    let totals = ScanTotals.none
    let seen = new RowSet()
    const pieces = new Map<number, Piece>()
    const ignored = new Set(ignoring ? ["authUrl"] : [])

    const planOf = (drawn: ReadonlyArray<Drawn>) => {
      const records = drawn.map((record) => hashed(batchRecordOf(record)))
      const stored = new Map<string, StoredRow>(
        [...rows].map(([id, row]) => [id, { ...row, hash: createHash("sha256").update(row.text).digest("hex") }])
      )
      const wanted = differingRows(records, stored)
      const storedTexts = new Map([...rows.values()].map(({ row, text }) => [row, text]))
      return plan({
        layout,
        ignored,
        emitChanges: { inserts: emitting, updates: emitting },
        totals,
        seen,
        nextRow: rows.size,
        records,
        stored,
        texts: new Map(wanted.map((row) => [row, storedTexts.get(row) ?? ""]))
      })
    }
    const reopen = () => {
      totals = Option.getOrThrow(ScanTotals.fromJson(ScanTotals.toJson(totals)))
      seen = new RowSet(pieces.values())
    }

    for (const { endsProcess, lost, records } of batches) {
      if (lost) {
        const written = totals
        planOf(records)
        totals = written
        reopen()
      }
      for (const drawn of records) {
        counted.records++
        if (drawn.kind !== "good" || drawn.id === "none") counted.quarantined++
        if (drawn.id === "none") {
          counted.withoutId++
          continue
        }
        const held = model.get(drawn.id)
        if (held === undefined || !isSame(held, textOf(drawn), ignoring)) model.set(drawn.id, textOf(drawn))
        if (modelSeen.has(drawn.id)) counted.repeats++
        modelSeen.add(drawn.id)
      }
      counted.returned += new Set(records.filter(({ id }) => rows.get(id)?.missing).map(({ id }) => id)).size
      const planned = planOf(records)
      writeInto(rows, planned)
      if (!emitting) assert.deepStrictEqual(planned.changes, [])
      replay(texts, missing, planned.changes)
      totals = planned.totals
      for (const { bits, index } of seen.changed()) pieces.set(index, { index, bits: bits.slice() })
      seen.markStored()
      if (endsProcess) reopen()
    }

    const { counts } = totals
    assert.deepInclude(counts, counted)
    assert.strictEqual(counts.inserted + counts.updated + counts.unchanged + counts.withoutId, counts.records)
    assert.deepStrictEqual([...rows].map(([id, { text }]) => [id, text]).toSorted(), [...model].toSorted())
    assert.isFalse([...modelSeen].some((id) => rows.get(id)?.missing))
    assert.strictEqual(seen.size, modelSeen.size)
    for (const [id, { row }] of rows) assert.strictEqual(seen.has(row), modelSeen.has(id))
    const seenTexts = [...modelSeen].map((id) => model.get(id) ?? "")
    assert.strictEqual(totals.digest, digestOf(seenTexts))
    assert.strictEqual(
      totals.sums["amount"] ?? 0n,
      BigInt(seenTexts.reduce((sum, text) => sum + amountIn(text), 0))
    )
    if (emitting) assert.deepStrictEqual([...texts].toSorted(), [...model].toSorted())
  }, { arbitrary: { runs: 2000, seed } })
})

describe(`a set of rows (seed ${seed})`, () => {
  const Rows = Schema.Array(
    Schema.Union([
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 })),
      Schema.Int.check(Schema.isBetween({ minimum: 8180, maximum: 8200 })),
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 100_000 }))
    ])
  ).check(Schema.isMaxLength(60))

  it.prop("has the rows that were added and stored, across any number of interruptions", {
    runs: Schema.Array(Schema.Struct({ rows: Rows, stored: Schema.Boolean })).check(Schema.isMaxLength(5))
  }, ({ runs }) => {
    const pieces = new Map<number, Piece>()
    const expected = new Set<number>()
    let set = new RowSet()
    for (const { rows, stored } of runs) {
      const added = new Set(rows.filter((row) => !expected.has(row)))
      assert.strictEqual(rows.filter((row) => set.add(row)).length, added.size)
      if (stored) {
        for (const { bits, index } of set.changed()) pieces.set(index, { index, bits: bits.slice() })
        set.markStored()
        assert.deepStrictEqual(set.changed(), [])
        for (const row of added) expected.add(row)
      } else {
        // Rows that were not stored are lost.
        set = new RowSet(pieces.values())
      }
      assert.strictEqual(set.size, expected.size)
      for (const row of [...expected, ...rows]) assert.strictEqual(set.has(row), expected.has(row))
    }
    set.clear()
    assert.deepStrictEqual([set.size, set.changed(), set.has(0)], [0, [], false])
  }, { arbitrary: { runs: 300, seed } })

  it.prop("yields the rows below a bound that none of several sets has", {
    sets: Schema.Array(Rows).check(Schema.isMaxLength(3)),
    end: Schema.Union([
      Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50 })),
      Schema.Int.check(Schema.isBetween({ minimum: 8185, maximum: 8200 })),
      Schema.Int.check(Schema.isBetween({ minimum: 16_384, maximum: 16_400 }))
    ])
  }, ({ end, sets }) => {
    const made = sets.map((rows) => {
      const set = new RowSet()
      for (const row of rows) set.add(row)
      return set
    })
    const held = new Set(sets.flat())
    assert.deepStrictEqual(
      [...RowSet.inNone(made, end)],
      Array.from({ length: end }, (_, row) => row).filter((row) => !held.has(row))
    )
    // The pieces of several sets together give the union of the sets.
    const joined = new RowSet(made.flatMap((set) => set.changed()))
    assert.strictEqual(joined.size, held.size)
  }, { arbitrary: { runs: 100, seed } })
})
