/**
 * What generated lists cost. `node packages/sandbox/bench.ts` prints the time of a record and of first pages, small
 * against large; with `rss N` it serves all N payout requests and prints the memory that this took.
 */
import { ListServer } from "@payments/core/testing"
import { RecordWriter, World } from "@payments/sandbox"

const lists = ["payoutRequests", "payinSources", "invoices"] as const
const [command, count] = process.argv.slice(2)

const first = (world: World.World, list: typeof lists[number], filters: Readonly<Record<string, string>> = {}) => {
  const answer = world.servers[list]({ filters, limit: 100, cursor: undefined })
  if (answer._tag !== "Page") throw new Error("no page")
  return answer
}

const median = (run: () => void, runs: number): number => {
  const times = Array.from({ length: runs }, () => {
    const start = performance.now()
    run()
    return performance.now() - start
  })
  return times.toSorted((a, b) => a - b)[Math.floor(runs / 2)] ?? 0
}

const writer = new RecordWriter()

/** The bytes of a page: written as such, or by way of its text. */
const ways = {
  bytes: (world: World.World, list: typeof lists[number], request: ListServer.ListRequest) =>
    world.bytes[list](request, writer),
  text: (world: World.World, list: typeof lists[number], request: ListServer.ListRequest) => {
    const page = world.servers[list](request)
    return page._tag === "Page" ? Buffer.from(ListServer.renderPage(page)) : undefined
  }
}

/** Reads a list to its end. */
const readAll = (world: World.World, list: typeof lists[number], way: keyof typeof ways): void => {
  for (let cursor: string | undefined;;) {
    const bytes = ways[way](world, list, { filters: {}, limit: 100, cursor })
    const end = Buffer.from(bytes?.subarray(-200) ?? []).toString()
    cursor = /"cursor":"([^"]+)","count":\d+}$/.exec(end)?.[1]
    if (cursor === undefined) return
  }
}

if (command === "rss") {
  const records = Number(count)
  readAll(World.make({ records }), "payoutRequests", "bytes")
  const { rss } = process.memoryUsage()
  console.log(
    `${records} records served: RSS ${(rss / 2 ** 20).toFixed(1)} MiB, highest ${
      (process.resourceUsage().maxRSS / 1024).toFixed(1)
    } MiB`
  )
} else {
  console.log(`node ${process.version}, ${process.arch}`)
  for (const list of lists) {
    const world = World.make({ records: 20_000 })
    for (const way of ["bytes", "text"] as const) {
      const perRecord = median(() => readAll(world, list, way), 9) / 20_000 * 1000
      console.log(`${list}: ${perRecord.toFixed(2)} µs a record in pages of 100, by way of ${way}`)
    }
  }
  for (const order of ["oldest", "newest", "shuffled"] as const) {
    const [small, large] = [1000, 10_000_000].map((records) => {
      const world = World.make({ records, order })
      const start = performance.now()
      first(world, "invoices")
      const cold = performance.now() - start
      return { world, cold, records, warm: median(() => first(World.make({ records, order }), "invoices"), 101) }
    })
    for (const size of [small, large]) {
      console.log(
        `${order}, ${size?.records}: first page ${size?.cold.toFixed(2)} ms cold, ${
          size?.warm.toFixed(3)
        } ms warm, with making the world`
      )
    }
    if (large === undefined) continue
    for (const list of lists) {
      const sample = JSON.parse(
        first(large.world, list).items.find((text) => text.includes("settlementDate") || list !== "invoices") ?? "{}"
      ) as Record<string, string>
      const filters = list === "invoices"
        ? ["reference", "customerDocumentNumber", "contract", "paymentDate", "settlementDate", "settlementTime"]
        : ["reference", "customerId", ...list === "payoutRequests" ? ["payoutTargetId"] : []]
      const asked: ReadonlyArray<readonly [string, Readonly<Record<string, string>>]> = [
        ...filters.map((field) => [field, { [field]: sample[field] ?? "" }] as const),
        ...list === "invoices"
          ? [
            ["settlementDate + settlementTime", {
              settlementDate: sample["settlementDate"] ?? "",
              settlementTime: "1"
            }] as const
          ]
          : [
            ["customerId of the largest", { customerId: "cus_0" }] as const,
            ["customerId of the smallest large one", { customerId: "cus_7" }] as const
          ]
      ]
      for (const [name, filter] of asked) {
        const start = performance.now()
        const { items } = first(large.world, list, filter)
        const cold = performance.now() - start
        const warm = median(() => first(large.world, list, filter), 31)
        console.log(
          `${order}, 10000000: ${list} by ${name}: ${items.length} records, ${cold.toFixed(2)} ms cold, ${
            warm.toFixed(2)
          } ms warm`
        )
      }
    }
  }
}
