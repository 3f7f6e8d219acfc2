/** The status page in a real browser: over a real worker with a sandbox, and over states that a worker reaches rarely. */
import { assert, describe, layer } from "@effect/vitest"
import { Sandbox } from "@payments/sandbox"
import { overPatientClock } from "@payments/testkit/Clocks"
import { Chromium, show } from "@payments/testkit/programs/Browser"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { Duration, Effect, Layer } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { get, type ServerResponse } from "node:http"
import { createRequire } from "node:module"
import { join } from "node:path"
import type { Snapshot } from "../../src/state/StatusSnapshot.ts"
import { startWorker } from "../loop/RunningWorker.ts"
import { makeSource, startSources, testStatus } from "../loop/TestSources.ts"
import { pageServer, servePage } from "./PageServer.ts"
import { list, snapshots, source } from "./Snapshots.ts"

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

/** How long a browser is waited for, in milliseconds. */
const patience = 120_000

/** Passes requests to a service, in their order, as many as the test allows. */
const rationed = Effect.fnUntraced(function*(url: string) {
  const waiting: Array<{ readonly response: ServerResponse; readonly pass: () => void }> = []
  let allowed = 0
  const passOn = () => {
    while (allowed > 0) {
      const next = waiting.shift()
      if (next === undefined) return
      // A client may have given up.
      if (next.response.destroyed) continue
      allowed--
      next.pass()
    }
  }
  const service = yield* scriptedServer(({ headers: { authorization }, url: path }, response) => {
    const pass = () => {
      get(url + path, { headers: { authorization }, agent: false }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] })
        answer.pipe(response)
      }).on("error", () => response.destroy())
    }
    waiting.push({ response, pass })
    passOn()
  })
  return {
    url: service.url,
    allow: (count: number) => {
      allowed += count
      passOn()
    }
  }
})

/** Opens an address and records what the page must never do: leave the worker, violate its policy, fail. */
const open = Effect.fnUntraced(function*(url: string, isScripted = true, before = "") {
  const chromium = yield* Chromium
  // A context of its own: no cache, no other tabs.
  const context = yield* Effect.acquireRelease(
    Effect.promise(() => chromium.createBrowserContext()),
    (created) => Effect.promise(() => created.close())
  )
  const page = yield* Effect.promise(() => context.newPage())
  page.setDefaultTimeout(patience)
  const wrong: Array<string> = []
  const requests: Array<string> = []
  page.on("request", (request) => {
    requests.push(new URL(request.url()).pathname)
    if (new URL(request.url()).origin !== new URL(url).origin) wrong.push(`request to ${request.url()}`)
  })
  page.on("console", (message) => {
    if (message.type() === "error") wrong.push(message.text())
  })
  page.on("pageerror", (error) => wrong.push(String(error)))
  yield* Effect.promise(() => page.setJavaScriptEnabled(isScripted))
  // Runs before the scripts of the page.
  yield* Effect.promise(() => page.evaluateOnNewDocument(before))
  yield* Effect.promise(() => page.goto(url))
  const evaluate = (expression: string): Effect.Effect<unknown> => Effect.promise(() => page.evaluate(expression))
  return {
    page,
    wrong,
    requests,
    evaluate,
    text: (selector: string) =>
      Effect.promise(() => page.$eval(selector, (element) => String(Reflect.get(element, "innerText")))),
    until: (expression: string) =>
      Effect.promise(() =>
        page.waitForFunction(expression).catch(async () => {
          throw new Error(`${expression} stays false: ${String(await page.evaluate("document.body.innerText"))}`)
        })
      ),
    press: (key: "Tab" | "Enter" | "Space") => Effect.promise(() => page.keyboard.press(key))
  }
})

const axeRun =
  "axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => violations.map(({ id, nodes }) =>" +
  " id + ': ' + nodes.map(({ failureSummary, html }) => html + ' ' + failureSummary).join('; ')))"

