/** The child process of a measurement: a server, or one workload. It receives requests as messages. */
import "effect/schema/SchemaJITCompiler/enable"
import { readFileSync } from "node:fs"
import { listen } from "./harness/PageServer.ts"
import type { WorkloadResult } from "./harness/WorkloadResult.ts"
import { workloads } from "./workloads/all.ts"
import type { ChildRequest, ChildResponse } from "./workloads/Process.ts"

const handle = async (request: ChildRequest): Promise<ChildResponse> => {
  switch (request.do) {
    case "listen":
      return { url: await listen(request.records) }
    case "run": {
      const run = await workloads[request.workload]()
      return timed(() => run(request.url))
    }
    case "copy": {
      const { bareSqlite } = await import("./workloads/bareSqlite.ts")
      return timed(() => bareSqlite(request.url, request.folder))
    }
    case "copyToPostgres": {
      const { barePostgres } = await import("./workloads/barePostgres.ts")
      return timed(() => barePostgres(request.url, request.database, request.schema, request.by))
    }
    case "export": {
      const { exportTo } = await import("./workloads/exports.ts")
      return timed(() => exportTo(request.options))
    }
    case "compareCopies": {
      const { compareCopies } = await import("./workloads/copies.ts")
      return timed(() => compareCopies(request.copies))
    }
    case "readCopies": {
      const { readCopies } = await import("./workloads/copies.ts")
      return timed(() => readCopies(request.copies))
    }
    case "serve": {
      const { serve } = await import("./workloads/SandboxServer.ts")
      return { url: await serve(request.options) }
    }
    case "firstPage": {
      const { firstPage } = await import("./workloads/SandboxServer.ts")
      return { ms: await firstPage(request.records) }
    }
    case "load": {
      const { load } = await import("./harness/Load.ts")
      return { ms: await load(request.url, request.pages, request.requests) }
    }
    case "readAll": {
      const { readAll } = await import("./harness/Load.ts")
      return { records: await readAll(request.url) }
    }
    case "memory":
      return { peakRss: process.resourceUsage().maxRSS * 1024 }
    case "serveMany": {
      const { serveMany } = await import("./workloads/SandboxServer.ts")
      return { urls: await serveMany(request.services) }
    }
    case "setFaults": {
      const { setFaults } = await import("./workloads/SandboxServer.ts")
      await setFaults(request.service, request.faults)
      return {}
    }
    case "countRequests": {
      const { countRequests } = await import("./workloads/SandboxServer.ts")
      return { requests: await countRequests() }
    }
    case "countStatuses": {
      const { countStatuses } = await import("./workloads/SandboxServer.ts")
      return { statuses: await countStatuses() }
    }
    case "storm": {
      const { storm } = await import("./workloads/paymentsApi.ts")
      await storm(request.url, request.listings)
      return {}
    }
  }
}

/** Returns the bytes that this process has written to the disk so far; 0 on systems other than Linux. */
const writtenBytes = (): number => {
  const io = process.platform === "linux" ? readFileSync("/proc/self/io", "utf8") : ""
  return Number(/^write_bytes: (\d+)$/m.exec(io)?.[1] ?? 0)
}

const timed = async (work: () => Promise<WorkloadResult>): Promise<ChildResponse> => {
  const before = writtenBytes()
  const start = performance.now()
  const result = await work()
  const ms = performance.now() - start
  return { ms, result, peakRss: process.resourceUsage().maxRSS * 1024, written: writtenBytes() - before }
}

process.on("message", (request: ChildRequest) => {
  handle(request).then(
    (response) => process.send?.(response),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    }
  )
})
process.on("disconnect", () => process.exit())
