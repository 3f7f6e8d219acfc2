/** The page that `payments query --html` writes, in a real browser. */
import { assert, describe, layer } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect } from "effect"
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Chromium, show } from "../../worker/test/page/Browser.ts"
import { runInProcess } from "./InProcess.ts"
import { temporaryFolder } from "./Program.ts"

const require = createRequire(join(import.meta.dirname, "../../worker/package.json"))
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8")
const axeRun =
  "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) =>" +
  " id + ': ' + nodes.map(({ failureSummary, html }) => html + ' ' + failureSummary).join('; ')))"

const hostile = [
  `</style><script>document.title = "hacked"</script>`,
  `"><img src="https://attacker.example/x" onerror="document.title='hacked'">`,
  `<a href="javascript:alert(1)">&amp;</a>`,
  `=HYPERLINK("https://attacker.example")\u202egnp`,
  "支払い".repeat(60)
]
const invoices = [
  ...hostile.map((status, index) => ({ id: `h${index}`, status, amount: 9007199254740991 - index })),
  ...Array.from({ length: 31 }, (_, index) => ({
    id: `d${index}`,
    status: "paid",
    amount: (index - 10) * 1_000_000,
    settlementDate: `2024-05-${String(index + 1).padStart(2, "0")}`
  })),
  { id: "null", status: null, settlementDate: "2024-05-31", amount: null }
].map((invoice) => JSON.stringify(invoice))

/** Exports the invoices, and returns the folder and a function that runs `payments query` on the copy. */
const exported = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const from = `sqlite:${join(folder, "payments.db")}`
  const api = layerTest({ invoices })
  yield* runInProcess(api, ["export", "invoices", "--to", from])
  return { folder, query: (...args: ReadonlyArray<string>) => runInProcess(api, ["query", "--from", from, ...args]) }
})

/** Opens a file and records every request and every message of the browser. */
const open = Effect.fnUntraced(function*(file: string) {
  const chromium = yield* Chromium
  const page = yield* Effect.acquireRelease(
    Effect.promise(() => chromium.newPage()),
    (opened) => Effect.promise(() => opened.close())
  )
  const requests: Array<string> = []
  const messages: Array<string> = []
  page.on("request", (request) => requests.push(request.url()))
  page.on("console", (message) => messages.push(message.text()))
  page.on("pageerror", (error) => messages.push(String(error)))
  yield* Effect.promise(() => page.goto(pathToFileURL(file).href))
  return { page, requests, messages, evaluate: (expression: string) => Effect.promise(() => page.evaluate(expression)) }
})

layer(Chromium.layer, { excludeTestServices: true })("the page of a query", (it) => {
  describe("in a browser", () => {
    it.effect("shows hostile text as text, loads nothing, and fits screens and paper", () =>
      Effect.gen(function*() {
        const { folder, query } = yield* exported
        const days = join(folder, "days.html")
        const statuses = join(folder, "statuses.html")
        const written = yield* query("settled-by-day", "--month", "2024-05", "--html", days)
        assert.deepStrictEqual([written.code, written.out], [0, ""])
        assert.strictEqual(statSync(days).mode & 0o777, 0o600)
        assert.strictEqual((yield* query("invoices-by-status", "--html", statuses)).code, 0)

        for (
          const [file, shown] of [[days, "-10,000,000"], [
            statuses,
            `<script>document.title = "hacked"</script>`
          ]] as const
        ) {
          const { evaluate, messages, page, requests } = yield* open(file)
          const visible =
            "[...document.querySelectorAll('svg')].filter((svg) => svg.getBoundingClientRect().width > 0).length"
          for (const scheme of ["light", "dark"] as const) {
            for (const width of [390, 1280]) {
              yield* Effect.promise(() => show(page, { width, scheme }))
              assert.isAtMost(Number(yield* evaluate("document.documentElement.scrollWidth")), width, file)
              assert.strictEqual(yield* evaluate(visible), 1)
            }
          }
          assert.include(yield* evaluate("document.body.innerText"), shown)
          assert.notInclude(yield* evaluate("document.body.textContent"), "\u202e")
          assert.strictEqual(yield* evaluate("document.querySelectorAll('script,img,a').length"), 0)
          assert.notInclude(yield* evaluate("document.title"), "hacked")
          assert.deepStrictEqual([messages, requests], [[], [pathToFileURL(file).href]])
          // On paper it is black on white, although the screen is dark.
          yield* Effect.promise(() => page.emulateMediaType("print"))
          assert.strictEqual(yield* evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
          assert.strictEqual(yield* evaluate(visible), 1)
          yield* Effect.promise(() => page.emulateMediaType("screen"))
          // The policy of the page forbids scripts, so axe runs after the policy is off.
          yield* Effect.promise(() => page.setBypassCSP(true))
          yield* Effect.promise(() => page.reload())
          yield* evaluate(axe)
          assert.deepStrictEqual(yield* evaluate(axeRun), [])
        }

        const { evaluate } = yield* open(days)
        assert.strictEqual(yield* evaluate("document.querySelectorAll('.wide .negative').length"), 10)
        const text = String(yield* evaluate("document.body.innerText"))
        assert.include(text, "amount is null in 1 of 32 records.")
        assert.match(text, /invoices: the last complete export ended at \d{4}-\d\d-\d\d \d\d:\d\d UTC\./)
      }).pipe(Effect.scoped), 60_000)
  })

  describe("as a file", () => {
    it.effect("replaces a whole file or none, and keeps a symbolic link", () =>
      Effect.gen(function*() {
        const { folder, query } = yield* exported
        const pages = join(folder, "pages")
        mkdirSync(pages)
        writeFileSync(join(pages, "target.html"), "old", { mode: 0o644 })
        symlinkSync("target.html", join(pages, "link.html"))
        assert.strictEqual((yield* query("SELECT 1 AS x, 2 AS n", "--html", join(pages, "link.html"))).code, 0)
        assert.isTrue(lstatSync(join(pages, "link.html")).isSymbolicLink())
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "<!doctype html>")
        assert.strictEqual(statSync(join(pages, "target.html")).mode & 0o777, 0o600)
        const absent = yield* query("SELECT 1 AS x, 2 AS n", "--html", join(pages, "absent/x.html"))
        assert.strictEqual(absent.code, 9)
        assert.include(absent.err, "--html: the page cannot be written (ENOENT)")
        assert.strictEqual((yield* query("SELECT 1 AS x, 2 AS n", "--html", "-")).code, 2)
        assert.strictEqual((yield* query("settled-by-day", "--html", join(pages, "link.html"))).code, 0)
        // The page shows the statement that was run.
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "exact_sum(amount) AS amount")
        const failed = yield* query("SELECT json('{') AS x", "--html", join(pages, "link.html"))
        assert.strictEqual(failed.code, 2)
        assert.deepStrictEqual(readdirSync(pages).toSorted(), ["link.html", "target.html"])
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "amount by settlement_date")
        assert.strictEqual((yield* query("SELECT 1 AS x WHERE 1 = 0", "--html", join(pages, "link.html"))).code, 0)
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "No rows.")
      }).pipe(Effect.scoped))
  })
})
