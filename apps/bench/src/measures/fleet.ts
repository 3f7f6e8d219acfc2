/**
 * Measures a cluster of workers over many sources: how evenly the sources are spread, what a further runner costs, and
 * how fresh the lists are. Runners join the first one while it works.
 */
import { Lists } from "@payments/core"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { Client } from "pg"
import { startDatabase, user } from "../harness/Database.ts"
import { memory } from "../harness/ProcessFigures.ts"
import { programs } from "../harness/Programs.ts"
import { type Figure, median } from "../harness/Report.ts"
import { Runner } from "../harness/Runner.ts"
import { observe, startServices, writeSources } from "../workloads/ManySources.ts"
import type { Process } from "../workloads/Process.ts"

export interface FleetSizes {
  readonly sources: number
  /** Records of each list of a source. */
  readonly recordsPerList: number
  /** The interval of the full scans in seconds. */
  readonly every: number
  /** How long each number of runners is measured. */
  readonly seconds: number
  /** The numbers of runners, in ascending order. */
  readonly runners: ReadonlyArray<number>
}

/** The sizes for which the targets are defined. */
export const fullFleetSizes: FleetSizes = {
  sources: 100,
  recordsPerList: 500,
  every: 30,
  seconds: 90,
  runners: [1, 2, 4]
}

/** The figures of one number of runners. */
interface Measured extends Awaited<ReturnType<typeof measure>> {
  readonly runners: number
  /** How many sources each runner has. */
  readonly shares: ReadonlyArray<number>
  /** The sources that have another runner than before, and the seconds until the last one had it. */
  readonly moved: number
  readonly settledAfter: number
}

/** `log` receives a line after each step. */
export const measureFleet = async (sizes: FleetSizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { folder, server } = await startDatabase(stack, ["max_connections=2000"])
  const { services, urls } = await startServices(stack, sizes.sources, sizes.recordsPerList)
  const file = writeSources(
    folder,
    [`every = "${sizes.every}s"`],
    urls.map((url, index) => ({ name: `s${index}`, url, to: `postgres:///postgres?schema=s${index}` }))
  )
  const client = new Client({ host: "127.0.0.1", port: server.port, user, database: "postgres" })
  await client.connect()
  stack.defer(() => client.end())

  const runners: Array<Runner> = []
  const measured: Array<Measured> = []
  let holders: ReadonlyMap<string, number> = new Map()
  for (const count of sizes.runners) {
    while (runners.length < count) {
      const name = `r${runners.length}`
      const runner = await Runner.start({
        name,
        program: programs.worker,
        args: ["--config", file, "--cluster", "postgres:///postgres", "--runner", name],
        env: { PGUSER: user },
        log: join(folder, `${name}.log`),
        postgresPort: server.port
      })
      runners.push(stack.use(runner))
    }
    for (const runner of runners) await runner.untilListening()
    const settled = await untilSettled({ client, sources: sizes.sources, before: holders, movesAreExpected: count > 1 })
    const moved = [...settled.holders].filter(([source, pid]) => holders.has(source) && holders.get(source) !== pid)
    holders = settled.holders
    const shares = runners.map(({ pid }) => [...holders.values()].filter((holder) => holder === pid).length)
    const figures = await measure(client, services, runners, sizes.seconds)
    measured.push({ runners: count, shares, moved: moved.length, settledAfter: settled.seconds, ...figures })
    log(`${count} runners: ${shares.join(", ")} sources; ${moved.length} moved in ${settled.seconds.toFixed(0)} s`)
  }
  return measured.flatMap((one) => figuresOf(one, measured[0] ?? one))
}