layer(Chromium.layer, { excludeTestServices: true })("the page", (it) => {
  describe("of a worker", () => {
    it.effect(
      "opens with the token as the password that the browser asks for, and gets the events",
      () =>
        Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const file = join(folder, "token")
          const password = "4f1d0c9a3be8476aa55e"
          writeFileSync(file, password, { mode: 0o600 })
          const { port } = yield* startWorker(["--to", `sqlite:${join(folder, "a.db")}`, "--token-file", file], {
            PAYMENTS_BASE_URL: "http://127.0.0.1:1",
            PAYMENTS_API_KEY: "k"
          })
          const chromium = yield* Chromium
          const context = yield* Effect.acquireRelease(
            Effect.promise(() => chromium.createBrowserContext()),
            (created) => Effect.promise(() => created.close())
          )
          const page = yield* Effect.promise(() => context.newPage())
          page.setDefaultTimeout(patience)
          const url = `http://127.0.0.1:${String(port)}/`
          assert.strictEqual((yield* Effect.promise(() => page.goto(url)))?.status(), 401)
          yield* Effect.promise(() => page.authenticate({ username: "anyone", password }))
          assert.strictEqual((yield* Effect.promise(() => page.goto(url)))?.status(), 200)
          const event =
            "new Promise((resolve) => { const events = new EventSource('/events'); events.onopen = events.onerror = ({ type }) => resolve(type) })"
          assert.strictEqual(yield* Effect.promise(() => page.evaluate(event)), "open")
        }).pipe(Effect.scoped)
    )

    it.effect("shows an export from its first second to the end, and loads nothing from elsewhere", () =>
      Effect.gen(function*() {
        const context = yield* Layer.build(Sandbox.layer({ records: 2_500, hostileText: 0.2 }))
        const { allow, url } = yield* rationed((yield* Sandbox.pipe(Effect.provide(context))).url)
        const folder = yield* temporaryFolder
        const start = startWorker(["--to", `sqlite:${join(folder, "payments.db")}`, "--every", "1h"], {
          PAYMENTS_BASE_URL: url,
          PAYMENTS_API_KEY: "sandbox_canary5ecret"
        })
        const running = yield* start
        const { evaluate, text, until, wrong } = yield* open(`http://127.0.0.1:${String(running.port)}/`)
        assert.match(yield* text("h1"), /No list has a complete full scan yet/)
        const records =
          "Number(/([\\d,]+) record/.exec(document.querySelector('.run')?.innerText ?? '')?.[1].replace(',', '') ?? 0)"
        // Some pages of each of the three lists.
        allow(9)
        yield* until(`${records} > 0`)
        const first = Number(yield* evaluate(records))
        allow(9)
        yield* until(`${records} > ${first}`)
        allow(Infinity)
        yield* until("document.getElementById('sources').innerText.split('Idle').length === 4")
        // A list is idle a moment before its figures are read again.
        yield* until("/2,500[^]*2,500[^]*2,500/.test(document.getElementById('sources').innerText)")
        assert.match(yield* text("h1"), /All lists have a complete full scan/)
        assert.match(String(yield* evaluate("document.title")), /full scan[^]* · payments-worker/)
        assert.match(yield* text("#details"), /2,500 records on 25 pages, to the null cursor/)
        assert.deepStrictEqual(wrong, [])
        assert.notInclude(String(yield* evaluate("document.documentElement.outerHTML")), "sandbox_canary5ecret")
        // An open page does not keep the worker from ending.
        assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
        yield* until("document.getElementById('live').innerText.includes('No connection')")
        const again = yield* open(`http://127.0.0.1:${String((yield* start).port)}/`)
        const charted =
          "[...document.querySelectorAll('#details .amounts')].map((table) => [...table.querySelectorAll('td:nth-of-type(1)')]" +
          ".reduce((sum, { innerText }) => sum + Number(innerText.replace(',', '')), 0)).join()"
        yield* again.until(`${charted} === "2500,2500,2500"`)
      }))

    it.effect("shows a source that stalls in red and in words, before another one that works, and its recovery", () =>
      overPatientClock((advance) =>
        Effect.gen(function*() {
          const context = yield* Layer.build(Sandbox.layer({ records: 300, hostileText: 0.2 }))
          const sandbox = yield* Sandbox.pipe(Effect.provide(context))
          const working = yield* sandboxEnv({ records: 200 })
          const folder = yield* temporaryFolder
          const invoices = (maxAge: Duration.Input) =>
            ({ maxAge: Duration.fromInputUnsafe(maxAge), lists: ["invoices"] }) as const
          yield* startSources([
            makeSource("working", working.PAYMENTS_BASE_URL, join(folder, "working.db"), invoices("1 hour")),
            makeSource("stalling", sandbox.url, join(folder, "stalling.db"), invoices("12 seconds"))
          ], { stallAfter: Duration.seconds(2) })
          const { evaluate, text, until, wrong } = yield* open(yield* servePage)
          yield* until("document.querySelector('h1').innerText === 'All 2 lists are fresh'")
          assert.match(yield* text("#sources tbody"), /^working/)
          const color = evaluate("getComputedStyle(document.querySelector('.list-row .badge')).color")
          assert.strictEqual(yield* color, "rgb(20, 108, 60)")
          yield* sandbox.setFaults([{ fault: "latency", ms: 60_000 }])
          yield* until("document.querySelector('.list-row .badge').innerText === 'Stalled'")
          assert.strictEqual(yield* color, "rgb(176, 31, 22)")
          advance(12_000)
          yield* until("document.getElementById('findings').innerText.includes('At most 12 s is allowed')")
          assert.match(yield* text("#sources tbody"), /^stalling/)
          assert.match(yield* text("#findings"), /stalling · Invoices[^]*A full scan makes no progress: /)
          assert.match(yield* text("h1"), /1 list is stalled/)
          yield* sandbox.setFaults([])
          yield* until("document.querySelector('h1').innerText === 'All 2 lists are fresh'")
          assert.deepStrictEqual(wrong, [])
        })
      ).pipe(Effect.provide(Layer.fresh(testStatus))))
  })

  it.effect("turns a list red, in colour and words, when it gets stale, and tells screen readers", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.fresh)
      const { evaluate, text, until, wrong } = yield* open(server.url)
      const color = evaluate("getComputedStyle(document.querySelector('.summary')).color")
      assert.deepStrictEqual([yield* text("h1"), yield* color], ["All 6 lists are fresh", "rgb(20, 108, 60)"])
      server.set(snapshots.stale)
      yield* until("document.querySelector('h1').innerText.includes('stale')")
      assert.strictEqual(yield* color, "rgb(176, 31, 22)")
      // The worst source is the first.
      assert.match(yield* text("#sources tbody"), /^nordic[^]*Stale[^]*27 min old, limit 15 min/)
      assert.match(yield* text("#findings"), /The data is 27 min old. At most 15 min is allowed./)
      assert.strictEqual(yield* text("#spoken"), "1 of 6 lists is stale and 1 list is stalled")
      assert.deepStrictEqual(wrong, [])
    }))

  it.effect("has nothing that axe-core finds, in both colour schemes and at both widths, and fits", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.stale)
      const { evaluate, page, until, wrong } = yield* open(server.url)
      // A script of the debugger is not subject to the page's policy.
      yield* evaluate(axe)
      const shown = "[...document.querySelectorAll('.source .source-name')].map((e) => e.textContent).sort().join()"
      const check = Effect.fnUntraced(function*(state: Snapshot, width: number, scheme: "light" | "dark") {
        yield* Effect.promise(() => show(page, { width, scheme }))
        server.set(state)
        yield* until(`${shown} === "${state.sources.map(({ name }) => name).toSorted().join()}"`)
        assert.deepStrictEqual(yield* evaluate(axeRun), [], `${width} px, ${scheme}`)
        assert.isAtMost(Number(yield* evaluate("document.documentElement.scrollWidth")), width)
      })
      // The source that has a list in each state.
      const worst = { ...snapshots.stale, sources: snapshots.stale.sources.slice(1) }
      for (const width of [1280, 390]) {
        for (const scheme of ["light", "dark"] as const) yield* check(worst, width, scheme)
      }
      yield* check(snapshots.empty, 390, "dark")
      yield* check(snapshots.cluster, 390, "dark")
      yield* check(snapshots.handoffs, 390, "light")
      yield* check(snapshots.handoffs, 1280, "dark")
      yield* check(snapshots.many, 390, "light")
      assert.deepStrictEqual(wrong, [])
    }))

  it.effect("shows which runner has a source, also while it moves, and no age of a list that another one knows", () =>
    Effect.gen(function*() {
      const { cluster } = snapshots
      // The longest name of a runner.
      const long = "w".repeat(60)
      const server = yield* pageServer({ ...cluster, cluster: { runner: long, isHealthy: true } })
      const { evaluate, page, text, until, wrong } = yield* open(server.url)
      assert.match(yield* text(".top"), new RegExp(`Runner ${long}`))
      yield* Effect.promise(() => show(page, { width: 390, scheme: "light" }))
      assert.isAtMost(Number(yield* evaluate("document.documentElement.scrollWidth")), 390)
      const rows = evaluate(
        "[...document.querySelectorAll('.source')].map(({ innerText }) => innerText.replace(/\\s+/g, ' '))"
      )
      const [south, acme, nordic] = (yield* rows) as ReadonlyArray<string> // of three sources
      assert.match(String(south), /^south No runner postgres\S+schema=south$/)
      assert.match(String(acme), /^acme Running .*Fresh.*min/)
      assert.match(String(nordic), /^nordic Elsewhere Runner worker-2 postgres\S+schema=nordic$/)
      assert.match(yield* text("h1"), /All 3 lists are fresh, but something needs a look/)
      server.set({
        ...cluster,
        sources: cluster.sources.map((each) => ({
          ...each,
          state: "elsewhere" as const,
          runner: "worker-2",
          lists: []
        })),
        cluster: { runner: long, isHealthy: false }
      })
      yield* until("document.querySelector('h1').innerText === 'The database of the cluster does not answer'")
      assert.match(yield* text("#summary"), /3 sources on other runners/)
      assert.deepStrictEqual(wrong, [])
    }))

  it.effect("draws the changes per day in a locale that is no language tag, and says so where it cannot draw", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.fresh)
      const blank = yield* open("about:blank")
      assert.strictEqual(yield* blank.evaluate("navigator.language"), "en-US@posix")
      const { until, wrong } = yield* open(server.url)
      const drawn =
        "[...document.querySelectorAll('.plot')].map((plot) => { const canvas = plot.querySelector('canvas');" +
        " if (canvas === null) return false; const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);" +
        " return data.some((value) => value !== 0) && plot.querySelector('.undrawn') === null })"
      yield* until(`${drawn}.join() === "${Array.from({ length: 6 }, () => true).join()}"`)
      assert.deepStrictEqual(wrong, [])
      const undrawable = yield* open(
        server.url,
        true,
        "HTMLCanvasElement.prototype.getContext = () => { throw new Error() }"
      )
      yield* undrawable.until("getComputedStyle(document.querySelector('.undrawn')).visibility === 'visible'")
      assert.match(yield* undrawable.text("#details"), /This browser does not draw the chart[^]*As a table/)
    }))

  it.effect("shows every amount and whole statuses on wide screens", () =>
    Effect.gen(function*() {
      const payouts = list("payout-requests", 184_220, 130)
      const statuses = payouts.overview?.statuses.map(({ rows, sums }, index) => ({
        status: ["completed", "on_hold_by_review", "failed", "支払い".repeat(60)][index] ?? "",
        rows,
        sums: Object.fromEntries(Object.entries(sums).map(([column, sum]) => [column, `${sum}000`]))
      }))
      const overview = payouts.overview === null ? null : { ...payouts.overview, statuses: statuses ?? [] }
      const server = yield* pageServer({
        ...snapshots.fresh,
        sources: [source("acme", { lists: [{ ...payouts, overview }] })]
      })
      const { evaluate, page } = yield* open(server.url)
      // The boxes that extend beyond the box that scrolls, and statuses of one word that have two lines.
      const cut =
        "(() => { const box = document.querySelector('.amounts').closest('.scroll').getBoundingClientRect();" +
        " return [...document.querySelectorAll('.amounts th, .amounts td')].filter((cell) =>" +
        " cell.getBoundingClientRect().right > box.right + 0.5).map(({ innerText }) => innerText) })()"
      const broken = "[...document.querySelectorAll('.amounts .status')].filter((status) =>" +
        " /^\\w+$/.test(status.innerText) && status.getBoundingClientRect().height > 30).map(({ innerText }) => innerText)"
      for (const width of [1000, 1200, 1280, 1500]) {
        yield* Effect.promise(() => show(page, { width, scheme: "light" }))
        assert.deepStrictEqual([yield* evaluate(cut), yield* evaluate(broken)], [[], []], `${width} px`)
        assert.isAtMost(Number(yield* evaluate("document.documentElement.scrollWidth")), width)
      }
    }))

  it.effect("is complete without JavaScript", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.stale)
      const { requests, text } = yield* open(server.url, false)
      assert.match(yield* text("h1"), /1 of 6 lists is stale/)
      assert.match(yield* text("#sources"), /Stale[^]*27 min old, limit 15 min[^]*184,220/)
      assert.match(yield* text("#details"), /processing\s+35,002/)
      assert.match(yield* text("#live"), /As of 14:05:09 UTC/)
      assert.match(yield* text("footer"), /does not update itself/)
      assert.notInclude(requests, "/events")
    }))

  it.effect("filters 100 sources by text and state with the keyboard, and keeps the filter while states change", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.many)
      const { evaluate, page, press, text, until } = yield* open(server.url)
      yield* until("document.getElementById('live').dataset.state === 'live'")
      const shown = evaluate(
        "[...document.querySelectorAll('.source:not([hidden]) .source-name')].map((e) => e.innerText).join()"
      )
      // The skip link, the name and the filter.
      yield* press("Tab")
      assert.strictEqual(yield* evaluate("document.activeElement.className"), "skip")
      yield* press("Tab")
      yield* press("Tab")
      yield* Effect.promise(() => page.keyboard.type("stale"))
      assert.strictEqual(yield* shown, "merchant-068")
      assert.strictEqual(yield* text("#filter-count"), "1 of 100 sources")
      yield* Effect.promise(() => page.click("#filter-text", { count: 3 }))
      yield* press("Space")
      yield* press("Tab")
      yield* press("Space")
      assert.strictEqual(yield* shown, "merchant-042,merchant-068")
      const { sources } = snapshots.many
      server.set({
        ...snapshots.many,
        sources: [source("merchant-000", { lists: [list("invoices", 7, 5_000)] }), ...sources.slice(1)]
      })
      yield* until("document.querySelectorAll('.source:not([hidden])').length === 3")
      assert.strictEqual(yield* shown, "merchant-000,merchant-042,merchant-068")
      assert.strictEqual(yield* evaluate("document.activeElement.id"), "filter-wrong")
    }))

  it.effect("shows all sources when its own source is removed", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.many)
      const { page, until } = yield* open(`${server.url}/?source=merchant-003`)
      yield* until("document.getElementById('live').dataset.state === 'live'")
      server.set({ ...snapshots.many, sources: snapshots.many.sources.filter(({ name }) => name !== "merchant-003") })
      yield* until("document.querySelectorAll('.source').length === 99")
      assert.strictEqual(page.url(), `${server.url}/`)
    }))

  it.effect("shows text from outside as text", () =>
    Effect.gen(function*() {
      const hostile = "<img src=x onerror=alert(1)>\"'&\u202E\u0000</td>"
      const problem = { reason: "Transport", message: hostile, since: snapshots.fresh.at }
      const lists = [list("invoices", 9, 60, {
        failure: { ...problem, kind: "full" },
        holder: hostile,
        headProblem: hostile,
        consumers: [{ name: hostile, generation: "1f0e8a2c44d1", position: 1, lag: 2, movedAt: snapshots.fresh.at }],
        overview: {
          at: snapshots.fresh.at,
          days: [],
          statuses: [{ status: hostile, rows: 9, sums: { amount: "123456789012345678901234567890" } }],
          otherStatuses: { rows: 0, sums: {} }
        }
      })]
      const server = yield* pageServer({
        ...snapshots.fresh,
        sources: [source("a", { destination: hostile, problem, lists })]
      })
      const { evaluate, text, wrong } = yield* open(server.url)
      assert.strictEqual(yield* evaluate("document.images.length"), 0)
      const visible = "<img src=x onerror=alert(1)>\"'&\uFFFD\uFFFD</td>"
      for (const place of ["#findings", "#sources", "#details"]) assert.include(yield* text(place), visible)
      assert.include(yield* text("#details"), "123,456,789,012,345,678,901,234,567,890")
      assert.deepStrictEqual(wrong, [])
    }))

  it.effect("costs nothing while it is hidden, and is current as soon as it is shown again", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.fresh)
      const { evaluate, until } = yield* open(server.url)
      yield* until("document.getElementById('live').dataset.state === 'live'")
      const setHidden = (isHidden: boolean) =>
        evaluate(
          `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true });` +
            `document.dispatchEvent(new Event("visibilitychange"))`
        )
      yield* setHidden(true)
      server.set(snapshots.stale)
      // From some moment on, the worker does not even read its state.
      const isQuiet = Effect.gen(function*() {
        const taken = server.taken()
        yield* Effect.sleep("1200 millis")
        return server.taken() === taken
      })
      yield* Effect.repeat(isQuiet, { until: (quiet) => quiet })
      yield* setHidden(false)
      yield* until("document.querySelector('h1').innerText.includes('stale')")
    }))
})
