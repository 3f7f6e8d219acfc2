/** Fields, conditions, orders, queries and CSV of a listing, also if it does not read the whole list. */
import { assert, describe, it } from "@effect/vitest"
import { RequestObserver } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { binary, payments, runProgram, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { parse } from "csv-parse/sync"
import { Effect, Fiber, Schema } from "effect"
import { rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { CollectedLimit } from "../../src/listing/Selection.ts"
import { runInProcess, withoutColors } from "../program/InProcess.ts"

const count = 45
const invoices = Array.from(
  { length: count },
  (_, index) =>
    `{"id":"inv_${index}","amount":${(index * 7) % 45},"status":"${
      index % 3 === 0 ? "paid" : "pending"
    }","reference":"r"}`
)
const api = layerTest({ invoices })
const list = (...args: ReadonlyArray<string>) => runInProcess(api, ["invoices", "list", ...args])
const linesOf = (text: string) => text.split("\n").filter((line) => line !== "")
const paid = invoices.filter((text) => text.includes(`"paid"`))

/** The members of a JSON document that a test reads. */
const documentOf = (text: string) =>
  JSON.parse(text) as {
    readonly [member: string]: unknown
    readonly items: ReadonlyArray<unknown>
    readonly cursor: string
  } // the tests check it

describe("a listing", () => {
  it.effect("applies --where and --sort to the records that were read, and says so", () =>
    Effect.gen(function*() {
      const all = yield* list("--all", "--where", "status=paid")
      assert.deepStrictEqual([all.code, linesOf(all.out), all.err], [0, paid, ""])
      const some = yield* list("--max", "10", "--where", "status=paid", "--where", "amount<20", "--sort", "amount:desc")
      assert.deepStrictEqual(linesOf(some.out).map((line) => JSON.parse(line).amount), [18, 0])
      assert.match(
        some.err,
        /^More records remain\. --where and --sort apply only to the 10 that were read\. Read them all with --all/
      )
      const json = documentOf((yield* list("--max", "10", "--where", "status=paid", "--format", "json")).out)
      assert.deepStrictEqual([json["count"], json["read"], json["complete"]], [4, 10, false])
      const none = yield* runInProcess(api, ["invoices", "list", "--all", "--where", "amount>1000"], true)
      assert.deepStrictEqual([none.code, none.out, none.err], [
        0,
        "",
        `None of the ${count} records matches --where.\n`
      ])
      const twice = yield* list("--all", "--where", "reference=@-", "--reference", "@-")
      assert.deepStrictEqual([twice.code, twice.err], [
        2,
        "payments: Only one value can come from standard input (@-).\n"
      ])
    }))

  it.effect("counts an absent field as different from every value, and null as the text null", () =>
    Effect.gen(function*() {
      const records = [
        `{"id":"a","status":"paid"}`,
        `{"id":"b","status":null}`,
        `{"id":"c"}`,
        `{"id":"d","status":"x"}`
      ]
      const idsOf = (condition: string) =>
        Effect.map(
          runInProcess(layerTest({ invoices: records }), ["invoices", "list", "--all", "--where", condition]),
          ({ out }) => linesOf(out).map((line) => (JSON.parse(line) as { readonly id: string }).id) // as printed
        )
      assert.deepStrictEqual(yield* idsOf("status!=paid"), ["b", "c", "d"])
      assert.deepStrictEqual(yield* idsOf("status!=null"), ["a", "c", "d"])
      for (const condition of ["status=paid", "status~paid", "status<=paid", "status>=paid"]) {
        assert.notInclude(yield* idsOf(condition), "c", condition)
      }
    }))

  it.effect("prints the chosen fields in every format, nested as in the record", () =>
    Effect.gen(function*() {
      const records = [
        `{"id":"a","amount":10.0,"x":{"y":1e400,"z":[1]},"customerDetails":{"name":"n"}}`,
        `{"id":"b","amount":null,"x":null}`
      ]
      const run = (format: string, terminal = false) =>
        runInProcess(
          layerTest({ payoutRequests: records }),
          ["payout-requests", "list", "--fields", "x.y,amount,id,customerDetails.name", "--format", format],
          terminal,
          80
        ).pipe(withoutColors)
      const kept = [
        `{"x":{"y":1e400},"amount":10.0,"id":"a","customerDetails":{"name":"n"}}`,
        `{"x":null,"amount":null,"id":"b"}`
      ]
      assert.deepStrictEqual(linesOf((yield* run("ndjson")).out), kept)
      assert.include((yield* run("json")).out, `{"items":[\n${kept.join(",\n")}\n],`)
      assert.strictEqual((yield* run("csv")).out, "x.y,amount,id,customerDetails.name\r\n1e400,10.0,a,n\r\n,,b,\r\n")
      assert.strictEqual(
        (yield* run("table", true)).out,
        "x.y    amount  id  customerDetails.name\n1e400      10  a   n\n         null  b\n"
      )
      const unseen = yield* runInProcess(layerTest({ payoutRequests: records }), [
        "payout-requests",
        "list",
        "--fields",
        "id,tax.code"
      ])
      assert.strictEqual(unseen.err, "payments: payout-requests: no printed record has tax.code.\n")
    }))

  it.effect("refuses a misspelt field before any request, unless it is quoted", () =>
    Effect.gen(function*() {
      for (
        const [flag, text, field] of [
          ["--fields", "id,amout", "amount"],
          ["--fields", "settlement_date", "settlementDate"],
          ["--where", "Amount>5", "amount"],
          ["--sort", "statuss:desc", "status"]
        ] as const
      ) {
        const { code, err, out } = yield* list(flag, text)
        assert.deepStrictEqual([code, out], [2, ""])
        assert.include(err, `${flag}: invoices have no documented field`)
        assert.include(err, `Did you mean ${field}?`)
      }
      const nested = yield* runInProcess(api, ["payin-sources", "list", "--fields", "name"])
      assert.include(nested.err, "Did you mean customerDetails.name?")
      const quoted = yield* list("--limit", "1", "--fields", `id,"amout",taxCode`)
      assert.deepStrictEqual([quoted.code, quoted.out], [0, `{"id":"inv_0"}\n`])
      for (
        const [flag, text] of [
          ["--fields", "a,,b"],
          ["--sort", "a:up"],
          ["--where", "amount >"],
          [
            "--where",
            "amount>1,000"
          ],
          ["--query", "["],
          ["--fields", "*"],
          ["--fields", "id,customerDetails.*"],
          ["--sort", "*"]
        ] as const
      ) {
        assert.strictEqual((yield* list(flag, text)).code, 2, text)
      }
      assert.include((yield* list("--where", "status")).err, "More records remain")
    }))

  const Text = Schema.NullOr(Schema.String)
  it.effect.prop("prints CSV from which every text and number can be read again", [
    Schema.Array(Schema.Struct({ reference: Text, contract: Text, amount: Schema.Int })).check(Schema.isMaxLength(20))
  ], ([given]) =>
    Effect.gen(function*() {
      const records = given.map((record, index) => ({ id: `i${index}`, ...record }))
      const { code, out } = yield* runInProcess(layerTest({ invoices: records }), [
        "invoices",
        "list",
        "--all",
        "--format=csv",
        "--fields=reference,amount,contract"
      ])
      const [head, ...rows] = parse(out, { record_delimiter: "\r\n" }) as ReadonlyArray<ReadonlyArray<string>> // without columns, rows are arrays
      assert.deepStrictEqual([code, head], [0, ["reference", "amount", "contract"]])
      // A quote before a formula is removed; see the documentation of CSV.
      // UTF-8 has no lone surrogates.
      const plain = (text: string | null) => (text ?? "").toWellFormed()
      const withoutQuotes = (text = "") => text.replaceAll(/(?<=^|[\r\n])'(?=[=+\-@\t＝＋－＠\r\n])/g, "")
      assert.deepStrictEqual(
        rows.map(([reference, amount, contract]) => [withoutQuotes(reference), amount, withoutQuotes(contract)]),
        records.map(({ amount, contract, reference }) => [
          withoutQuotes(plain(reference)),
          String(amount === 0 ? 0 : amount),
          withoutQuotes(plain(contract))
        ])
      )
    }), { arbitrary: { runs: 30 } })

  it.effect("has a column for each documented field in CSV, and names the fields that it leaves out", () =>
    Effect.gen(function*() {
      const { err, out } = yield* runInProcess(
        layerTest({
          payoutRequests: [
            { id: "=1+1", amount: -5, taxCode: "t", customerDetails: { name: "a,b", vip: true } },
            `"text"`,
            `{"id":"p","payoutTargetDetails":"account 1"}`
          ]
        }),
        ["payout-requests", "list", "--format", "csv"]
      )
      const [head = "", first = "", second] = out.split("\r\n")
      assert.match(head, /^id,reference,customerId,customerDetails\.reference,customerDetails\.name,/)
      assert.match(first, /^'=1\+1,,,,"a,b",/)
      assert.include(first, ",-5,")
      assert.strictEqual(second, `"""text"""`)
      assert.include(
        err,
        "the CSV has a column for each documented field only. The records also have taxCode, customerDetails.vip and payoutTargetDetails:"
      )
      assert.match(err, /do not match the document: \d; included in the output\./)
      const empty = yield* runInProcess(layerTest({}), ["invoices", "list", "--format", "csv", "--fields", "id,amount"])
      assert.deepStrictEqual([empty.code, empty.out], [0, "id,amount\r\n"])
    }))

  it.effect("distinguishes null, the text null and absent fields in a table", () =>
    Effect.gen(function*() {
      const service = layerTest({
        invoices: [`{"id":"a","contract":null}`, `{"id":"b","contract":"null"}`, `{"id":"c"}`]
      })
      const { out } = yield* runInProcess(service, ["invoices", "list", "--fields", "id,contract"], true, 80)
      assert.strictEqual(out, `id  contract\na   null\nb   "null"\nc\n`)
    }))

  it.effect("prints the result of --query in every format, with its completeness", () =>
    Effect.gen(function*() {
      const total = String(invoices.reduce((sum, text) => sum + Number(JSON.parse(text).amount), 0))
      assert.strictEqual((yield* list("--all", "--query", "sum([].amount)")).out, `${total}\n`)
      const paidIds = yield* list("--all", "--where", "status=paid", "--query", "[].id")
      assert.deepStrictEqual(linesOf(paidIds.out), paid.map((text) => JSON.stringify(JSON.parse(text).id)))
      const part = yield* list("--limit", "2", "--query", "length(@)", "--format", "json")
      const document = documentOf(part.out)
      assert.deepStrictEqual([document["result"], document["complete"], document["count"]], [2, false, 2])
      assert.deepInclude(document, {
        next: null,
        nextNeeds: {
          command: `payments invoices list --format json --limit 2 --cursor ${document.cursor}`,
          arguments: ["--query"]
        }
      })
      const rows = yield* list(
        "--all",
        "--sort",
        "amount:desc",
        "--query",
        "[:2].{id: id, amount: amount}",
        "--format",
        "csv"
      )
      assert.strictEqual(rows.out, "id,amount\r\ninv_32,44\r\ninv_19,43\r\n")
      // The columns are those of the result, so an undocumented field of the records is not left out.
      const columns = yield* runInProcess(
        layerTest({ invoices: [`{"id":"a","taxCode":"t"}`] }),
        ["invoices", "list", "--all", "--query", "[].{tax: taxCode}", "--format", "csv"]
      )
      assert.deepStrictEqual([columns.out, columns.err], ["tax\r\nt\r\n", ""])
      const failed = yield* list("--all", "--query", "sum([].id)")
      assert.deepStrictEqual([failed.code, failed.out], [2, ""])
      assert.include(failed.err, "payments: --query: sum() needs numbers.")
      const both = yield* list("--query", "[].id", "--fields", "id")
      assert.strictEqual(both.code, 2)
    }))

  it.effect("says how many records of a sum or an order are repeated", () =>
    Effect.gen(function*() {
      const repeating = layerTest({ invoices, faults: [{ fault: "duplicate", records: 2, nth: 2 }] })
      const args = ["invoices", "list", "--all", "--limit", "5", "--format", "json"]
      const sum = yield* runInProcess(repeating, [...args, "--query", "length(@)"])
      assert.deepInclude(documentOf(sum.out), { result: invoices.length + 2, complete: true, repeated: 2 })
      assert.include(sum.err, "2 of the records are repeated")
      const sorted = yield* runInProcess(repeating, [...args, "--sort", "amount"])
      assert.strictEqual(documentOf(sorted.out)["repeated"], 2)
      const once = yield* list("--all", "--query", "length(@)", "--format", "json")
      assert.deepStrictEqual([documentOf(once.out)["repeated"], once.err], [undefined, ""])
    }))

  it.effect("prints whole records after an error, and for a query nothing that looks like its result", () =>
    Effect.gen(function*() {
      const failing = layerTest({ invoices, faults: [{ fault: "status", status: 403, nth: 3 }] })
      const run = (...args: ReadonlyArray<string>) =>
        runInProcess(failing, ["invoices", "list", "--all", "--limit", "5", ...args])
      const sorted = yield* run("--sort", "amount")
      assert.strictEqual(sorted.code, 4)
      assert.deepStrictEqual(linesOf(sorted.out).toSorted(), invoices.slice(0, 10).toSorted())
      assert.match(sorted.err, /^More records remain\. --sort applies only to the 10 that were read\. Continue with/)
      const query = yield* run("--query", "length(@)")
      assert.deepStrictEqual([query.code, query.out], [4, ""])
      assert.match(query.err, /^More records remain\. --query prints no result, because/)
      const json = yield* run("--query", "length(@)", "--format", "json")
      const { complete, cursor, error, result } = documentOf(json.out)
      assert.deepStrictEqual([json.code, result, complete, cursor], [4, null, false, null])
      assert.include(JSON.stringify(error), "Forbidden")
      const csv = yield* run("--format", "csv", "--fields", "id")
      assert.strictEqual(csv.out, `id\r\n${invoices.slice(0, 10).map((text) => `${JSON.parse(text).id}\r\n`).join("")}`)
    }))

  it.live("resumes with --cursor-file after an interruption, also with --where and --sort", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "position.json")
      for (
        const flags of [["--where", "status=paid"], ["--sort", "amount"], [
          "--where",
          "status=paid",
          "--sort",
          "amount"
        ]]
      ) {
        rmSync(file, { force: true })
        const args = ["invoices", "list", "--all", "--limit", "5", "--cursor-file", file, ...flags]
        const expected = (flags.includes("status=paid") ? paid : invoices).toSorted()
        const stalling = layerTest({ invoices, faults: [{ fault: "stall", at: "headers", from: 4 }] })
        const thirdPage = Promise.withResolvers<void>()
        let requests = 0
        let printed = ""
        const fiber = yield* Effect.forkChild(
          runInProcess(stalling, args, false, 0, (out) =>
            Effect.sync(() => {
              printed = out
            })).pipe(
              Effect.provideService(RequestObserver, () => {
                if (++requests === 3) thirdPage.resolve()
              })
            )
        )
        yield* Effect.promise(() => thirdPage.promise)
        yield* Effect.sleep("20 millis")
        yield* Fiber.interrupt(fiber)
        assert.notStrictEqual(printed, "")
        const rest = yield* runInProcess(api, args)
        assert.strictEqual(rest.code, 0)
        assert.deepStrictEqual(linesOf(printed + rest.out).toSorted(), expected, flags.join(" "))
      }
      const some: Array<string> = []
      rmSync(file)
      for (let run = 0; run < 9; run++) {
        some.push(...linesOf((yield* list("--max", "6", "--where", "status=paid", "--cursor-file", file)).out))
      }
      assert.deepStrictEqual(some, paid)
    }).pipe(Effect.scoped))

  it.effect("stops at the memory limit of --sort and --query with code 10, and says so", () =>
    Effect.gen(function*() {
      const limited = Effect.provideService(CollectedLimit, { sort: 8000, query: 8000 })
      const sorted = yield* list("--all", "--limit", "5", "--sort", "amount").pipe(limited)
      assert.strictEqual(sorted.code, 10)
      assert.deepStrictEqual(linesOf(sorted.out).toSorted(), invoices.slice(0, linesOf(sorted.out).length).toSorted())
      assert.include(sorted.err, "--sort applies only to the 20 that were read, because no more fit in memory.")
      const query = yield* list("--all", "--limit", "5", "--query", "length(@)", "--format", "json").pipe(limited)
      assert.deepStrictEqual([query.code, documentOf(query.out)["complete"]], [10, false])
      assert.strictEqual(
        (yield* list("--all", "--sort", "amount").pipe(Effect.provideService(CollectedLimit, { sort: 1, query: 1 })))
          .code,
        0
      )
    }))

  it.effect("prints the command that continues, with typed values on a terminal only", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const value = join(folder, "value")
      writeFileSync(value, "r\n")
      const shown = yield* runInProcess(
        api,
        ["invoices", "list", "--limit", "3", "--where", "status!=it's", "--reference", "r"],
        true
      )
      const command = shown.err.split("\n")[1]?.trim() ?? ""
      assert.match(command, /^payments invoices list --reference r --where 'status!=it'\\''s' --limit 3 --cursor \S+$/)
      const logged = yield* runInProcess(api, [
        "invoices",
        "list",
        "--limit",
        "3",
        "--reference",
        "r",
        "--where",
        "status!=secret"
      ])
      assert.notInclude(logged.err, "secret")
      // `next` in JSON can run as it is. A command that lacks values is in `nextNeeds`.
      const next = (...more: ReadonlyArray<string>) =>
        Effect.map(list("--limit", "3", "--format", "json", ...more), ({ out }) => documentOf(out))
      const { cursor, next: whole, nextNeeds: none } = yield* next()
      assert.deepStrictEqual(
        [whole, none],
        [`payments invoices list --format json --limit 3 --cursor ${cursor}`, undefined]
      )
      const continued = yield* runInProcess(api, String(whole).split(" ").slice(1))
      assert.deepInclude(documentOf(continued.out).items[0], { id: "inv_3" })
      const lacking = yield* next("--reference", "r", "--where", "status!=secret", "--where", "amount>1")
      assert.deepInclude(lacking, {
        next: null,
        nextNeeds: {
          command: `payments invoices list --format json --limit 3 --cursor ${lacking.cursor}`,
          arguments: ["--reference", "--where"]
        }
      })
      const named = yield* next("--reference", `@${value}`)
      assert.include(named["next"], `--reference @${value} `)
      assert.isUndefined(named["nextNeeds"])
      // If the first page fails, the same command starts again.
      const failing = layerTest({ invoices, faults: [{ fault: "status", status: 403 }] })
      const first = yield* runInProcess(failing, ["invoices", "list", "--reference", "secret", "--format", "json"])
      const { error } = JSON.parse(first.err)
      assert.deepStrictEqual([first.code, error.reason, error.exitCode], [4, "Forbidden", 4])
      assert.deepStrictEqual([error.next, error.nextNeeds], [
        null,
        { command: "payments invoices list --format json --limit 20", arguments: ["--reference"] }
      ])
      // Omitted columns are named.
      const narrow = yield* runInProcess(api, ["invoices", "list", "--all"], true, 40)
      assert.include(narrow.err, "The terminal has no room for: ")
    }).pipe(Effect.scoped))

  it.live("runs an expression apart: an interrupt stops it at once, and it cannot take all memory", () =>
    Effect.gen(function*() {
      const records = Array.from({ length: 100 }, (_, index) => `{"id":"inv_${index}"}`)
      let servedAt = Infinity
      const service = yield* scriptedServer((_, response) => {
        pageOf(response, records, null)
        servedAt = performance.now()
      })
      const run = (query: string, interruptWhen?: () => boolean) =>
        payments(["invoices", "list", "--all", "--query", query], {
          env: { PAYMENTS_BASE_URL: service.url, PAYMENTS_API_KEY: "k" },
          interruptWhen
        })
      // 100^5 steps take minutes.
      const endless = "map(&length(map(&length(map(&length(map(&length(map(&id, $)), $)), $)), $)), @)"
      const stopped = yield* run(endless, () => performance.now() > servedAt + 1000)
      assert.deepStrictEqual([stopped.code, stopped.signal, stopped.stdout], [130, null, ""])
      const large = yield* run("map(&pad_left(id, `5000000`), @)")
      assert.deepStrictEqual([large.code, large.stdout.length], [2, 0])
      assert.match(large.stderr, /^payments: --query: the expression needs more than 1024 MiB of memory\. [^\n]*\n$/)
    }).pipe(Effect.scoped))

  it.live("keeps its promises in the built program: through pipes, and with a value of a condition from stdin", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 3000 })
      const run = (script: string) =>
        runProgram("bash", ["-c", `set -o pipefail; ${script}`], {
          env: { ...env, NODE: process.execPath, BINARY: binary },
          cwd: folder
        })
      const command = `"$NODE" "$BINARY" invoices list --all`
      const head = yield* run(`${command} --sort amount --format csv --fields id,amount | head -1`)
      assert.deepStrictEqual([head.code, head.stdout, head.stderr], [0, "id,amount\r\n", ""])
      const full = yield* run(`${command} --sort amount > /dev/full`)
      assert.deepStrictEqual([full.code, full.stderr], [
        9,
        "payments: the output cannot be written: there is no space left (ENOSPC).\n"
      ])
      const where = yield* run(`echo pending | ${command} --where status=@- --query 'length(@)'`)
      const typed = yield* run(`${command} --where status=pending --query 'length(@)'`)
      assert.isAbove(Number(typed.stdout), 0)
      assert.deepStrictEqual(where, typed)
      const colored = yield* run(
        `FORCE_COLOR=1 "$NODE" "$BINARY" invoices list --limit 3 --format table --where status=paid`
      )
      assert.include(colored.stdout, "\u001b[32mpaid\u001b[39m")
    }).pipe(Effect.scoped))
})