const figuresOf = (one: Measured, first: Measured): ReadonlyArray<Figure> => {
  const named = `${one.runners} ${one.runners === 1 ? "runner" : "runners"}`
  return [
    { name: `sources of a runner, ${named}, fewest`, value: Math.min(...one.shares), unit: "count" },
    { name: `sources of a runner, ${named}, most`, value: Math.max(...one.shares), unit: "count" },
    { name: `sources that moved, ${named}`, value: one.moved, unit: "count" },
    { name: `last source at its runner after the start, ${named}`, value: one.settledAfter, unit: "s" },
    { name: `pages per second, ${named}`, value: one.pagesPerSecond, unit: "pages/s" },
    { name: `CPU per 1,000 pages, ${named}`, value: one.cpu, unit: "ms" },
    { name: `CPU per 1,000 pages, ${named} ÷ 1 runner`, value: one.cpu / first.cpu, unit: "×" },
    { name: `age p95 of all lists, ${named}`, value: one.age, unit: "s" },
    { name: `age p95 of all lists, ${named} ÷ 1 runner`, value: one.age / first.age, unit: "×" },
    { name: `resident set of a runner, ${named}, median`, value: one.memory.median / 2 ** 20, unit: "MiB" },
    { name: `resident set of a runner, ${named}, largest`, value: one.memory.largest / 2 ** 20, unit: "MiB" },
    { name: `sources that were handed over meanwhile, ${named}`, value: one.handovers, unit: "count" },
    { name: `sessions of PostgreSQL, ${named}`, value: one.sessions, unit: "count" }
  ]
}

/** Returns the process that has the leases of each source. */
const holdersOf = async (client: Client, sources: number): Promise<ReadonlyMap<string, number>> => {
  const queries = Array.from(
    { length: sources },
    (_, index) =>
      `SELECT 's${index}' AS source, min(holder) AS holder FROM s${index}.leases WHERE expires > clock_timestamp()
    HAVING count(*) = ${Lists.all.length} AND count(DISTINCT split_part(holder, ' ', 2)) = 1`
  )
  const { rows } = await client.query<{ source: string; holder: string }>(queries.join(" UNION ALL "))
  // A holder is described as `process 123 on HOST since …`.
  return new Map(rows.map(({ holder, source }) => [source, Number(holder.split(" ")[1])]))
}

/** How long no source may move before the runners count as settled, and how long this may take. */
const quietMs = 20_000
const longestMs = 300_000

/** Waits until every source has a runner, each list has a complete scan, and no source moves any more. */
const untilSettled = async ({ before, client, movesAreExpected, sources }: {
  readonly client: Client
  readonly sources: number
  /** The process of each source before. */
  readonly before: ReadonlyMap<string, number>
  readonly movesAreExpected: boolean
}) => {
  const start = performance.now()
  let holders = before
  let changedAt = start
  for (;;) {
    const { rows: [schemas] } = await client.query<{ count: string }>(
      "SELECT count(*) FROM pg_tables WHERE tablename = 'leases'"
    )
    const now = Number(schemas?.count) === sources ? await holdersOf(client, sources) : new Map<string, number>()
    if (now.size !== holders.size || [...now].some(([source, pid]) => holders.get(source) !== pid)) {
      holders = now
      changedAt = performance.now()
    }
    const isQuiet = performance.now() - changedAt >= quietMs && (changedAt > start || !movesAreExpected)
    if (isQuiet && holders.size === sources && await isComplete(client, sources)) {
      return { holders, seconds: (changedAt - start) / 1000 }
    }
    if (performance.now() - start > longestMs) throw new Error(`${holders.size} of ${sources} sources have a runner`)
    await sleep(1000)
  }
}

const isComplete = async (client: Client, sources: number): Promise<boolean> => {
  const queries = Array.from(
    { length: sources },
    (_, index) => `SELECT count(DISTINCT list) AS lists FROM s${index}.scans WHERE state = 'complete'`
  )
  const { rows } = await client.query<{ lists: string }>(queries.join(" UNION ALL "))
  return rows.every(({ lists }) => lists === String(Lists.all.length))
}

const measure = async (client: Client, services: Process, runners: ReadonlyArray<Runner>, seconds: number) => {
  const handovers = () => runners.reduce((total, { messages }) => total + (messages.get("source released") ?? 0), 0)
  const handoversBefore = handovers()
  const observed = await observe(runners, services, seconds)
  const sets = runners.map(({ pid }) => memory(pid, "VmRSS"))
  const { rows: [sessions] } = await client.query<{ count: string }>(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
  )
  return {
    ...observed,
    memory: { median: median(sets), largest: Math.max(...sets) },
    /** Sessions of the database. */
    sessions: Number(sessions?.count),
    /** How often a runner stopped a source during the measurement. */
    handovers: handovers() - handoversBefore
  }
}
