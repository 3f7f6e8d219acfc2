/** A test suite of erasures and rewrites for every kind of database. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Duration, Effect, Layer, Redacted, Result, type Scope } from "effect"
import { pointAt } from "../../src/ask/PointInTime.ts"
import { prune } from "../../src/ask/Retention.ts"
import { verify } from "../../src/ask/Verify.ts"
import { erase, previewErasure } from "../../src/personal/Erase.ts"
import { previewRewrite, rewrite } from "../../src/personal/Rewrite.ts"
import * as Certificate from "../../src/port/Certificate.ts"
import { type Sink, SinkError } from "../../src/port/Sink.ts"
import { type Classes, classKey, currentClasses } from "../../src/rule/Classes.ts"
import { keyCheck, pseudonym } from "../../src/rule/Pseudonym.ts"
import { keepAll, type PersonalRule } from "../../src/rule/Rule.ts"
import { nameOf, toStored } from "../../src/rule/StoredRule.ts"
import { type Criterion, hashOfRecord } from "../../src/rule/Suppression.ts"
import { scan, scanParts } from "../../src/scan/Scan.ts"
import type { Snapshot } from "../../src/store/Snapshot.ts"
import type { Maintenance } from "../../src/store/Store.ts"

/** A kind of database. Each test has its own folder, or a schema with the folder's name. */
export interface RedactedDestination {
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError>
  readonly open: (folder: string) => Effect.Effect<Maintenance, SinkError, Scope.Scope>
  readonly snapshot: (folder: string) => Effect.Effect<Snapshot, SinkError, Scope.Scope>
  /** Returns everything that the destination stores, in which erased values are searched. */
  readonly content: (folder: string) => Effect.Effect<string>
}

export const key = Redacted.make(new TextEncoder().encode("0123456789abcdef0123456789abcdef"))

const criterion = (kind: Criterion["kind"], value: string): Criterion => ({ kind, value: Redacted.make(value) })

const payout = (index: number, customer: string, amount = index) =>
  `{"id":"por_${index}","amount":${amount},"status":"processing","customerId":"${customer}",` +
  `"customerDetails":{"name":"Name ${customer}","documentNumber":"doc-${customer}"},"extra":"other ${customer}"}`

const pseudonymize: PersonalRule = { ...keepAll, preset: "pseudonymize", undocumented: "omit", key }

const list = Lists.payoutRequests

