/**
 * What a page costs, in counts that do not vary with the machine. A commit that raises one of them says why. The times are those
 * of `npm run bench -- core`.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Layer, Scheduler, Stream } from "effect"
import { HttpClient } from "effect/http"
import { type HeapProfiler, Session } from "node:inspector/promises"
import { withTunedRead } from "../../src/http/TunedRead.ts"
import { type Page, PaymentsApi } from "../../src/index.ts"
import { apiOver } from "../http/Clients.ts"

const recordsPerPage = 100
const recordOf = (index: number) => `{"id":"por_${index}","amount":${index},"description":"é ${"x".repeat(400)}"}`

const numbered = (page: number) =>
  Array.from({ length: recordsPerPage }, (_, index) => 100 + page * recordsPerPage + index)

/** A client as that of Node, whose answers arrive at once: the next of `pages` pages. */
const clientOf = (pages: number) => {
  const bodies = Array.from({ length: pages }, (_, page) => {
    const items = numbered(page).map(recordOf)
    return Buffer.from(`{"items":[${items.join(",")}],"cursor":${page === pages - 1 ? null : `"cursor ${page}"`}}`)
  })
  const client = withTunedRead(
    HttpClient.make(() => Effect.die("the tuned read is used")),
    () => Effect.sync(() => ({ status: 200, headers: {}, bytes: bodies.shift() ?? Buffer.alloc(0) }))
  )
  return Layer.succeed(HttpClient.HttpClient, client)
}

/** Counts the operators that fibers run. */
class CountingScheduler extends Scheduler.MixedScheduler {
  count = 0
  override shouldYield(fiber: Parameters<Scheduler.MixedScheduler["shouldYield"]>[0]) {
    this.count++
    return super.shouldYield(fiber)
  }
}

type Read = (page: Page<{ readonly id: string }>) => void

type Client = ReturnType<typeof clientOf>

const list = (client: Client, read: Read, scheduler: Scheduler.Scheduler = new Scheduler.MixedScheduler()) =>
  Effect.runPromise(
    PaymentsApi.use((api) =>
      Stream.runForEach(api.payoutRequests.pages({ limit: recordsPerPage }), (page) => Effect.sync(() => read(page)))
    ).pipe(Effect.provide(apiOver(client)), Effect.provideService(Scheduler.Scheduler, scheduler))
  )

/** Returns what a further page costs: the difference of a long and a short listing, per page. */
const perPage = async (costOf: (client: Client) => Promise<number>): Promise<number> => {
  const [short, long] = [await costOf(clientOf(20)), await costOf(clientOf(120))]
  return (long - short) / 100
}

const operators = (read: Read) =>
  perPage(async (client) => {
    const scheduler = new CountingScheduler()
    await list(client, read, scheduler)
    return scheduler.count
  })

/** The characters that `JSON.parse` reads, as a share of those of the records. */
const parses = async (read: Read) =>
  await perPage(async (client) => {
    const parse = vi.spyOn(JSON, "parse")
    await list(client, read)
    const characters = parse.mock.calls.reduce((sum, [json]) => sum + String(json).length, 0)
    parse.mockRestore()
    return characters
  }) / (recordsPerPage * recordOf(5000).length)

/**
 * The bytes that are allocated in the JavaScript heap, as V8 samples them: the lowest of several counts, because functions
 * that V8 has not optimized yet allocate more.
 */
const allocatedBytes = async (read: Read) =>
  Math.min(...await Effect.runPromise(Effect.replicateEffect(Effect.promise(() => sampledBytes(read)), 6)))

const sampledBytes = async (read: Read) => {
  const session = new Session()
  session.connect()
  const bytes = await perPage(async (client) => {
    await session.post("HeapProfiler.startSampling", {
      samplingInterval: 1024,
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true
    })
    await list(client, read)
    const { profile } = await session.post("HeapProfiler.stopSampling")
    return sizeOf(profile.head)
  })
  session.disconnect()
  return bytes
}

const sizeOf = ({ children, selfSize }: HeapProfiler.SamplingHeapProfileNode): number =>
  children.reduce((sum, child) => sum + sizeOf(child), selfSize)

describe("a further page of a listing", () => {
  /** A quarter of the bytes is the text of the body, and another one the texts in its records. */
  const readings: ReadonlyArray<{ readonly name: string; readonly read: Read; readonly bytes: number }> = [
    { name: "records", read: (page) => page.items, bytes: 190_000 },
    { name: "records with their exact texts", read: (page) => page.records(), bytes: 209_000 }
  ]
  it.each(readings)("costs these operators, parses and allocations: $name", async ({ bytes, read }) => {
    await list(clientOf(500), read)
    // Those of Stream.paginate, and: the prefetch and its fiber, the retries, the pace, the request, its metric and its log.
    assert.strictEqual(await operators(read), 66)
    // Each record is parsed once, as part of its page.
    assert.approximately(await parses(read), 1, 0.01)
    assert.approximately(await allocatedBytes(read), bytes, bytes / 10)
  })
})
