/** The page and its events as a browser receives them. */
import { assert, describe, it } from "@effect/vitest"
import { fetchOnce } from "@payments/testkit/FetchOnce"
import { Context, Effect, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { get, type IncomingMessage } from "node:http"
import { Assets } from "../../src/page/Assets.ts"
import { Feed } from "../../src/page/Feed.ts"
import type { Message } from "../../src/page/Message.ts"
import { Status } from "../../src/state/Status.ts"
import type { Snapshot } from "../../src/state/StatusSnapshot.ts"
import { pageServer } from "./PageServer.ts"
import { list, snapshots, source } from "./Snapshots.ts"

interface Event {
  readonly id: string
  readonly message: Message
}

/** Connects to the events. Closing the scope disconnects. */
const connect = Effect.fnUntraced(function*(url: string, since = "") {
  const response = yield* Effect.acquireRelease(
    Effect.promise(() =>
      new Promise<IncomingMessage>((resolve, reject) =>
        get(`${url}/events?since=${since}`, resolve).on("error", reject)
      )
    ),
    (answer) => Effect.sync(() => answer.destroy())
  )
  let text = ""
  const read = () => response.setEncoding("utf8").on("data", (chunk: string) => text += chunk)
  const events = (): ReadonlyArray<Event> =>
    text.split("\n\n").slice(0, -1).filter((event) => event.startsWith("id: ")).map((event) => {
      const [id = "", data = ""] = event.split("\n")
      return { id: id.slice("id: ".length), message: JSON.parse(data.slice("data: ".length)) as Message } // the page's own format
    })
  return { response, read, events, text: () => text }
})

const until = (matches: () => boolean) =>
  Effect.repeat(Effect.sleep("20 millis"), { until: matches }).pipe(
    Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.die(new Error("timed out")) })
  )

const pageOf = (url: string) =>
  Effect.promise(() =>
    fetchOnce(url).then(async (response) => ({
      status: response.status,
      html: await response.text(),
      headers: response.headers
    }))
  )

const withRows = (rows: number): Snapshot => ({
  ...snapshots.many,
  sources: snapshots.many.sources.map((each, index) =>
    index === 7 ? source(each.name, { lists: [list("invoices", rows, 60)] }) : each
  )
})

