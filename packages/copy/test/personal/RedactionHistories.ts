/** Random histories of scans, erasures and rewrites, killed at any transaction, over any kind of database. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type Dice, diceOf, seed } from "@payments/testkit/Seed"
import { Console, Deferred, Duration, Effect, Fiber, Layer, Redacted } from "effect"
import { prune } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import { erase } from "../../src/personal/Erase.ts"
import { rewrite } from "../../src/personal/Rewrite.ts"
import { SinkError } from "../../src/port/Sink.ts"
import { pseudonym } from "../../src/rule/Pseudonym.ts"
import { keepAll, type PersonalRule } from "../../src/rule/Rule.ts"
import type { Criterion } from "../../src/rule/Suppression.ts"
import { scan, type ScanEvent, scanParts } from "../../src/scan/Scan.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { key, type RedactedDestination } from "./RedactionTest.ts"

const list = Lists.payoutRequests
const listName = "payoutRequests" as const

const rules: ReadonlyArray<PersonalRule> = [
  { ...keepAll, key },
  { ...keepAll, preset: "pseudonymize", undocumented: "omit", key },
  { ...keepAll, preset: "omit", undocumented: "omit", key },
  { ...keepAll, fields: { customerId: "pseudonymize", extra: "omit" }, key }
]

/** A person. The name is part of every text that identifies them, except the document number. */
interface Person {
  readonly name: string
  readonly document: string
}

const customerOf = ({ name }: Person): string => `cus-${name}`

/** Records of persons, which change between the runs. */
class People {
  readonly records = new Map<string, { readonly person: Person; readonly amount: number; readonly form: number }>()
  readonly #dice: Dice
  readonly #persons: Array<Person> = []
  #born = 0

  constructor(dice: Dice) {
    this.#dice = dice
    for (let count = 0; count < 6; count++) this.#bear()
    this.change(40)
  }

