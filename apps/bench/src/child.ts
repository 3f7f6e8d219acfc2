/** A process of a measurement: the server, or one workload. What it is to do comes in messages. */
import "effect/schema/SchemaJITCompiler/enable"
import { readFileSync } from "node:fs"
import { listen } from "./PageServer.ts"
import type { Answer, Order } from "./Process.ts"
import type { Tally } from "./Tally.ts"
import { workloads } from "./workloads/all.ts"

const obey = async (order: Order): Promise<Answer> => {
  switch (order.do) {
    case "listen":
      return { url: await listen(order.records) }
    case "run": {
      const run = await workloads[order.workload]()
      return timed(() => run(order.url))
    }
    case "copy": {
      const { bareSqlite } = await import("./workloads/bareSqlite.ts")
      return timed(() => bareSqlite(order.url, order.folder))
    }
    case "copyToPostgres": {
      const { barePostgres } = await import("./workloads/barePostgres.ts")
      return timed(() => barePostgres(order.url, order.database, order.schema, order.by))
    }
    case "export": {
      const { exportTo } = await import("./workloads/exports.ts")
      return timed(() => exportTo(order.options))
    }
    case "serve": {
      const { serve } = await import("./SandboxServer.ts")
      return { url: await serve(order.options) }
    }
    case "first": {
      const { firstPage } = await import("./SandboxServer.ts")
      return { ms: await firstPage(order.records) }
    }
    case "load": {
      const { load } = await import("./Load.ts")
      return { ms: await load(order.url, order.pages, order.requests) }
    }
    case "walk": {
      const { walk } = await import("./Load.ts")
      return { records: await walk(order.url) }
    }
    case "memory":
      return { peakRss: process.resourceUsage().maxRSS * 1024 }
    case "storm": {
      const { storm } = await import("./workloads/ours.ts")
      await storm(order.url, order.listings)
      return {}
    }
  }
}

/** Of this process, so far. Only Linux tells. */
const written = (): number => {
  const io = process.platform === "linux" ? readFileSync("/proc/self/io", "utf8") : ""
  return Number(/^write_bytes: (\d+)$/m.exec(io)?.[1] ?? 0)
}

const timed = async (work: () => Promise<Tally>): Promise<Answer> => {
  const before = written()
  const start = performance.now()
  const tally = await work()
  const ms = performance.now() - start
  return { ms, tally, peakRss: process.resourceUsage().maxRSS * 1024, written: written() - before }
}

process.on("message", (order: Order) => {
  obey(order).then(
    (answer) => process.send?.(answer),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    }
  )
})
process.on("disconnect", () => process.exit())
