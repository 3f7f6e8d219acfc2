/**
 * Histories of a service that skips records of its list for some scans, changes and moves them, ignores filters or answers them
 * from an index that is down, and deletes records for good: no record is called missing while a filter finds it, and each deleted one soon is.
 */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { type Dice, diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Effect, Layer } from "effect"
import { join } from "node:path"
import { verify } from "../../src/ask/Verify.ts"
import { Sink } from "../../src/port/Sink.ts"
import { scan } from "../../src/scan/Scan.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openReader } from "../../src/sqlite/SqliteStore.ts"
import { type Invoice, prove, SkippingService } from "./SkippingService.ts"

const histories = isLongRun ? 1000 : 30
const fields = ["reference", "customerDocumentNumber", "settlementDate"] as const

const dateOf = (dice: Dice) => `2024-05-${String(1 + dice.below(9)).padStart(2, "0")}`

interface Figures {
  scans: number
  found: number
  missing: number
  unchecked: number
}

/** A service that changes between scans, and what a destination must say about it. */
class History {
  readonly service: SkippingService
  readonly dice: Dice
  readonly proven: ReadonlyArray<string>
  /** The scans for which the list still leaves out a record. */
  readonly #skipped = new Map<string, number>()
  /** The scan before which each deleted record was deleted. */
  readonly deleted = new Map<string, number>()
  /** The filters whose index is down: their answers are empty. */
  readonly down = new Set<string>()
  #born = 0

  constructor(dice: Dice) {
    this.dice = dice
    this.service = new SkippingService([])
    this.service.answer = (filters) => Object.keys(filters).some((field) => this.down.has(field)) ? [] : undefined
    for (let count = 20 + dice.below(40); count > 0; count--) this.#insert()
    // A probe needs no proof of all filters.
    this.proven = fields.filter((_, index) => index === dice.below(3) || dice.chance(0.6))
  }

  #insert(): void {
    const id = `inv_${this.#born++}`
    this.service.put({
      id,
      reference: `ref ${id}`,
      customerDocumentNumber: String(this.dice.below(8)),
      settlementDate: dateOf(this.dice),
      amount: this.dice.below(1000)
    })
  }

  /** Changes what the service has and does, before the scan with this number. */
  change(number: number): void {
    const { dice, service } = this
    for (let count = dice.below(3); count > 0; count--) this.#insert()
    for (const [id, scans] of this.#skipped) {
      if (scans > 1) this.#skipped.set(id, scans - 1)
      else this.#skipped.delete(id)
    }
    const ids = [...service.records.keys()]
    for (let count = dice.below(4); count > 0; count--) this.#skipped.set(dice.pick(ids), 1 + dice.below(5))
    for (let count = dice.below(4); count > 0; count--) this.#put(dice.pick(ids))
    for (let count = dice.chance(0.4) ? 1 + dice.below(2) : 0; count > 0; count--) {
      const id = dice.pick(ids)
      if (service.records.delete(id)) this.deleted.set(id, number)
    }
    service.skipped.clear()
    for (const id of this.#skipped.keys()) service.skipped.add(id)
    service.ignored.clear()
    if (dice.chance(0.3)) service.ignored.add(dice.pick(fields))
    if (dice.chance(0.1)) { for (const field of fields) service.ignored.add(field) }
    this.down.clear()
    if (dice.chance(0.2)) this.down.add(dice.pick(fields))
  }

  /** Changes a record. Its date may move it to another place, and its reference may become another one. */
  #put(id: string): void {
    const { dice, service } = this
    const before = service.records.get(id)
    if (before === undefined) return
    const amount = dice.below(1000)
    const kind = dice.below(4)
    const after: Invoice = {
      ...before,
      amount,
      ...kind === 0 ? { settlementDate: dateOf(dice) } : {},
      ...kind === 1 ? { reference: `other ${amount}` } : {}
    }
    if (kind === 0) service.records.delete(id)
    service.put(after)
  }

  works(field: string): boolean {
    return !this.service.ignored.has(field) && !this.down.has(field)
  }

  /** Whether a look-up with the stored text of a record finds the record, if the service has it. */
  canFind(stored: Invoice): boolean {
    const now = this.service.records.get(stored.id)
    const working = this.proven.filter((field) => this.works(field))
    return working.slice(0, 2).some((field) => now?.[field] === stored[field])
  }
}

