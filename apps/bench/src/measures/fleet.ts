/**
 * Measures a cluster of workers over many sources: how evenly the sources are spread, what a further runner costs, and how
 * fresh the lists are. Runners join the first one while it works.
 */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { Client } from "pg"
import { Runner } from "../fleet/Runner.ts"
import { startDatabase, user } from "../harness/Database.ts"
import { cpuMs, memory, metric } from "../harness/ProcessFigures.ts"
import { programs } from "../harness/Programs.ts"
import { type Figure, median, percentile95 } from "../harness/Report.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurement. */
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

/** What one number of runners gave. */
interface Measured {
  readonly runners: number
  /** The numbers of sources of the runners. */
  readonly shares: ReadonlyArray<number>
  /** The sources that have another runner than before, and the seconds until the last one had it. */
  readonly moved: number
  readonly settledAfter: number
  /** Milliseconds of all runners per 1,000 pages. */
  readonly cpu: number
  /** The pages per second. */
  readonly pages: number
  readonly age: number
  /** The resident set of a runner in bytes: the median and the largest. */
  readonly memory: { readonly median: number; readonly largest: number }
  /** Sessions of the database. */
  readonly sessions: number
  /** How often a runner stopped a source during the measurement. */
  readonly handovers: number
}

/** Measures all figures. `log` receives a line after each step. */
export const measureFleet = async (sizes: FleetSizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { folder, server } = await startDatabase(stack, ["max_connections=2000"])
  const services = stack.use(new Process())
  const { urls = [] } = await services.send({
    do: "serveMany",
    services: Array.from({ length: sizes.sources }, (_, seed) => ({
      seed,
      records: sizes.recordsPerList,
      faults: [{ fault: "latency", ms: 50 } as const]
    }))
  })
  const file = join(folder, "payments.toml")
  const tables = urls.flatMap((url, index) => [
    `[sources.s${index}]`,
    `base_url = "${url}"`,
    `to = "postgres:///postgres?schema=s${index}"`
  ])
  const defaults = ["[defaults]", `api_key_env = "SANDBOX_KEY"`, `every = "${sizes.every}s"`]
  writeFileSync(file, [...defaults, ...tables, ""].join("\n"))
  const client = new Client({ host: "127.0.0.1", port: server.port, user, database: "postgres" })
  await client.connect()
  stack.defer(() => client.end())

  const runners: Array<Runner> = []
  const measured: Array<Measured> = []
  let owners: ReadonlyMap<string, number> = new Map()
  for (const count of sizes.runners) {
    // oxlint-disable no-await-in-loop -- the steps must not compete with each other
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
    const settled = await untilSettled(client, sizes, owners, runners.length > 1)
    const moved = [...settled.owners].filter(([source, pid]) => owners.has(source) && owners.get(source) !== pid)
    owners = settled.owners
    const figures = await measure(client, services, runners, sizes)
    const shares = runners.map(({ pid }) => [...settled.owners.values()].filter((owner) => owner === pid).length)
    measured.push({ runners: count, shares, moved: moved.length, settledAfter: settled.seconds, ...figures })
    log(
      `${count} runners: ${shares.join(", ")} sources; age p95 ${figures.age.toFixed(1)} s, CPU per 1,000 pages ` +
        `${figures.cpu.toFixed(0)} ms, ${moved.length} sources moved in ${settled.seconds.toFixed(0)} s, ` +
        `${figures.sessions} sessions`
    )
    // oxlint-enable no-await-in-loop
  }
  const [first] = measured
  return measured.flatMap((one): ReadonlyArray<Figure> => {
    const named = `${one.runners} ${one.runners === 1 ? "runner" : "runners"}`
    return [
      { name: `sources of a runner, ${named}, fewest`, value: Math.min(...one.shares), unit: "count" },
      { name: `sources of a runner, ${named}, most`, value: Math.max(...one.shares), unit: "count" },
      { name: `sources that moved, ${named}`, value: one.moved, unit: "count" },
      { name: `last source at its runner after the start, ${named}`, value: one.settledAfter, unit: "s" },
      { name: `pages per second, ${named}`, value: one.pages, unit: "pages/s" },
      { name: `CPU per 1,000 pages, ${named}`, value: one.cpu, unit: "ms" },
      { name: `CPU per 1,000 pages, ${named} ÷ 1 runner`, value: one.cpu / (first?.cpu ?? 0), unit: "×" },
      { name: `age p95 of all lists, ${named}`, value: one.age, unit: "s" },
      { name: `age p95 of all lists, ${named} ÷ 1 runner`, value: one.age / (first?.age ?? 0), unit: "×" },
      { name: `resident set of a runner, ${named}, median`, value: one.memory.median / 2 ** 20, unit: "MiB" },
      { name: `resident set of a runner, ${named}, largest`, value: one.memory.largest / 2 ** 20, unit: "MiB" },
      { name: `sources that were handed over meanwhile, ${named}`, value: one.handovers, unit: "count" },
      { name: `sessions of PostgreSQL, ${named}`, value: one.sessions, unit: "count" }
    ]
  })
}