  #bear(): Person {
    const name = `p${this.#persons.length}q${this.#dice.below(1_000_000)}`
    // A document number is a string or a number in the text.
    const document = `${100_000_000_000 + this.#dice.below(1_000_000_000) * 7 + this.#persons.length}`
    const person = { name, document }
    this.#persons.push(person)
    return person
  }

  pick(): Person {
    return this.#dice.pick(this.#persons)
  }

  change(times: number): void {
    for (let time = 0; time < times; time++) {
      const ids = [...this.records.keys()]
      const kind = this.#dice.below(6)
      const id = ids.length < 30 || kind === 0 ? `por_${this.#born++}` : this.#dice.pick(ids)
      if (kind === 1 && ids.length > 30) this.records.delete(id)
      else {
        const before = this.records.get(id)
        const person = before === undefined || this.#dice.chance(0.1) ? this.pick() : before.person
        this.records.set(id, { person, amount: this.#dice.below(1000), form: this.#dice.below(5) })
      }
    }
  }

  texts(): ReadonlyArray<string> {
    return [...this.records].map(([id, { amount, form, person }]) => {
      const { document, name: own } = person
      const [customer, mail, secret] = [customerOf(person), `mail-${own}`, `sécret-${own}`]
      const number = form === 1 ? document : JSON.stringify(document)
      // Escapes hide the value from a search for its characters.
      const spelled = form === 2
        ? `"\\u${customer.charCodeAt(0).toString(16).padStart(4, "0")}${customer.slice(1)}"`
        : `"${customer}"`
      const wrong = form === 3 ? `,"status":["${secret}"]` : `,"status":"processing"`
      const name = form === 4 ?
        `"customerDetails":{"documentNumber":${number}}` :
        `"customerDetails":{"email":"${mail}","documentNumber":${number},"other":{"${mail}":1}}`
      return `{"id":"${id}","amount":${amount},"customerId":${spelled},${name},"extra":"${secret}","${mail}":true${wrong}}`
    })
  }
}

/** Fails after so many transactions, as if the process had been killed. */
class Killed extends Error {}

const killedAfter = (maintenance: Maintenance, transactions: number): Maintenance => {
  let left = transactions
  const killed = Effect.die(new Killed())
  return {
    ...maintenance,
    redact: (body) => left-- > 0 ? maintenance.redact(body) : killed,
    wipe: Effect.suspend(() => left-- > 0 ? maintenance.wipe : killed)
  }
}

const orKilled = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A | undefined, E, R> =>
  Effect.catchDefect(effect, (defect) => defect instanceof Killed ? Effect.succeed(undefined) : Effect.die(defect))

/** Removes rows that are missing, and counts them. A row is missing for longer than 0 ms only in the next millisecond. */
const pruneRows = (maintenance: Maintenance, onRemoved: (rows: number) => void) =>
  Effect.map(
    Effect.delay(prune(maintenance, { keepMissing: Duration.zero }), "2 millis"),
    ({ rows }) => onRemoved(rows.removed)
  )

/** A consumer that applies the changes in order to the rows that it has read when the list was complete for the first time. */
class Consumer {
  #rows: Map<string, { text: string; missing: boolean }> | undefined
  #after = 0

  readonly follow = Effect.fnUntraced(function*(this: Consumer, maintenance: Maintenance) {
    const changes = yield* maintenance.changes(this.#after, Number.MAX_SAFE_INTEGER, [list])
    const rows = yield* maintenance.rows(list, -1, Number.MAX_SAFE_INTEGER)
    this.#after = Math.max(this.#after, changes.at(-1)?.seq ?? 0)
    const isComplete = (yield* maintenance.scans(list, "")).some(({ state }) => state === "complete")
    if (this.#rows === undefined && !isComplete) return
    const stored = new Map(
      rows.map(({ id, missingSince, raw }) => [id, { text: raw, missing: missingSince !== undefined }])
    )
    this.#rows ??= stored
    for (const { after, id, kind } of changes) {
      const row = this.#rows.get(id)
      this.#rows.set(id, { text: after ?? row?.text ?? "", missing: kind === "missing" })
    }
    // No change tells that a missing row was removed.
    for (const [id, { missing }] of this.#rows) if (missing && !stored.has(id)) this.#rows.delete(id)
    assert.deepStrictEqual([...this.#rows].toSorted(), [...stored].toSorted())
  })
}

/** Plays one history. */
const play = (name: string, destination: RedactedDestination, number: number, figures: { [event: string]: number }) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, name, number)
    const folder = yield* temporaryFolder
    const people = new People(dice)
    const consumer = new Consumer()
    const erased = new Set<Person>()
    const count = (event: string, times = 1) => void (figures[event] = (figures[event] ?? 0) + times)
    let rule = rules[0] ?? keepAll
    let unfinishedRewrite: PersonalRule | undefined
    const unfinished = new Map<Criterion, Person>()
    const withOpened = <A, E, R>(use: (opened: Maintenance) => Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(destination.open(folder), use))
    /** Removes missing rows between transactions. */
    const pruned = (opened: Maintenance): Maintenance => ({
      ...opened,
      redact: (body) =>
        dice.chance(0.2)
          ? Effect.andThen(pruneRows(opened, (rows) => count("rows removed meanwhile", rows)), opened.redact(body))
          : opened.redact(body)
    })

    const eraseOne = (criterion: Criterion, person: Person, transactions: number) =>
      withOpened(Effect.fnUntraced(function*(opened) {
        unfinished.set(criterion, person)
        const done = yield* orKilled(
          erase(killedAfter(pruned(opened), transactions), { criteria: [criterion], key, by: "history" })
        )
        count(done === undefined ? "killed erasures" : "erasures")
        if (done === undefined) return
        assert.isDefined(done[0]?.completedAt)
        unfinished.delete(criterion)
        erased.add(person)
      }))

    const eraseAny = (transactions: number) =>
      Effect.suspend(() => {
        const [again] = unfinished
        if (again !== undefined && dice.chance(0.7)) return eraseOne(again[0], again[1], transactions)
        const person = people.pick()
        const criterion: Criterion = { kind: "customer-id", value: Redacted.make(customerOf(person)) }
        return eraseOne(criterion, person, transactions)
      })

    const run = (interruptAfter: number, eraseAt: number) =>
      Effect.gen(function*() {
        const reached = yield* Deferred.make<void>()
        let commits = 0
        const onEvent = (event: ScanEvent) => {
          if (event._tag !== "Committed") return Effect.void
          commits++
          if (commits === eraseAt) {
            count("erasures during a scan")
            return Effect.orDie(eraseAny(dice.pick([3, 100])))
          }
          return commits === interruptAfter
            ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
            : Effect.void
        }
        const options = { limit: 10, largestBatch: 10, missingLimit: 1, personal: rule, onEvent }
        const part = people.pick()
        // The scan of a part of an erased person would be refused.
        const isKept = !erased.has(part) && ![...unfinished.values()].includes(part)
        const inParts = interruptAfter === 0 && rule === rules[0] && isKept && eraseAt === 0 && dice.chance(0.3)
        const scanned = inParts
          ? Effect.asVoid(scanParts(listName, { ...options, field: "customerId", values: [customerOf(part)] }))
          : Effect.asVoid(scan(listName, options))
        const provided = Effect.provide(
          scanned,
          Layer.merge(destination.layer(folder), layerTest({ payoutRequests: people.texts() }))
        )
        const fiber = yield* Effect.forkChild(provided)
        yield* Effect.raceFirst(Deferred.await(reached), Effect.ignore(Fiber.join(fiber)))
        if (!(yield* Deferred.isDone(reached))) return yield* Fiber.join(fiber)
        yield* Fiber.interrupt(fiber)
        count("interrupted scans")
      })

    const check = withOpened(Effect.fnUntraced(function*(opened) {
      assert.deepStrictEqual((yield* verify(opened, list)).differences, [])
      yield* consumer.follow(opened)
    }))

    const steps = 5 + dice.below(8)
    for (let step = 0; step < steps; step++) {
      people.change(dice.pick([0, 3, 10]))
      const kind = dice.below(10)
      const isKilled = dice.chance(0.4)
      const transactions = isKilled ? 1 + dice.below(6) : 10_000
      if (step > 0 && kind < 3 && unfinishedRewrite === undefined) yield* eraseAny(transactions)
      else if (step > 0 && (kind < 6 || unfinishedRewrite !== undefined)) {
        const target = unfinishedRewrite ?? dice.pick(rules)
        if (unfinishedRewrite !== undefined) {
          const refused = yield* Effect.flip(run(0, 0))
          assert.isTrue(refused instanceof SinkError && refused.reason._tag === "OtherRule")
        }
        const done = yield* withOpened((opened) =>
          orKilled(Effect.as(rewrite(killedAfter(pruned(opened), transactions), { rule: target }), true))
        )
        const isBegun = yield* withOpened((opened) => Effect.map(opened.personal, ({ rewriting }) => rewriting))
        count(done === undefined ? "killed rewrites" : "rewrites")
        unfinishedRewrite = done === undefined && isBegun ? target : undefined
        if (done === true || isBegun) rule = target
      } else {
        yield* run(isKilled ? 1 + dice.below(3) : 0, step > 0 && dice.chance(0.2) ? 1 + dice.below(3) : 0)
        count("scans")
      }
      yield* check
      if (unfinishedRewrite === undefined && dice.chance(0.2)) {
        yield* withOpened((opened) => prune(opened, { keepChanges: undefined, keepScans: Duration.zero }))
        yield* check
      }
    }
    if (unfinishedRewrite !== undefined) {
      yield* withOpened((opened) => rewrite(opened, { rule: unfinishedRewrite ?? rule }))
      rule = unfinishedRewrite
    }
    for (const [criterion, person] of unfinished) yield* eraseOne(criterion, person, 10_000)
    // The service returns the erased persons again.
    for (let time = 0; time < 2; time++) {
      yield* run(0, 0)
      yield* check
    }
    // The same person may have been erased by one of their criteria only.
    const again = [...erased].map((person): Criterion => ({
      kind: "customer-id",
      value: Redacted.make(customerOf(person))
    }))
    if (again.length > 0) yield* withOpened((opened) => erase(opened, { criteria: again, key, by: "history" }))
    yield* check
    const content = yield* destination.content(folder)
    for (const person of erased) {
      for (const value of [person.name, person.document, pseudonym(key, customerOf(person))]) {
        assert.isFalse(content.includes(value), "an erased value is stored")
      }
    }
    if (rule !== rules[0] && rule !== rules[3]) {
      for (const { person: { document, name: own } } of people.records.values()) {
        for (const value of [own, document]) {
          assert.isFalse(content.includes(value), "a value is stored that the rule leaves out")
        }
      }
    }
  }).pipe(
    Effect.scoped,
    Effect.onError(() => Console.error(`history ${number} of ${name}, seed ${seed}`))
  )

/** Runs histories over a kind of database. */
export const histories = (name: string, destination: RedactedDestination, number: number) =>
  describe(`${name} with erasures and rewrites that are killed at any transaction (seed ${seed})`, () => {
    it.live(
      `stays verifiable, tells consumers everything, and keeps nothing of the erased: ${number} histories`,
      () =>
        Effect.gen(function*() {
          const figures: { [event: string]: number } = {}
          for (let history = 1; history <= number; history++) yield* play(name, destination, history, figures)
          yield* Console.log(JSON.stringify(figures))
        }),
      600_000
    )
  })