/** Runs the suite over a database. */
export const suite = (name: string, destination: RedactedDestination) => {
  const run = (folder: string, records: ReadonlyArray<string>, personal: PersonalRule = { ...keepAll, key }) =>
    scan("payoutRequests", { limit: 10, missingLimit: 1, personal }).pipe(
      Effect.provide(Layer.merge(destination.layer(folder), layerTest({ payoutRequests: records })))
    )
  const withOpened = <A, E, R>(folder: string, use: (opened: Maintenance) => Effect.Effect<A, E, R>) =>
    Effect.scoped(Effect.flatMap(destination.open(folder), use))

  const assertVerified = (folder: string) =>
    withOpened(folder, (opened) =>
      Effect.map(verify(opened, list), ({ certificate, differences }) => {
        assert.isDefined(certificate)
        assert.deepStrictEqual(differences, [])
      }))

  describe(name, () => {
    it.live("erases a person from rows and changes, and leaves a tombstone", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        yield* run(folder, records)
        yield* run(folder, records.with(1, payout(1, "cust-1-x", 500)))
        const [erasure] = yield* withOpened(folder, (opened) =>
          erase(opened, { criteria: [criterion("customer-id", "cust-1-x")], key, by: "tester" }))
        assert.deepInclude(erasure, { kind: "customer-id", by: "tester", records: 10, changes: 1, quarantined: 0 })
        assert.isString(erasure?.completedAt)
        yield* assertVerified(folder)
        const content = yield* destination.content(folder)
        assert.isFalse(content.includes("cust-1-x"))
        for (const kept of ["Name cust-2-x", "doc-cust-0-x", "other cust-2-x"]) {
          assert.isTrue(content.includes(kept))
        }
      }).pipe(Effect.scoped))

    it.live("rewrites every text once", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        yield* run(folder, records)
        yield* run(folder, records.with(1, payout(1, "cust-1-x", 500)))
        const rewritten = yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize }))
        assert.deepInclude(rewritten, { from: "keep", records: 30, changes: 1, quarantined: 0 })
        assert.isUndefined(yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize })))
        yield* assertVerified(folder)
        const content = yield* destination.content(folder)
        assert.isFalse(content.includes("cust-"))
        assert.isTrue(content.includes("ps1_"))
      }).pipe(Effect.scoped))
    it.live("does not make verify report a sound list, whenever it changes the texts meanwhile", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        yield* run(folder, records)
        yield* run(folder, records.with(1, payout(1, "cust-1-x", 500)))
        // The texts change after the certificate was read, or between the rows and their earlier texts.
        for (const [member, customer] of [["seen", "cust-0-x"], ["textsAt", "cust-1-x"]] as const) {
          let calls = 0
          const erasing = withOpened(
            folder,
            (opened) => erase(opened, { criteria: [criterion("customer-id", customer)], key, by: "tester" })
          )
          const once = <A, E>(read: Effect.Effect<A, E>) =>
            Effect.suspend(() =>
              calls++ > 0
                ? read
                : member === "seen"
                ? Effect.tap(read, () => Effect.asVoid(erasing))
                : Effect.andThen(erasing, read)
            )
          const { certificate, differences } = yield* withOpened(folder, (opened) =>
            verify({
              ...opened,
              ...member === "seen"
                ? { seen: (scans) => once(opened.seen(scans)) }
                : { textsAt: (of, scanned, ids) => once(opened.textsAt(of, scanned, ids)) }
            }, list))
          assert.isDefined(certificate)
          assert.deepStrictEqual([differences, calls], [[], 2], member)
        }
        // A difference that stays is reported.
        const { differences } = yield* withOpened(folder, (opened) =>
          verify({
            ...opened,
            rows: (of, after, count) =>
              Effect.map(opened.rows(of, after, count), (rows) => rows.filter(({ id }) => id !== "por_2"))
          }, list))
        assert.isAbove(differences.length, 0)
      }).pipe(Effect.scoped))

    describe("of a field that a newer version counts as personal", () => {
      const target = "payoutTargetId"
      /** The stored form of a rule of a version that counted the field as nobody's. */
      const earlier = (rule: PersonalRule, classes: Classes = { [classKey(list, [target])]: "nobody" }) =>
        JSON.stringify({
          version: 2,
          preset: rule.preset,
          undocumented: rule.undocumented,
          fields: rule.fields,
          documented: {},
          classes: { ...currentClasses, ...classes }
        })
      const storeRule = (folder: string, rule: string) =>
        withOpened(
          folder,
          ({ redact }) =>
            redact((statements) => Effect.flatMap(statements.state, (state) => statements.setState({ ...state, rule })))
        )
      const withTarget = (text: string) => text.replace(/^{/, `{"${target}":"target-x",`)
      const omit: PersonalRule = { ...keepAll, preset: "omit", undocumented: "omit", key }
      const refusalOf = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.map(Effect.flip(effect), (error) => error instanceof SinkError ? error.message : String(error))

      it.live("a rewrite is required, and removes it everywhere", () =>
        Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const kept = { ...omit, fields: { [target]: "keep" } } as const
          const records = Array.from({ length: 30 }, (_, index) => withTarget(payout(index, "cust-1-x")))
          yield* run(folder, records, kept)
          yield* run(folder, records.with(1, withTarget(payout(1, "cust-1-x", 500))), kept)
          for (let times = 0; times < 2; times++) yield* run(folder, records.slice(0, 28), kept)
          yield* storeRule(folder, earlier(omit))
          assert.match(
            yield* refusalOf(run(folder, records, omit)),
            /counts as personal: payoutTargetId\. Remove them .*payments rewrite/
          )
          const preview = yield* withOpened(folder, (opened) => previewRewrite(opened, omit))
          assert.deepInclude(preview, { same: false, fields: [{ field: target, from: "keep", to: "omit" }] })
          assert.notStrictEqual(preview.from, preview.to)
          assert.isTrue((yield* destination.content(folder)).includes("target-x"))
          const rewritten = yield* withOpened(folder, (opened) => rewrite(opened, { rule: omit }))
          assert.deepInclude(rewritten, { records: 30, from: preview.from, to: preview.to })
          assert.isFalse((yield* destination.content(folder)).includes("target-x"))
          assert.isUndefined(yield* withOpened(folder, (opened) => rewrite(opened, { rule: omit })))
          yield* run(folder, records, omit)
          assert.isFalse((yield* destination.content(folder)).includes("target-x"))
          yield* assertVerified(folder)
        }).pipe(Effect.scoped))

      it.live.each(["rewritten", "erased again"])(
        "erased records lose it when the destination is %s, and exports are refused until a rewrite",
        (how) =>
          Effect.gen(function*() {
            const folder = yield* temporaryFolder
            const keep = { ...keepAll, key }
            // What the earlier version left of the records of an erased person.
            const erased = (index: number, amount = index) =>
              withTarget(`{"id":"por_${index}","amount":${amount},"status":"processing"}`)
            const records = Array.from({ length: 30 }, (_, index) =>
              index < 10 ? erased(index) : withTarget(payout(index, "cust-2-x")))
            yield* run(folder, records)
            yield* run(folder, records.with(1, erased(1, 500)))
            for (let times = 0; times < 2; times++) {
              yield* run(folder, records.toSpliced(2, 1))
            }
            yield* withOpened(folder, ({ redact }) =>
              redact(Effect.fnUntraced(function*(statements) {
                const state = yield* statements.state
                yield* statements.setState({ ...state, rule: earlier(keepAll), keyCheck: keyCheck(key) })
                const ids = Array.from({ length: 10 }, (_, index) =>
                  hashOfRecord(key, list, `por_${index}`))
                yield* statements.suppress(ids, 1)
              })))
            const refusal = /counts as personal: payoutTargetId\./
            assert.match(yield* refusalOf(run(folder, records, keep)), refusal)
            const texts = withOpened(folder, (opened) =>
              Effect.gen(function*() {
                const rows = yield* opened.rows(list, -1, 100)
                const changes = yield* opened.changes(0, 1000, [list])
                return [
                  ...rows.map(({ id, raw }) => ({ id, text: raw })),
                  ...changes.map(({ after = "", before = "", id }) => ({ id, text: `${before}${after}` }))
                ]
              }))
            const leftOf = (all: Effect.Success<typeof texts>) => (isErased: boolean) =>
              all.filter(({ id, text }) => (Number(id.slice(4)) < 10) === isErased && text.includes("target-x")).length
            assert.isAbove(leftOf(yield* texts)(true), 10)
            if (how === "erased again") {
              const criteria = [criterion("customer-id", "cust-1-x")]
              const [previewed] = yield* withOpened(folder, (opened) => previewErasure(opened, { criteria, key }))
              assert.strictEqual(previewed?.records, 10)
              yield* withOpened(folder, (opened) => erase(opened, { criteria, key, by: "tester" }))
              assert.strictEqual(leftOf(yield* texts)(true), 0)
              assert.match(yield* refusalOf(run(folder, records, keep)), refusal)
            }
            const preview = yield* withOpened(folder, (opened) => previewRewrite(opened, keep))
            assert.deepInclude(preview, { same: false, fields: [], erasedFields: [target] })
            yield* withOpened(folder, (opened) => rewrite(opened, { rule: keep }))
            assert.strictEqual(leftOf(yield* texts)(true), 0)
            assert.isAtLeast(leftOf(yield* texts)(false), 20)
            yield* run(folder, records, keep)
            assert.strictEqual(leftOf(yield* texts)(true), 0)
            yield* assertVerified(folder)
          }).pipe(Effect.scoped)
      )

      it.live("the rule is stored again with the first commit of a version that documents more fields", () =>
        Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const records = Array.from({ length: 30 }, (_, index) => payout(index, "cust-1-x"))
          yield* run(folder, records, omit)
          const { [classKey(list, [target])]: _, ...classes } = currentClasses
          yield* storeRule(folder, JSON.stringify({ ...JSON.parse(earlier(omit)), classes }))
          yield* run(folder, records.map(withTarget), omit)
          const { edition, rule } = yield* withOpened(folder, ({ personal }) => personal)
          assert.deepStrictEqual([rule, edition], [toStored(omit), 0])
        }).pipe(Effect.scoped))
    })

    it.live("keeps the rows, the points and the missing marks that it does not concern", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        const eraseCustomer = (customer: string) =>
          withOpened(folder, (opened) =>
            erase(opened, { criteria: [criterion("customer-id", customer)], key, by: "tester" }))
        const missing = withOpened(folder, (opened) =>
          Effect.map(opened.rows(list, -1, 100), (rows) =>
            rows.flatMap(({ id, missingSince }) =>
              missingSince === undefined ? [] : [id]
            )))
        yield* run(folder, records)
        yield* run(folder, records.slice(0, 28).with(1, payout(1, "cust-1-x", 500)))
        assert.deepStrictEqual(yield* missing, [])
        yield* eraseCustomer("cust-0-x")
        // The second complete scan in a row without these records.
        yield* run(folder, records.slice(0, 28))
        assert.deepStrictEqual(yield* missing, ["por_28", "por_29"])
        yield* eraseCustomer("cust-1-x")
        assert.deepStrictEqual(yield* missing, ["por_28", "por_29"])
        yield* assertVerified(folder)
        yield* Effect.scoped(Effect.gen(function*() {
          const snapshot = yield* destination.snapshot(folder)
          const { last } = yield* snapshot.changeRange
          const changes = yield* withOpened(folder, (opened) =>
            opened.changes(0, 100, [list]))
          const markedAt = changes.find(({ id, kind }) =>
            id === "por_28" && kind === "missing"
          )?.seq ?? Infinity
          // A point between two changes of one transaction, too.
          for (let at = 0; at <= last; at++) {
            const point = yield* pointAt(snapshot, at, [list])
            const [row, updated] = yield* point.rows(list, ["por_28", "por_1"])
            assert.isFalse(JSON.stringify([row, updated]).includes("cust-1-x"))
            assert.strictEqual(row?.missing, at >= markedAt, String(at))
          }
          assert.isAbove(last, markedAt)
        }))
        // Returned again, the erased record is no longer missing, and stays a tombstone.
        yield* run(folder, records)
        assert.deepStrictEqual(yield* missing, [])
        assert.isFalse((yield* destination.content(folder)).includes("cust-1-x"))
        yield* assertVerified(folder)
      }).pipe(Effect.scoped))

    it.live("finds a person whatever the spelling, the type or the pseudonym of the value, and only them", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const texts = [
          `{"id":"a","customerId":"\\u0063ust-é","extra":"private a"}`,
          `{"id":"b","customerDetails":{"documentNumber":1234567},"extra":"private b"}`,
          `{"id":"c","customerId":"other","customerId":"cust-é","amount":"private c"}`,
          `{"id":"d","customerId":"x","extra":"about cust-é and 1234567"}`,
          `{"id":"e","customerId":"cust-éé","customerDetails":{"documentNumber":"12345678"}}`
        ]
        const criteria = [criterion("customer-id", "cust-é"), criterion("document-number", "1234567")]
        yield* run(folder, texts)
        const found = yield* withOpened(folder, (opened) => erase(opened, { criteria, key, by: "tester" }))
        assert.deepStrictEqual(found.map(({ quarantined, records }) => [records, quarantined]), [[2, 1], [1, 1]])
        const content = yield* destination.content(folder)
        for (const letter of "abc") assert.isFalse(content.includes(`private ${letter}`))
        assert.isTrue(content.includes("about cust-é") && content.includes("cust-éé"))
        yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize }))
        const criteriaLater = [criterion("customer-id", "cust-éé")]
        assert.isTrue((yield* destination.content(folder)).includes(pseudonym(key, "cust-éé")))
        const [later] = yield* withOpened(
          folder,
          (opened) => erase(opened, { criteria: criteriaLater, key, by: "tester" })
        )
        assert.strictEqual(later?.records, 1)
        assert.isFalse((yield* destination.content(folder)).includes(pseudonym(key, "cust-éé")))
        yield* assertVerified(folder)
      }).pipe(Effect.scoped))

    it.live("replaces no pseudonym again with the same key, even if a rule has kept the values meanwhile", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const otherKey = Redacted.make(new TextEncoder().encode("another key, of 32 characters too"))
        const customers: PersonalRule = { ...keepAll, fields: { customerId: "pseudonymize" }, key }
        yield* run(folder, [payout(0, "cust-a"), payout(1, "cust-b")], customers)
        const rewritten = (rule: PersonalRule) => withOpened(folder, (opened) => rewrite(opened, { rule }))
        const erased = (customer: string, by: typeof key) =>
          withOpened(
            folder,
            (opened) =>
              Effect.result(erase(opened, { criteria: [criterion("customer-id", customer)], key: by, by: "tester" }))
          )
        yield* rewritten({ ...keepAll, key })
        // The rows get the values again and another person. The changes have the pseudonyms.
        yield* run(folder, [payout(0, "cust-c"), payout(1, "cust-d")], { ...keepAll, key })
        assert.strictEqual((yield* erased("cust-a", otherKey))._tag, "Failure")
        yield* rewritten(customers)
        const content = yield* destination.content(folder)
        for (const customer of ["cust-a", "cust-b", "cust-c", "cust-d"]) {
          assert.include(content, pseudonym(key, customer))
          assert.notInclude(content, pseudonym(key, pseudonym(key, customer)))
        }
        // An earlier version forgot the key under the rule that keeps the values, and replaced the pseudonyms again.
        yield* rewritten({ ...keepAll, key })
        yield* withOpened(
          folder,
          (opened) =>
            opened.redact((statements) =>
              Effect.flatMap(statements.state, (state) => statements.setState({ ...state, keyCheck: undefined }))
            )
        )
        yield* rewritten(customers)
        assert.include(yield* destination.content(folder), pseudonym(key, pseudonym(key, "cust-a")))
        assert.strictEqual((yield* erased("cust-a", key))._tag, "Success")
        assert.notInclude(yield* destination.content(folder), pseudonym(key, pseudonym(key, "cust-a")))
        yield* assertVerified(folder)
      }).pipe(Effect.scoped))

    it.live("replaces all pseudonyms if the key is another one, and forgets the key when no person is left", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const otherKey = Redacted.make(new TextEncoder().encode("another key, of 32 characters too"))
        yield* run(folder, [payout(0, "cust-a"), payout(1, "cust-b")], pseudonymize)
        const rewritten = (rule: PersonalRule) => withOpened(folder, (opened) => rewrite(opened, { rule }))
        const keyChecked = () => withOpened(folder, (opened) => Effect.map(opened.personal, (state) => state.keyCheck))
        yield* rewritten({ ...pseudonymize, key: otherKey })
        const content = yield* destination.content(folder)
        assert.include(content, pseudonym(otherKey, pseudonym(key, "cust-a")))
        assert.notInclude(content, pseudonym(key, "cust-a"))
        yield* rewritten({ ...keepAll, preset: "omit", fields: { customerId: "keep" } })
        assert.strictEqual(yield* keyChecked(), keyCheck(otherKey))
        yield* rewritten({ ...keepAll, preset: "omit" })
        assert.isUndefined(yield* keyChecked())
        yield* assertVerified(folder)
      }).pipe(Effect.scoped))

    it.live("completes a rewrite before anything else, and refuses another key while persons are suppressed", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const otherKey = Redacted.make(new TextEncoder().encode("another key, of 32 characters too"))
        yield* run(folder, Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`)))
        const erased = (customer: string, by = key) =>
          withOpened(
            folder,
            (opened) =>
              Effect.result(erase(opened, { criteria: [criterion("customer-id", customer)], key: by, by: "tester" }))
          )
        const rewritten = (rule: PersonalRule, transactions = 1000) =>
          withOpened(folder, (opened) => {
            let left = transactions
            const redact: Maintenance["redact"] = (body) => left-- > 0 ? opened.redact(body) : Effect.interrupt
            return Effect.exit(rewrite({ ...opened, redact }, { rule }))
          })
        assert.strictEqual((yield* erased("cust-0-x"))._tag, "Success")
        const reasonOf = (result: unknown) => /(?:OtherRule|WrongSetting)/.exec(JSON.stringify(result))?.[0]
        assert.strictEqual(reasonOf(yield* erased("cust-1-x", otherKey)), "WrongSetting")
        const previewedErasure = (by = key) =>
          withOpened(
            folder,
            (opened) =>
              Effect.result(previewErasure(opened, { criteria: [criterion("customer-id", "cust-1-x")], key: by }))
          )
        assert.strictEqual(reasonOf(yield* previewedErasure(otherKey)), "WrongSetting")
        assert.strictEqual((yield* previewedErasure())._tag, "Success")
        assert.strictEqual(reasonOf(yield* rewritten({ ...pseudonymize, key: otherKey })), "WrongSetting")
        assert.strictEqual((yield* rewritten(pseudonymize, 2))._tag, "Failure")
        assert.strictEqual(reasonOf(yield* erased("cust-1-x")), "OtherRule")
        assert.strictEqual(reasonOf(yield* previewedErasure()), "OtherRule")
        const omit: PersonalRule = { ...pseudonymize, preset: "omit" }
        assert.strictEqual(reasonOf(yield* rewritten(omit)), "WrongSetting")
        const previewed = (rule: PersonalRule) =>
          withOpened(folder, (opened) => Effect.result(previewRewrite(opened, rule)))
        assert.strictEqual(reasonOf(yield* previewed(omit)), "WrongSetting")
        assert.strictEqual(reasonOf(yield* previewed({ ...pseudonymize, key: otherKey })), "WrongSetting")
        const preview = yield* previewed(pseudonymize)
        assert.isTrue(Result.isSuccess(preview) && preview.success.unfinished && !preview.success.same)
        assert.strictEqual(reasonOf(yield* Effect.result(run(folder, [], pseudonymize))), "OtherRule")
        assert.strictEqual((yield* rewritten(pseudonymize))._tag, "Success")
        const [complete] = yield* withOpened(folder, (opened) => opened.scans(list, ""))
        assert.strictEqual(Certificate.ofScan(complete)?.rule, nameOf(pseudonymize))
        yield* assertVerified(folder)
      }).pipe(Effect.scoped))

    it.live("erases the value of a part, and stores none that the rule does not keep", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
        const runPart = (customer: string, personal: PersonalRule) =>
          scanParts("payoutRequests", { personal, field: "customerId", values: [customer] }).pipe(
            Effect.provide(Layer.merge(destination.layer(folder), layerTest({ payoutRequests: records }))),
            Effect.result
          )
        assert.strictEqual((yield* runPart("cust-0-x", { ...keepAll, key }))._tag, "Success")
        assert.strictEqual((yield* runPart("cust-1-x", { ...keepAll, key }))._tag, "Success")
        yield* withOpened(
          folder,
          (opened) => erase(opened, { criteria: [criterion("customer-id", "cust-0-x")], key, by: "tester" })
        )
        assert.isFalse((yield* destination.content(folder)).includes("cust-0-x"))
        assert.include(JSON.stringify(yield* runPart("cust-0-x", { ...keepAll, key })), "WrongSetting")
        yield* withOpened(folder, (opened) => rewrite(opened, { rule: pseudonymize }))
        assert.include(JSON.stringify(yield* runPart("cust-1-x", pseudonymize)), "WrongSetting")
        const content = yield* destination.content(folder)
        assert.isFalse(content.includes("cust-1-x"))
        assert.isTrue(content.includes(pseudonym(key, "cust-1-x")))
      }).pipe(Effect.scoped))

    it.live.each(["an erasure", "a rewrite"])(
      "stays right if prune removes missing rows during %s",
      (kind) =>
        Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const records = Array.from({ length: 30 }, (_, index) => payout(index, `cust-${index % 3}-x`))
          yield* run(folder, records)
          // Every second record of the person is missing afterwards.
          const returned = records.filter((_, index) => index % 6 !== 1)
          for (let time = 0; time < 2; time++) yield* run(folder, returned)
          const removed = yield* withOpened(
            folder,
            Effect.fnUntraced(function*(opened) {
              let transactions = 0
              let rows = 0
              const redact: Maintenance["redact"] = (body) =>
                Effect.suspend(() =>
                  ++transactions === 2
                    ? Effect.map(
                      prune(opened, { keepMissing: Duration.zero }),
                      (pruned) => void (rows = pruned.rows.removed)
                    )
                    : Effect.void
                ).pipe(Effect.andThen(opened.redact(body)))
              const during = { ...opened, redact }
              if (kind === "a rewrite") {
                yield* rewrite(during, { rule: pseudonymize })
              } else {
                const criteria = [criterion("customer-id", "cust-1-x")]
                assert.strictEqual((yield* erase(during, { criteria, key, by: "tester" }))[0]?.records, 5)
              }
              return rows
            })
          )
          assert.strictEqual(removed, 5)
          yield* assertVerified(folder)
          assert.isFalse((yield* destination.content(folder)).includes("cust-1-x"))
          // Returned again, the records are inserted after the rule and without the person.
          const again = yield* run(folder, records, kind === "a rewrite" ? pseudonymize : undefined)
          assert.deepInclude(again, { inserted: 5, unchanged: 25, missing: 0 })
          yield* assertVerified(folder)
          assert.isFalse((yield* destination.content(folder)).includes("cust-1-x"))
        }).pipe(Effect.scoped)
    )

    it.live("lets erasures and an export run at the same time", () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const records = Array.from({ length: 60 }, (_, index) => payout(index, `cust-${index % 6}-x`))
        yield* run(folder, records)
        const customers = [0, 1, 2, 3].map((number) => `cust-${number}-x`)
        yield* Effect.all([
          ...customers.map((customer) =>
            withOpened(folder, (opened) =>
              erase(opened, { criteria: [criterion("customer-id", customer)], key, by: "tester" }))
          ),
          Effect.forEach(
            [1, 2, 3],
            (time) =>
              run(folder, records.map((_, index) => payout(index, `cust-${index % 6}-x`, index + time)))
          )
        ], { concurrency: "unbounded" })
        yield* assertVerified(folder)
        // A log that another connection has written since may have an old copy.
        yield* withOpened(folder, ({ wipe }) => wipe)
        const content = yield* destination.content(folder)
        for (const customer of customers) assert.isFalse(content.includes(customer))
        assert.isTrue(content.includes("cust-4-x"))
      }).pipe(Effect.scoped))
  })
}
