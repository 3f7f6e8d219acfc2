/** What the summary of an export says beside its figures. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest, type TestLists } from "@payments/core/testing"
import { Effect } from "effect"
import { payment } from "./InProcess.ts"
import { temporaryFolder } from "./Program.ts"

/** Notes of the summary, without figures. */
const notesIn = (out: string) => out.split("\n").filter((line) => line.startsWith("invoices: "))

const records = Array.from({ length: 350 }, (_, index) => ({ id: `inv_${index}` }))
type Faults = NonNullable<TestLists["faults"]>

describe("the summary of an export", () => {
  it.live("has a line a list where the terminal is wide enough, and else a line a figure", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const api = layerTest({ invoices: records, payinSources: [{ id: "a" }] })
      const figures = (width: number) =>
        Effect.map(
          payment(api, ["export", "--to", `sqlite:${folder}/${width}.db`], true, width),
          ({ out }) => out.split("\n").slice(0, out.split("\n").findIndex((line) => line.startsWith("Rows:")))
        )
      const wide = yield* figures(80)
      assert.match(wide.join("\n"), /^ +records +new .*seconds\npayout-requests +0 .*\n.*\ninvoices +350 +350 /)
      const narrow = yield* figures(60)
      assert.match(narrow[0] ?? "", /^ +payout-requests +payin-sources +invoices$/)
      assert.match(narrow[1] ?? "", /^records +0 +1 +350$/)
      assert.deepStrictEqual(narrow.filter((line) => line.length > 60), [])
    }).pipe(Effect.scoped))

  it.live("tells whether a scan went on with an earlier one, from where, or why not", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const run = (faults: Faults = [], ...flags: ReadonlyArray<string>) =>
        Effect.map(
          payment(layerTest({ invoices: records, faults }), ["export", "invoices", "--to", to, ...flags]),
          ({ code, out }) => [code, ...notesIn(out)]
        )
      /** Cut on its third page; on its first one. */
      const [cut, cutAtOnce] = [
        [{ fault: "status", status: 401, pages: "later", nth: 2 }],
        [{ fault: "status", status: 401 }]
      ] as const
      const other = ["--ignore-field", "authUrl"]
      const anew =
        "invoices: began anew: since an earlier run was cut, another limit, other parameter names or other ignored fields were asked for, or another cut of the list was written"
      const resumed =
        "invoices: went on where an earlier run was cut, at page 3, after 200 records; retries and seconds are this run's"

      assert.deepStrictEqual(yield* run([...cutAtOnce]), [4])
      assert.deepStrictEqual(yield* run(), [0])
      assert.deepStrictEqual(yield* run(), [0])
      assert.deepStrictEqual(yield* run([...cut]), [4])
      assert.deepStrictEqual(yield* run([...cutAtOnce]), [
        4,
        "invoices: went on where an earlier run was cut, at page 3, after 200 records"
      ])
      assert.deepStrictEqual(yield* run(), [0, resumed])
      assert.deepStrictEqual(yield* run([...cut]), [4])
      assert.deepStrictEqual(yield* run([], ...other), [0, anew])
      // A run in between that no page came for leaves nothing behind.
      assert.deepStrictEqual(yield* run([...cut]), [4])
      assert.deepStrictEqual(yield* run([...cutAtOnce], ...other), [4, anew])
      assert.deepStrictEqual(yield* run(), [0, resumed])
      // Here it is the run in between that asked otherwise.
      assert.deepStrictEqual(yield* run([...cut]), [4])
      assert.deepStrictEqual(yield* run([...cut], ...other), [4, anew])
      assert.deepStrictEqual(yield* run(), [0, anew])
      const overtaken =
        "invoices: began anew: since an earlier run was cut, another cut of the list was written (parts, or for a part the whole list)"
      const part = ["--settlement-dates", "2024-05-01..2024-05-01"]
      assert.deepStrictEqual(yield* run([...cut]), [4])
      yield* run([], ...part)
      assert.deepStrictEqual(yield* run(), [0, overtaken])
      // Nor is the reason of a run in between taken for this one's.
      assert.deepStrictEqual(yield* run([...cut]), [4])
      yield* run([], ...part)
      assert.deepStrictEqual(yield* run([...cutAtOnce]), [4, overtaken])
      assert.deepStrictEqual(yield* run(), [0, overtaken])
      assert.deepStrictEqual(yield* run([{ fault: "envelope", member: "cursor", nth: 2 }]), [8])
      assert.deepStrictEqual(yield* run(), [
        0,
        "invoices: began anew: the scan before could not reach the end of the list"
      ])
      assert.deepStrictEqual(yield* run([...cut]), [4])
      assert.deepStrictEqual(yield* run([{ fault: "status", status: 410, pages: "later", times: 1 }]), [
        0,
        resumed,
        "invoices: began at the first page again, once: a cursor was refused or led in circles"
      ])
    }).pipe(Effect.scoped))

  it.live("tells of the parts of a list how many went on", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      const days = ["2024-05-01", "2024-05-02"]
      const invoices = days.flatMap((day) =>
        records.slice(0, 150).map(({ id }) => ({ id: `${day}-${id}`, settlementDate: day }))
      )
      const run = (faults: Faults) =>
        Effect.map(
          payment(layerTest({ invoices, faults }), [
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
      const parts = "invoices: 2 parts; what is in none of them was not read, and nothing is concluded missing"
      assert.deepStrictEqual(yield* run([{ fault: "status", status: 401, pages: "later" }]), [4])
      assert.deepStrictEqual(yield* run([]), [
        0,
        "invoices: 1 part went on where an earlier run was cut, after 100 records; retries and seconds are this run's",
        parts
      ])
    }).pipe(Effect.scoped))

  it.live("gives every line but the figures a reason: none for an ordinary first or later scan", () =>
    Effect.gen(function*() {
      const args = ["export", "--to", `sqlite:${yield* temporaryFolder}/p.db`]
      const api = layerTest({ invoices: records })
      const figures = / +records .*\npayout-requests .*\npayin-sources .*\ninvoices .*\n/.source
      for (let times = 0; times < 2; times++) {
        assert.match((yield* payment(api, args)).out, new RegExp(`^${figures}Rows: sqlite:.*\n$`))
      }
      const { out } = yield* payment(
        layerTest({ invoices: records, faults: [{ fault: "status", status: 503, nth: 2 }] }),
        args
      )
      assert.match(
        out,
        new RegExp(`^${figures}retries: requests that failed and were sent again; no record was lost\nRows: .*\n$`)
      )
    }).pipe(Effect.scoped))

  it.live("says last what went wrong, with the command that lists it", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/it's p.db`
      const wrong = [`{"id":"a","amount":"1,50"}`, ...records.slice(0, 150)]
      const faults = [{ fault: "status", status: 401, list: "payinSources" }] as const
      const { code, merged } = yield* payment(layerTest({ invoices: wrong, faults: [...faults] }), [
        "export",
        "--to",
        to
      ])
      assert.strictEqual(code, 4)
      const [rows, quarantined, refused, ...more] = merged.split("\n").slice(-4)
      const from = `'${to.replaceAll("'", "'\\''")}'`
      assert.deepStrictEqual([rows, quarantined, ...more], [
        `Rows: ${to}`,
        `payments: invoices: not as documented: 1 record, listed by: payments quarantine --from ${from}`,
        ""
      ])
      assert.match(refused ?? "", /^payments: payin-sources: not authorized: the service did not accept the key /)
    }).pipe(Effect.scoped))

  it.live("tells how many texts a column could not hold, once for each scan", () =>
    Effect.gen(function*() {
      const args = ["export", "invoices", "--to", `sqlite:${yield* temporaryFolder}/p.db`]
      const api = layerTest({
        invoices: [
          String.raw`{"id":"a","reference":"\u0000","contract":"\ud800"}`,
          String.raw`{"id":"b","reference":"\ud83d\ude00","other":"\u0000"}`
        ]
      })
      const said =
        "invoices: 2 texts with characters that not every database takes: U+FFFD stands for them in the columns, raw has them as they are\n"
      assert.include((yield* payment(api, args)).out, said)
      assert.notInclude((yield* payment(api, args)).out, "U+FFFD")
    }).pipe(Effect.scoped))
})