describe("the events of the page", () => {
  it.live("contain only what has changed since the page, and are rendered once for 50 browsers", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(withRows(1_000))
      const { html } = yield* pageOf(server.url)
      const version = /data-version="([^"]+)"/.exec(html)?.[1] ?? ""
      const clients = yield* Effect.forEach(Array.from({ length: 50 }), () => connect(server.url, version), {
        concurrency: 50
      })
      for (const { read } of clients) read()
      yield* Effect.sleep("1100 millis")
      const [taken, start] = [server.taken(), performance.now()]
      server.set(withRows(1_234))
      yield* until(() => clients.every(({ events }) => events().length === 1))
      assert.isAtMost(server.taken() - taken, 2 + (performance.now() - start) / 1000)
      const [{ events } = { events: () => [] }] = clients
      const [event] = events()
      assert.deepStrictEqual(event?.message.changed.map(({ id }) => id), ["source:merchant-008"])
      assert.include(event?.message.changed[0]?.html, "1,234")
      assert.isUndefined(event?.message.order)
      assert.isAtMost(JSON.stringify(event?.message).length, 4_000)
      // A browser that was away gets what it has missed; another process of the worker sends everything.
      const [back, other] = [yield* connect(server.url, version), yield* connect(server.url, "00000000.1")]
      back.read()
      other.read()
      yield* until(() => back.events().length + other.events().length === 2)
      assert.deepStrictEqual(back.events(), events())
      assert.strictEqual(other.events()[0]?.message.order?.sources.length, 100)
    }).pipe(Effect.scoped))

  it.live("skip states for a browser that reads slowly, and end with the latest", () =>
    Effect.gen(function*() {
      const padded = (round: number): Snapshot => ({
        ...snapshots.fresh,
        sources: [source("acme", { destination: `${round} ${"x".repeat(2_000_000)}` })]
      })
      const server = yield* pageServer(padded(0))
      const slow = yield* connect(server.url)
      const rounds = 4
      for (let round = 1; round <= rounds; round++) {
        server.set(padded(round))
        yield* Effect.sleep("1020 millis")
      }
      slow.read()
      yield* until(() =>
        slow.events().at(-1)?.message.changed.some(({ html }) => html.includes(`<bdi>${rounds} x`)) === true
      )
      assert.isBelow(slow.events().length, rounds)
    }).pipe(Effect.scoped))

  it.effect("are sent once per second at most, and a heartbeat every 10 s", () =>
    Effect.gen(function*() {
      let snapshot = withRows(0)
      let taken = 0
      const status = Layer.mock(Status, {
        noteRateUnsafe: () => {},
        current: Effect.sync(() => {
          taken++
          return snapshot
        })
      })
      const feed = Context.get(yield* Layer.build(Layer.provide(Feed.layer, [Assets.layer, status])), Feed)
      const html = yield* feed.page(undefined)
      const stream = yield* feed.events(undefined, /data-version="([^"]+)"/.exec(html ?? "")?.[1] ?? "")
      const received: Array<string> = []
      const decoder = new TextDecoder()
      yield* Effect.forkChild(Stream.runForEach(stream ?? Stream.empty, (event) =>
        Effect.sync(() =>
          received.push(decoder.decode(event).startsWith("event: beat") ? "beat" : "changes")
        )))
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(received, ["beat"])
      // Each page of an export changes the state.
      const before = taken
      for (let tenths = 1; tenths <= 50; tenths++) {
        snapshot = withRows(tenths)
        yield* TestClock.adjust("100 millis")
      }
      assert.deepStrictEqual(received, [
        "beat",
        ...Array.from({ length: 5 }, () =>
          "changes")
      ])
      assert.strictEqual(taken - before, 5)
      yield* TestClock.adjust("29 seconds")
      assert.deepStrictEqual(received.slice(6), ["beat", "beat"])
    }).pipe(Effect.scoped))

  it.live("are refused to too many browsers, and again there when some have left", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.empty)
      yield* Effect.scoped(Effect.gen(function*() {
        const clients = yield* Effect.forEach(Array.from({ length: 200 }), () => connect(server.url), {
          concurrency: 20
        })
        for (const { read } of clients) read()
        yield* until(() => clients.every(({ text }) => text().includes("event: beat")))
        const { headers, status } = yield* pageOf(`${server.url}/events`)
        assert.deepStrictEqual([status, headers.get("retry-after")], [503, "10"])
      }))
      yield* Effect.repeat(
        Effect.scoped(Effect.map(connect(server.url), ({ response }) => response.statusCode)),
        { until: (status) => status === 200 }
      )
    }).pipe(Effect.scoped))
})

describe("the page over HTTP", () => {
  it.live("forbids everything from elsewhere, and is never stored", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.stale)
      const { headers, html, status } = yield* pageOf(server.url)
      assert.strictEqual(status, 200)
      assert.strictEqual(
        headers.get("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
      )
      assert.deepStrictEqual([headers.get("cache-control"), headers.get("x-content-type-options")], [
        "no-store",
        "nosniff"
      ])
      assert.notMatch(html, /<style|style=|<script>|javascript:| on[a-z]+=/)
      for (const path of html.match(/\/assets\/[^"]+/g) ?? []) {
        const asset = yield* pageOf(`${server.url}${path}`)
        assert.deepStrictEqual([asset.status, asset.headers.get("cache-control")], [
          200,
          "public, max-age=31536000, immutable"
        ])
      }
    }).pipe(Effect.scoped))

  it.live("has a page of its own for each source, with details, and renders 100 sources quickly", () =>
    Effect.gen(function*() {
      const server = yield* pageServer(snapshots.many)
      const { html } = yield* pageOf(`${server.url}/?source=merchant-003`)
      assert.include(html, "details:merchant-003/invoices")
      assert.notInclude(html, "merchant-004")
      const unknown = yield* pageOf(`${server.url}/?source=${encodeURIComponent("<b>")}`)
      assert.include(unknown.html, "merchant-004")
      const all = yield* pageOf(server.url)
      assert.notInclude(all.html, "details:")
      assert.isBelow(all.html.length, 500_000)
      const durations: Array<number> = []
      for (let request = 0; request < 20; request++) {
        const start = performance.now()
        yield* pageOf(server.url)
        durations.push(performance.now() - start)
      }
      // Half of them. The machine may not run for seconds during some of the others.
      assert.isBelow(durations.toSorted((one, other) => one - other)[10] ?? Infinity, 500)
    }).pipe(Effect.scoped))
})