/** Returns the process that has the leases of each source. */
const ownersOf = async (client: Client, sources: number): Promise<ReadonlyMap<string, number>> => {
  const queries = Array.from(
    { length: sources },
    (_, index) =>
      `SELECT 's${index}' AS source, min(holder) AS holder FROM s${index}.leases WHERE expires > clock_timestamp()
    HAVING count(*) = 3 AND count(DISTINCT split_part(holder, ' ', 2)) = 1`
  )
  const { rows } = await client.query<{ source: string; holder: string }>(queries.join(" UNION ALL "))
  // A holder is described as `process 123 on HOST since …`.
  return new Map(rows.map(({ holder, source }) => [source, Number(holder.split(" ")[1])]))
}

/** How long no source may move before the runners count as settled, and how long this may take. */
const quietMs = 20_000
const longestMs = 300_000

/** Waits until every source has a runner, each list has a complete scan, and no source moves any more. */
const untilSettled = async (
  client: Client,
  { sources }: FleetSizes,
  before: ReadonlyMap<string, number>,
  movesAreExpected: boolean
) => {
  const start = performance.now()
  let owners = before
  let changedAt = start
  for (;;) {
    // oxlint-disable no-await-in-loop -- this polls
    const { rows: [schemas] } = await client.query<{ count: string }>(
      "SELECT count(*) FROM pg_tables WHERE tablename = 'leases'"
    )
    const now = Number(schemas?.count) === sources ? await ownersOf(client, sources) : new Map<string, number>()
    if (now.size !== owners.size || [...now].some(([source, pid]) => owners.get(source) !== pid)) {
      owners = now
      changedAt = performance.now()
    }
    const isQuiet = performance.now() - changedAt >= quietMs && (changedAt > start || !movesAreExpected)
    if (isQuiet && owners.size === sources && await isComplete(client, sources)) {
      return { owners, seconds: (changedAt - start) / 1000 }
    }
    if (performance.now() - start > longestMs) throw new Error(`${owners.size} of ${sources} sources have a runner`)
    await sleep(1000)
    // oxlint-enable no-await-in-loop
  }
}

const isComplete = async (client: Client, sources: number): Promise<boolean> => {
  const queries = Array.from(
    { length: sources },
    (_, index) => `SELECT count(DISTINCT list) AS lists FROM s${index}.scans WHERE state = 'complete'`
  )
  const { rows } = await client.query<{ lists: string }>(queries.join(" UNION ALL "))
  return rows.every(({ lists }) => lists === "3")
}

const measure = async (client: Client, services: Process, runners: ReadonlyArray<Runner>, sizes: FleetSizes) => {
  const requests = async () =>
    ((await services.send({ do: "countRequests" })).requests ?? []).reduce((a, b) => a + b, 0)
  const cpu = () => runners.reduce((total, { pid }) => total + cpuMs(pid), 0)
  const handovers = () => runners.reduce((total, { messages }) => total + (messages.get("source released") ?? 0), 0)
  const ages: Array<number> = []
  const handoversBefore = handovers()
  const [requestsBefore, cpuBefore] = [await requests(), cpu()]
  for (let second = 0; second < sizes.seconds; second++) {
    for (const { url } of runners) {
      // oxlint-disable-next-line no-await-in-loop -- one sample per second
      for (const { value } of await metric(url ?? "", "payments_list_age_seconds")) ages.push(value)
    }
    // oxlint-disable-next-line no-await-in-loop -- one sample per second
    await sleep(1000)
  }
  const pages = await requests() - requestsBefore
  if (pages === 0 || ages.length < sizes.seconds) throw new Error("the runners reported no age, or read nothing")
  const sets = runners.map(({ pid }) => memory(pid, "VmRSS"))
  const { rows: [sessions] } = await client.query<{ count: string }>(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
  )
  return {
    cpu: (cpu() - cpuBefore) / pages * 1000,
    pages: pages / sizes.seconds,
    age: percentile95(ages),
    memory: { median: median(sets), largest: Math.max(...sets) },
    sessions: Number(sessions?.count),
    handovers: handovers() - handoversBefore
  }
}
