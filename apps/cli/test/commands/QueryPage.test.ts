/** The page that `payments query --html` writes, in a real browser. */
import { assert, describe, layer } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Chromium, show } from "@payments/testkit/programs/Browser"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { runInProcess } from "../program/InProcess.ts"

const require = createRequire(join(import.meta.dirname, "../../../worker/package.json"))
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

/** Exports invoices, and returns the folder and a function that runs `payments query` on the copy. */
const exportedFrom = Effect.fnUntraced(function*(texts: ReadonlyArray<string>) {
  const folder = yield* temporaryFolder
  const from = `sqlite:${join(folder, "payments.db")}`
  const api = layerTest({ invoices: texts })
  yield* runInProcess(api, ["export", "invoices", "--to", from])
  return { folder, query: (...args: ReadonlyArray<string>) => runInProcess(api, ["query", "--from", from, ...args]) }
})

const exported = exportedFrom(invoices)

/** DejaVu Sans, one of the widest usual fonts. */
const wideFont = `@font-face{font-family:Wide;src:url(data:font/ttf;base64,${
  readFileSync(createRequire(import.meta.url).resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf")).toString("base64")
})}`

/** The texts of the visible charts that extend beyond their chart, or that overlap. */
const clipped = `document.fonts.load("12px Wide").then(() => [...document.querySelectorAll("svg")].flatMap((svg) => {
  const box = svg.getBoundingClientRect()
  const texts = [...svg.querySelectorAll("text")].map((text) => ({ text: text.textContent, box: text.getBoundingClientRect() }))
  const isOutside = ({ box: { left, right, top, bottom } }) =>
    left < box.left - 0.5 || right > box.right + 0.5 || top < box.top - 0.5 || bottom > box.bottom + 0.5
  const isOn = (one, other) => one !== other && one.box.left < other.box.right && other.box.left < one.box.right &&
    one.box.top + 2 < other.box.bottom && other.box.top + 2 < one.box.bottom
  return box.width === 0 ? [] : texts.filter((one) => isOutside(one) || texts.some((other) => isOn(one, other)))
    .map(({ text }) => text)
}))`

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
      }).pipe(Effect.scoped))
  })

  it.effect(
    "clips no text of a chart in a wide font, on the page and in an SVG file that stands alone",
    () =>
      Effect.gen(function*() {
        const months = Array.from({ length: 26 }, (_, index) => ({
          id: `m${index}`,
          status: `on_hold_by_review_${"MW".repeat(index)}`,
          paymentMethod: index === 0 ? "\uFFFE\u0000<&>" : "pse",
          amount: 38_500_000 - 1_000_000 * index,
          settlementDate: `${2023 + Math.floor(index / 12)}-${String(index % 12 + 1).padStart(2, "0")}-01`
        }))
        const large = Array.from(
          { length: 40 },
          (_, index) => ({ id: `l${index}`, status: "paid", amount: Number.MAX_SAFE_INTEGER })
        )
        const { folder, query } = yield* exportedFrom([...months, ...large].map((invoice) => JSON.stringify(invoice)))
        const questions = [
          ["settled-by-month", "--where", "settlementDate"],
          ["settled-by-day", "--where", "settlementDate"],
          ["invoices-by-status"],
          ["paid-by-method"]
        ]
        for (const args of questions) {
          const [html, svg] = [join(folder, "chart.html"), join(folder, "chart.svg")]
          const written = yield* query(...args, "--chart", "--html", html, "--svg", svg)
          assert.strictEqual(written.code, 0)
          // The chart on stdout, and the names of the files on stderr.
          assert.include(written.out, "amount")
          assert.match(
            written.err,
            new RegExp(`The page is written to ${html}\\.[^]*The chart is written to ${svg}\\.`)
          )
          const wideHtml = join(folder, "wide.html")
          writeFileSync(
            wideHtml,
            readFileSync(html, "utf8").replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "")
              .replace("<style>", `<style>${wideFont}`).replaceAll("system-ui,sans-serif", "Wide")
          )
          const page = yield* open(wideHtml)
          for (const width of [390, 1280]) {
            yield* Effect.promise(() => show(page.page, { width, scheme: "light" }))
            assert.deepStrictEqual(yield* page.evaluate(clipped), [], `${args[0]} at ${width} px`)
          }
          const wideSvg = join(folder, "wide.svg")
          const text = readFileSync(svg, "utf8")
          assert.notMatch(text, /<style|<script|href|url\(|class="[^"]*"[^>]*style=/)
          assert.strictEqual(statSync(svg).mode & 0o777, 0o600)
          writeFileSync(
            wideSvg,
            text.replaceAll("Arial, Helvetica, sans-serif", "Wide").replace(
              "<title>",
              `<style>${wideFont}</style><title>`
            )
          )
          const alone = yield* open(wideSvg)
          assert.strictEqual(yield* alone.evaluate("document.documentElement.localName"), "svg")
          assert.deepStrictEqual(yield* alone.evaluate(clipped), [], `${args[0]} as SVG`)
          // As an image, which loads nothing and has no style of a page around it.
          const report = join(folder, "report.html")
          writeFileSync(report, `<img src="chart.svg">`)
          const { evaluate } = yield* open(report)
          assert.strictEqual(yield* evaluate("document.images[0].naturalWidth"), 920)
          assert.include(text, `fill="#1f6feb"`)
        }
        const same = yield* query("settled-by-day", "--html", join(folder, "x"), "--svg", join(folder, "x"))
        assert.deepStrictEqual([same.code, same.err.includes("name the same file")], [2, true])
        const none = yield* query("SELECT 'a' AS x", "--svg", join(folder, "x.svg"), "--html", join(folder, "x.html"))
        assert.strictEqual(none.code, 2)
        assert.notInclude(readdirSync(folder).join(), "x.")
      }).pipe(Effect.scoped)
  )

  describe("as a file", () => {
    it.effect("replaces neither a file of the copy nor the other file of the same query", () =>
      Effect.gen(function*() {
        const { folder, query } = yield* exported
        const database = join(folder, "payments.db")
        const before = readFileSync(database)
        symlinkSync("payments.db", join(folder, "link.svg"))
        const names = ["payments.db", "link.svg", "payments.db-wal", "./payments.db"]
        for (const name of names) {
          const refused = yield* query("SELECT 'a' AS x, 2 AS n", "--svg", `${folder}/${name}`)
          assert.strictEqual(refused.code, 2, name)
          assert.include(refused.err, "--svg names a file of the copy", name)
        }
        const same = ["--html", join(folder, "x.out"), "--svg", `${folder}/./x.out`]
        const refused = yield* query("SELECT 'a' AS x, 2 AS n", ...same)
        assert.strictEqual(refused.code, 2)
        assert.include(refused.err, "--html and --svg name the same file.")
        assert.isTrue(before.equals(readFileSync(database)))
        const api = layerTest({ invoices: [`{"id":"a","amount":5}`] })
        const copy = join(folder, "copy")
        yield* runInProcess(api, ["export", "invoices", "--to", `file:${copy}`])
        const args = ["query", "invoices-by-status", "--from", `file:${copy}`, "--html"]
        assert.strictEqual((yield* runInProcess(api, [...args, join(copy, "invoices.ndjson")])).code, 2)
        assert.strictEqual((yield* runInProcess(api, [...args, join(folder, "copy.html")])).code, 0)
      }).pipe(Effect.scoped))

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
        assert.include(
          absent.err,
          `--html: ${pages}/absent/x.html cannot be written: its folder does not exist (ENOENT).`
        )
        assert.strictEqual((yield* query("SELECT 1 AS x, 2 AS n", "--html", "-")).code, 2)
        assert.strictEqual((yield* query("settled-by-day", "--html", join(pages, "link.html"))).code, 0)
        // The page shows the statement that was run.
        assert.include(
          readFileSync(join(pages, "target.html"), "utf8"),
          "from_halves(sum(amount &gt;&gt; 32), sum(amount &amp; 4294967295)) AS amount"
        )
        const failed = yield* query("SELECT json('{') AS x", "--html", join(pages, "link.html"))
        assert.strictEqual(failed.code, 2)
        assert.deepStrictEqual(readdirSync(pages).toSorted(), ["link.html", "target.html"])
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "amount by settlement_date")
        assert.strictEqual((yield* query("SELECT 1 AS x WHERE 1 = 0", "--html", join(pages, "link.html"))).code, 0)
        assert.include(readFileSync(join(pages, "target.html"), "utf8"), "No rows.")
      }).pipe(Effect.scoped))
  })
})