/** A sink whose scans mark rows missing at once. */
const withoutRechecks = (sink: ReturnType<typeof SqliteSink.layer>) =>
  Layer.effect(
    Sink,
    Effect.map(Sink, (inner) =>
      Sink.of({ ...inner, begin: (list, request) => inner.begin(list, { ...request, recheck: false }) }))
  ).pipe(Layer.provide(sink))

/** Plays a history. Returns the records that were called missing although a filter would have found them. */
const play = (number: number, figures: Figures, adapt: typeof withoutRechecks = (sink) => sink) =>
  Effect.gen(function*() {
    const history = new History(diceOf(seed, "missing", number))
    const { proven, service } = history
    const file = join(yield* temporaryFolder, "payments.db")
    const layer = Layer.merge(adapt(SqliteSink.layer(file)), service.layer)
    const run = Effect.provide(scan("invoices", { limit: 7, missingLimit: 1 }), layer)
    const stored = () =>
      new Map(
        rowsOf(file, "SELECT id, raw, missing_since IS NOT NULL AS missing FROM invoices").map((row) => [
          String(row["id"]),
          { record: JSON.parse(String(row["raw"])) as Invoice, isMissing: row["missing"] === 1 } // written by this test
        ])
      )
    const wrong: Array<string> = []
    yield* run
    yield* Effect.provide(prove(proven), layer)
    for (let scanned = 1; scanned < 8; scanned++) {
      history.change(scanned)
      const before = stored()
      const { missing, skipped, unchecked } = yield* run
      figures.scans++
      figures.found += skipped
      figures.missing += missing
      figures.unchecked += unchecked
      for (const [id, { isMissing, record }] of stored()) {
        const earlier = before.get(id)
        if (
          isMissing && service.records.has(id) && earlier?.isMissing !== true &&
          history.canFind(earlier?.record ?? record)
        ) {
          wrong.push(`${id} in scan ${scanned}`)
        }
        const gone = history.deleted.get(id)
        const works = proven.some((field) => history.works(field))
        // Without a filter that works, the next scan with one decides.
        if (gone !== undefined && gone < scanned && works) {
          assert.isTrue(isMissing, `${id}, deleted before scan ${gone}, is missing after scan ${scanned}`)
        }
      }
    }
    const { differences } = yield* Effect.scoped(
      Effect.flatMap(openReader(file, "here"), (reader) => verify(reader, Lists.invoices))
    )
    assert.deepStrictEqual(differences, [])
    return wrong
  }).pipe(Effect.scoped)

const newFigures = (): Figures => ({ scans: 0, found: 0, missing: 0, unchecked: 0 })

describe(`a list that skips records (seed ${seed})`, () => {
  it.live(`loses none of them, and deleted ones are found, in ${histories} histories`, () =>
    Effect.gen(function*() {
      const figures = newFigures()
      for (let number = 0; number < histories; number++) {
        assert.deepStrictEqual(yield* play(number, figures), [], `history ${number}`)
      }
      console.log(`missing: ${JSON.stringify(figures)}`)
      for (const count of Object.values(figures)) assert.isAbove(count, 0)
    }), 30 * 60_000)

  it.live("would lose some of them without the look-ups", () =>
    Effect.gen(function*() {
      const figures = newFigures()
      const wrong: Array<string> = []
      for (let number = 0; number < 10; number++) wrong.push(...(yield* play(number, figures, withoutRechecks)))
      assert.isAbove(wrong.length, 10)
    }))
})
