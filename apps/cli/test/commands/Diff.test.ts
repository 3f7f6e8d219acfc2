import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { once } from "node:events"
import { runInProcess } from "../program/InProcess.ts"

const emptyApi = layerTest()

const invoice = (id: string, members: string) => `{"id":"${id}","settlementDate":"2024-05-01",${members}}`

const before = [
  invoice("a", `"status":"paid","amount":9007199254740991,"reference":"x"`),
  invoice("b", `"status":"paid","amount":2`),
  invoice("c", `"status":"paid","amount":3`)
]
const after = [
  invoice("a", `"status":"paid","amount":9007199254740990,"reference":null`),
  invoice("b", `"status":"paid","amount":2`),
  invoice("c", `"status":"paid","amount":3,"description":"=1+1,\\u001b[31m"`),
  invoice("d", `"amount":4`)
]

/** Exports one state after the other. Returns the destination and a function that runs `payments diff`. */
const exported = Effect.fnUntraced(function*(kind: string, ...states: ReadonlyArray<ReadonlyArray<string>>) {
  const folder = yield* temporaryFolder
  const to = kind.replace(":", `:${folder}/`)
  for (const invoices of states) yield* runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", to])
  return to
})

const diff = (...args: ReadonlyArray<string>) => runInProcess(emptyApi, ["diff", ...args])

describe("payments diff", () => {
  it.live("prints totals first, then the members of each record, and exits with code 11", () =>
    Effect.gen(function*() {
      const a = yield* exported("sqlite:a.db", before)
      const b = yield* exported("file:b?format=csv", after)
      const table = yield* runInProcess(emptyApi, ["diff", a, b], true, 40)
      assert.strictEqual(table.code, 11)
      // The line of progress is erased before anything is printed, and at the end.
      assert.include(table.err, "invoices  totals")
      // oxlint-disable-next-line no-control-regex -- erases a line
      assert.match(table.merged, /totals(\r\u001b\[K[^\n]*)*\r\u001b\[K\n?Totals that differ/)
      assert.isTrue(table.err.endsWith("\r\u001b[K"))
      assert.strictEqual(
        table.out.split("\n").slice(2).join("\n"),
        String.raw`
Totals that differ, A → B:
invoices  2024-05-01  NULL
  records             0 → 1 (+1)
  amount              0 → 4 (+4)
  paymentAmount null  0 → 1 (+1)
invoices  2024-05-01  paid
  amount  9,007,199,254,740,996
          → 9,007,199,254,740,995 (-1)

Records that differ, A → B:
invoices  a
  amount     9007199254740991
             → 9007199254740990
  reference  "x" → null
invoices  c
  description  (absent)
               → "=1+1,\u001b[31m"
invoices  d  only in B

payout-requests: equal, 0 records
payin-sources: equal, 0 records
invoices: 2 differ, 1 only in B (A has 3 records, B has 4)
`
      )
      const lines = (yield* diff(a, b, "--resource", "invoices")).out.trimEnd().split("\n")
      assert.deepStrictEqual(lines.slice(-5), [
        `{"type":"record","list":"invoices","id":"a","change":"differs","member":"amount","a":9007199254740991,"b":9007199254740990,"schemaVersion":1}`,
        `{"type":"record","list":"invoices","id":"a","change":"differs","member":"reference","a":"x","b":null,"schemaVersion":1}`,
        String
          .raw`{"type":"record","list":"invoices","id":"c","change":"differs","member":"description","b":"=1+1,\u001b[31m","schemaVersion":1}`,
        `{"type":"record","list":"invoices","id":"d","change":"only in B","member":"(record)","b":${
          after[3]
        },"schemaVersion":1}`,
        `{"type":"list","list":"invoices","equal":false,"recordsA":3,"recordsB":4,"onlyA":0,"onlyB":1,"differing":2,"schemaVersion":1}`
      ])
      const { out } = yield* diff(a, b, "--format", "json")
      assert.include(out, `"b":9007199254740990}`)
      const document = JSON.parse(out)
      assert.deepStrictEqual(
        [document.equal, document.complete, document.totals.length, document.records.length, document.lists.length],
        [false, true, 4, 4, 3]
      )
      const csv = (yield* diff(a, b, "--format", "csv")).out.split("\r\n")
      assert.deepStrictEqual([csv[0], csv[5], csv[7]], [
        "type,list,day,status,figure,id,change,member,a,b",
        "record,invoices,,,,a,differs,amount,9007199254740991,9007199254740990",
        String.raw`record,invoices,,,,c,differs,description,,"""=1+1,\u001b[31m"""`
      ])
    }).pipe(Effect.scoped))

  it.live("compares two points of one destination, and a point with now", () =>
    Effect.gen(function*() {
      const a = yield* exported("sqlite:a.db", before, after, before)
      const changed = (...args: ReadonlyArray<string>) =>
        Effect.map(diff(a, ...args, "--resource", "invoices", "--format", "json"), ({ code, out }) => ({
          code,
          ids: [...new Set(JSON.parse(out).records.map(({ id }: { readonly id: string }) => id))]
        }))
      assert.deepStrictEqual(yield* changed("--at", "0"), { code: 11, ids: ["d"] })
      assert.deepStrictEqual(yield* changed("--at", "0", "--at", "3"), { code: 11, ids: ["a", "c", "d"] })
      assert.deepStrictEqual(yield* changed("--at", "3", "--at", "3"), { code: 0, ids: [] })
    }).pipe(Effect.scoped))

  it.live("prints equal destinations as equal, and refuses other arguments", () =>
    Effect.gen(function*() {
      const a = yield* exported("sqlite:a.db", before)
      const equal = yield* diff(a, a, "--format", "table")
      assert.deepInclude(equal, { code: 0, err: "" })
      assert.include(
        equal.out,
        "\n\npayout-requests: equal, 0 records\npayin-sources: equal, 0 records\ninvoices: equal, 3 records\n"
      )
      assert.strictEqual(JSON.parse((yield* diff(a, a, "--format", "json")).out).equal, true)
      const refused = [
        [[a], 2, "Name two destinations to compare"],
        [[a, a, "--at", "1"], 2, "--at compares points of one destination"],
        [[a, "--at", "1", "--at", "2", "--at", "3"], 2, "more than twice"],
        [[a, "--at", "x"], 2, "Invalid value for --at. Expected: a change number, a time such as 2024-05-01T10:00Z"],
        [[a, "--at", "9"], 2, "there is no change 9 yet: the last one is 0."],
        [[a, "-"], 2, "stores nothing"],
        [[a, "postgres://u:p@127.0.0.1/d"], 2, "password"],
        [[a, `${a}.none`], 9, "there is nothing there"]
      ] as const
      for (const [args, code, problem] of refused) {
        const found = yield* diff(...args)
        assert.deepStrictEqual([found.code, found.out], [code, ""], problem)
        assert.include(found.err, problem)
      }
    }).pipe(Effect.scoped))

  it.live("reports a difference although the reader of the pipe has gone", () =>
    Effect.gen(function*() {
      const a = yield* exported("sqlite:a.db", before)
      const b = yield* exported(
        "sqlite:b.db",
        Array.from({ length: 5000 }, (_, id) => invoice(`${id}`, `"amount":${id}`))
      )
      const code = yield* Effect.promise(async () => {
        const child = spawn(process.execPath, [binary, "diff", a, b], {
          env: {},
          stdio: ["ignore", "pipe", "inherit"]
        })
        child.stdout.once("data", () => child.stdout.destroy())
        return (await once(child, "close"))[0]
      })
      assert.strictEqual(code, 11)
    }).pipe(Effect.scoped))
})
