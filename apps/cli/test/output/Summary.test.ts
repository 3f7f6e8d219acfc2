/** The summary of an export: its figures, its notes and its problems. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest, type TestLists } from "@payments/core/testing"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { runInProcess } from "../program/InProcess.ts"

/** The notes of the summary on the invoices. */
const notesIn = (out: string) => out.split("\n").filter((line) => line.startsWith("invoices: "))

const records = Array.from({ length: 350 }, (_, index) => ({ id: `inv_${index}` }))
type Faults = NonNullable<TestLists["faults"]>

describe("the summary of an export", () => {
  it.live("has one line per list if the terminal is wide enough, otherwise one line per figure", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const undocumented = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`undocumented${index}`, index]))
      const api = layerTest({ invoices: records, payinSources: [{ id: "a", ...undocumented }] })
      const figures = (width: number) =>
        Effect.map(
          runInProcess(api, ["export", "--to", `sqlite:${folder}/${width}.db`], true, width),
          ({ out }) => out.split("\n").slice(0, out.split("\n").findIndex((line) => line.startsWith("Rows:")))
        )
      const wide = yield* figures(80)
      assert.match(wide.join("\n"), /^ +records +new .*seconds\npayout-requests +0 .*\n.*\ninvoices +350 +350 /)
      const narrow = yield* figures(60)
      assert.match(narrow[0] ?? "", /^ +payout-requests +payin-sources +invoices$/)
      assert.match(narrow[1] ?? "", /^records +0 +1 +350$/)
      assert.deepStrictEqual(narrow.filter((line) => line.length > 60), [])
    }).pipe(Effect.scoped))

  it.live("reports the page at which an interrupted scan resumed, or why it started from the first page", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const run = (faults: Faults = [], ...flags: ReadonlyArray<string>) =>
        Effect.map(
          runInProcess(layerTest({ invoices: records, faults }), ["export", "invoices", "--to", to, ...flags]),
          ({ code, out }) => [code, ...notesIn(out)]
        )
      /** Faults that end a run at its third page, and at its first. */
      const [stopLater, stopAtOnce] = [
        [{ fault: "status", status: 401, pages: "later", nth: 2 }],
        [{ fault: "status", status: 401 }]
      ] as const
      const other = ["--ignore-field", "authUrl"]
      const otherRequest =
        "invoices: started from the first page: since the interrupted run, the limit, the parameter names or the ignored fields changed, the list was exported in another way (in parts, or as a whole), or personal data was erased or rewritten"
      const resumed =
        "invoices: resumed where an earlier run was interrupted, at page 3, after 200 records; retries and seconds are those of this run only"

      assert.deepStrictEqual(yield* run([...stopAtOnce]), [4])
      assert.deepStrictEqual(yield* run(), [0])
      assert.deepStrictEqual(yield* run(), [0])
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      assert.deepStrictEqual(yield* run([...stopAtOnce]), [
        4,
        "invoices: resumed where an earlier run was interrupted, at page 3, after 200 records"
      ])
      assert.deepStrictEqual(yield* run(), [0, resumed])
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      assert.deepStrictEqual(yield* run([], ...other), [0, otherRequest])
      // A run that receives no page changes nothing.
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      assert.deepStrictEqual(yield* run([...stopAtOnce], ...other), [4, otherRequest])
      assert.deepStrictEqual(yield* run(), [0, resumed])
      // Here the run in between has another request.
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      assert.deepStrictEqual(yield* run([...stopLater], ...other), [4, otherRequest])
      assert.deepStrictEqual(yield* run(), [0, otherRequest])
      const overtaken =
        "invoices: started from the first page: since the interrupted run, the list was exported in another way (in parts, or as a whole)"
      const part = ["--settlement-dates", "2024-05-01..2024-05-01"]
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      yield* run([], ...part)
      assert.deepStrictEqual(yield* run(), [0, overtaken])
      // The reason of the run in between is not reported for this run.
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      yield* run([], ...part)
      assert.deepStrictEqual(yield* run([...stopAtOnce]), [4, overtaken])
      assert.deepStrictEqual(yield* run(), [0, overtaken])
      assert.deepStrictEqual(yield* run([{ fault: "envelope", member: "cursor", nth: 2 }]), [8])
      assert.deepStrictEqual(yield* run(), [
        0,
        "invoices: started from the first page: the previous scan could not reach the end of the list"
      ])
      assert.deepStrictEqual(yield* run([...stopLater]), [4])
      assert.deepStrictEqual(yield* run([{ fault: "status", status: 410, pages: "later", times: 1 }]), [
        0,
        resumed,
        "invoices: started again from the first page, once: the service refused a cursor or repeated one"
      ])
    }).pipe(Effect.scoped))

  it.live("reports how many parts of a list resumed", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const days = ["2024-05-01", "2024-05-02"]
      const invoices = days.flatMap((day) =>
        records.slice(0, 150).map(({ id }) => ({ id: `${day}-${id}`, settlementDate: day }))
      )
      const run = (faults: Faults) =>
        Effect.map(
          runInProcess(layerTest({ invoices, faults }), [
            "export",
            "invoices",
            "--to",
            to,
            "--settlement-dates",
            days.join(".."),
            "--concurrency",
            "1"
          ]),
          ({ code, out }) => [code, ...notesIn(out)]
        )
      const parts = "invoices: 2 parts; records outside these parts were not read, and no record was marked missing"
      assert.deepStrictEqual(yield* run([{ fault: "status", status: 401, pages: "later" }]), [4])
      assert.deepStrictEqual(yield* run([]), [
        0,
        "invoices: 1 part resumed where an earlier run was interrupted, after 100 records; retries and seconds are those of this run only",
        parts
      ])
    }).pipe(Effect.scoped))

  it.live("has no notes after an ordinary first or later scan", () =>
    Effect.gen(function*() {
      const args = ["export", "--to", `sqlite:${yield* temporaryFolder}/p.db`]
      const api = layerTest({ invoices: records })
      const figures = / +records .*\npayout-requests .*\npayin-sources .*\ninvoices .*\n/.source
      for (let times = 0; times < 2; times++) {
        assert.match((yield* runInProcess(api, args)).out, new RegExp(`^${figures}Rows: sqlite:.*\n$`))
      }
      const { out } = yield* runInProcess(
        layerTest({ invoices: records, faults: [{ fault: "status", status: 503, nth: 2 }] }),
        args
      )
      assert.match(
        out,
        new RegExp(`^${figures}retries: requests that failed and were sent again; no record was lost\nRows: .*\n$`)
      )
    }).pipe(Effect.scoped))

  it.live("prints the problems last, with the command that lists the records", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/it's p.db`
      const wrong = [`{"id":"a","amount":"1,50"}`, ...records.slice(0, 150)]
      const faults = [{ fault: "status", status: 401, list: "payinSources" }] as const
      const { code, merged } = yield* runInProcess(layerTest({ invoices: wrong, faults: [...faults] }), [
        "export",
        "--to",
        to
      ])
      assert.strictEqual(code, 4)
      const [rows, quarantined, refused, ...more] = merged.split("\n").slice(-4)
      const from = `'${to.replaceAll("'", "'\\''")}'`
      assert.deepStrictEqual([rows, quarantined, ...more], [
        `Rows: ${to}`,
        `payments: invoices: records that do not match the document: 1; list them with: payments quarantine --from ${from}`,
        ""
      ])
      assert.match(refused ?? "", /^payments: payin-sources: not authorized: the service did not accept the key /)
    }).pipe(Effect.scoped))

  it.live("reports the number of texts that a column cannot store, only in the scan that writes them", () =>
    Effect.gen(function*() {
      const args = ["export", "invoices", "--to", `sqlite:${yield* temporaryFolder}/p.db`]
      const api = layerTest({
        invoices: [
          String.raw`{"id":"a","reference":"\u0000","contract":"\ud800"}`,
          String.raw`{"id":"b","reference":"\ud83d\ude00","other":"\u0000"}`
        ]
      })
      const note =
        "invoices: 2 texts with characters that some databases cannot store: U+FFFD replaces them in the columns, raw is unchanged\n"
      assert.include((yield* runInProcess(api, args)).out, note)
      assert.notInclude((yield* runInProcess(api, args)).out, "U+FFFD")
    }).pipe(Effect.scoped))
})
