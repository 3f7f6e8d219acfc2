/** What a child process can do, by name. Each task loads only the code that it measures. */
import type { SandboxOptions } from "@payments/sandbox"
import { readFileSync } from "node:fs"
import type { WorkloadResult } from "../harness/WorkloadResult.ts"
import { workloads } from "./all.ts"
import type { BarePostgresOptions } from "./barePostgres.ts"
import type { BareSqliteOptions } from "./bareSqlite.ts"
import type { Copies } from "./copies.ts"
import type { ExportOptions } from "./exports.ts"
import type { HandOffOptions } from "./handoffs.ts"
import type { ReceiverOptions } from "./webhooks.ts"

/** What this process has written to the disk so far; 0 on systems other than Linux. */
const writtenBytes = (): number => {
  const io = process.platform === "linux" ? readFileSync("/proc/self/io", "utf8") : ""
  return Number(/^write_bytes: (\d+)$/m.exec(io)?.[1] ?? 0)
}

const peakRss = () => process.resourceUsage().maxRSS * 1024

const timed = async (work: () => Promise<WorkloadResult>) => {
  const before = writtenBytes()
  const [start, cpu] = [performance.now(), process.cpuUsage()]
  const result = await work()
  const ms = performance.now() - start
  const { system, user } = process.cpuUsage(cpu)
  return { ...result, ms, cpuMs: (user + system) / 1000, peakRss: peakRss(), written: writtenBytes() - before }
}

/** What a task read, its time, the processor time of its process, and the bytes that it wrote to the disk. */
export type Timed = Awaited<ReturnType<typeof timed>>

export const tasks = {
  /** Starts a server with a list of this length, and returns its base address. */
  listen: async (records: number) => (await import("../harness/PageServer.ts")).listen(records),
  serveMany: async (services: ReadonlyArray<SandboxOptions>) =>
    (await import("./SandboxServer.ts")).serveMany(services),
  countRequests: async () => (await import("./SandboxServer.ts")).countRequests(),
  peakRss: () => Promise.resolve(peakRss()),
  read: async ({ url, workload }: ReadOptions) => {
    const run = await workloads[workload]()
    return timed(() => run(url))
  },
  copy: async (input: BareSqliteOptions) => {
    const { bareSqlite } = await import("./bareSqlite.ts")
    return timed(() => bareSqlite(input))
  },
  copyToPostgres: async (input: BarePostgresOptions) => {
    const { barePostgres } = await import("./barePostgres.ts")
    return timed(() => barePostgres(input))
  },
  export: async (options: ExportOptions) => {
    const { exportTo } = await import("./exports.ts")
    return timed(() => exportTo(options))
  },
  receive: async (options: ReceiverOptions) => (await import("./webhooks.ts")).receive(options),
  sendCaptured: async ({ file, url }: { readonly file: string; readonly url: string }) => {
    const send = (await import("./webhooks.ts")).bareLoop(file)
    return timed(() => send(url))
  },
  handOff: async (options: HandOffOptions) => {
    const { handOffAll } = await import("./handoffs.ts")
    return timed(() => handOffAll(options))
  },
  follow: async (options: HandOffOptions) => (await import("./handoffs.ts")).followAll(options),
  compareCopies: async (input: Copies) => {
    const { compareCopies } = await import("./copies.ts")
    return timed(() => compareCopies(input))
  },
  readCopies: async (input: Copies) => {
    const { readCopies } = await import("./copies.ts")
    return timed(() => readCopies(input))
  },
  readCsv: async (file: string) => {
    const { readCsv } = await import("./readCsv.ts")
    return timed(() => readCsv(file))
  },
  /** Profiles a task, and returns the milliseconds of each stage. */
  profile: async (input: ProfiledTask) => {
    const { profiled } = await import("./profile.ts")
    return profiled(() => input.name === "read" ? tasks.read(input.input) : tasks.export(input.input))
  },
  storm: async (input: { readonly url: string; readonly listings: number }) =>
    (await import("./paymentsApi.ts")).storm(input)
}

export type Tasks = typeof tasks

interface ReadOptions {
  readonly url: string
  readonly workload: keyof typeof workloads
}

type ProfiledTask =
  | { readonly name: "read"; readonly input: ReadOptions }
  | { readonly name: "export"; readonly input: ExportOptions }
