/**
 * A small fleet: processes of the built worker, each behind its own link to PostgreSQL, over sandboxes whose records
 * change. When it ends, it compares what the destinations have with what the sandboxes had.
 */
import { Sandbox, type SandboxOptions, World } from "@payments/sandbox"
import { user } from "@payments/testkit/postgres/PostgresServer"
import { Effect, ManagedRuntime } from "effect"
import { execFile } from "node:child_process"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { promisify } from "node:util"
import { Client } from "pg"
import { wallMs } from "../harness/Link.ts"
import { programs } from "../harness/Programs.ts"
import { Runner } from "../harness/Runner.ts"
import { writeSources } from "../workloads/ManySources.ts"
import { type AuditEvent, instancesOf, readAudit, staleCommits, startAudit } from "./Audit.ts"
import { type ChangeRow, replayProblems, type StoredRow, truthProblems } from "./Copy.ts"

const run = promisify(execFile)

export interface FleetOptions {
  readonly name: string
  readonly postgresPort: number
  readonly folder: string
  readonly runners: number
  readonly sources: number
  readonly worker: string
  /** `cluster`: sources are spread. `standby`: each runner waits for the locks of all sources. */
  readonly mode: "cluster" | "standby"
  readonly seed: number
}

const lists = [
  { name: "payoutRequests", label: "payout-requests", table: "payout_requests" },
  { name: "invoices", label: "invoices", table: "invoices" }
] as const

/** The requests per second of a source. Its scans follow each other, so it always needs all of them. */
const ceiling = 2
/**
 * The ceiling is checked in every window of so many seconds. Two requests more are allowed: one for each end of the
 * window.
 */
const windowSeconds = 5
const mostInWindow = ceiling * windowSeconds + 2

/** The first event of a process on a lease after a moment. */
export interface Progress {
  readonly source: string
  readonly label: string
  readonly instance: string
  readonly at: number
}

export interface FleetResult {
  readonly commits: number
  readonly stale: ReadonlyArray<string>
  /** Rows that differ from the truth, and changes that do not lead to the rows. */
  readonly wrong: ReadonlyArray<string>
  readonly records: number
  readonly changes: number
  /** Sources whose requests exceeded the ceiling. */
  readonly outrun: ReadonlyArray<string>
  /** The most requests of a source in a window, as a share of what the window allows. */
  readonly peak: number
  /**
   * Processes that ended without a signal, with another exit code than 0 after SIGTERM, or too late. Also runners that
   * did not work again after a fault.
   */
  readonly problems: ReadonlyArray<string>
  readonly errors: ReadonlyMap<string, number>
  /** How often a runner stopped its sources because the cluster's database did not answer in time. */
  readonly outages: number
}

const sandboxOptions = (seed: number) => ({
  seed,
  records: 300,
  faults: [{ fault: "latency", ms: 20, jitterMs: 30 }, { fault: "reset", rate: 0.005 }],
  live: { speed: 0, appearPerHour: 6, changePerHour: 30, vanishPerHour: 6 }
} as const satisfies SandboxOptions)

/**
 * How long a fleet may take to work again after a fault, in milliseconds. A takeover that needs longer counts with this
 * time.
 */
export const longest = 180_000

/** The worker logs this when an operation on the cluster's database fails or takes too long. */
const outage = "the cluster's database does not answer: the sources of this runner stop until it does"

/** The virtual time that passes each second. */
const tickMs = 60_000

/** A running fleet. Disposing it kills its processes. */
export class Fleet implements AsyncDisposable {
  readonly runners: ReadonlyArray<Runner>
  readonly client: Client
  /** Problems so far; {@link finish} returns them. */
  readonly problems: Array<string> = []
  readonly #options: FleetOptions
  readonly #sources: ReadonlyArray<Source>
  readonly #baseline: ReadonlyArray<Copy>
  readonly #clock: NodeJS.Timeout

  private constructor(
    { baseline, client, options, runners, sources }: Pick<Fleet, "runners" | "client"> & {
      readonly options: FleetOptions
      readonly sources: ReadonlyArray<Source>
      readonly baseline: ReadonlyArray<Copy>
    }
  ) {
    this.#options = options
    this.client = client
    this.#sources = sources
    this.#baseline = baseline
    this.runners = runners
    this.#clock = setInterval(() => {
      for (const { tick } of sources) void tick()
    }, 1000)
  }

  static async start(options: FleetOptions): Promise<Fleet> {
    const { mode, name, postgresPort } = options
    mkdirSync(options.folder, { recursive: true })
    const connection = { host: "127.0.0.1", port: postgresPort, user }
    const admin = new Client({ ...connection, database: "postgres" })
    await admin.connect()
    await admin.query(`CREATE DATABASE ${name}`)
    await admin.end()
    const client = new Client({ ...connection, database: name })
    await client.connect()
    const sources = await Promise.all(
      Array.from({ length: options.sources }, (_, index) => startSource(`s${index}`, options.seed + index))
    )
    const defaults = [
      `every = "1s"`,
      `lists = [${lists.map(({ label }) => `"${label}"`).join(", ")}]`,
      `max_requests_per_second = ${ceiling}`
    ]
    const file = writeSources(
      options.folder,
      defaults,
      sources.map((source, index) => ({
        name: source.name,
        url: source.url,
        to: `postgres:///${name}?schema=${source.name}`,
        // The ceiling must be kept with and without a shared budget.
        settings: index % 2 === 1 ? [`rate_limit_store = "postgres:///${name}"`] : []
      }))
    )
    const env = { PGUSER: user, SANDBOX_KEY: "sandbox_key", PATH: process.env["PATH"] }
    await run(process.execPath, [options.worker, "run", "--config", file, "--once"], {
      env: { ...env, PGHOST: "127.0.0.1", PGPORT: String(postgresPort) }
    })
    await startAudit(client, sources.map((source) => source.name), lists)
    const baseline: Array<Copy> = []
    for (const source of sources) {
      for (const list of lists) baseline.push(await readCopy(client, source, list))
    }
    const runners = await Promise.all(Array.from({ length: options.runners }, (_, index) => {
      const runner = `${name}-r${index}`
      return Runner.start({
        name: runner,
        program: options.worker,
        args: [
          "--config",
          file,
          ...(mode === "cluster" ? ["--cluster", `postgres:///${name}`, "--runner", runner] : [])
        ],
        env: { PGUSER: user },
        log: join(options.folder, `${runner}.log`),
        postgresPort
      })
    }))
    const fleet = new Fleet({ options, client, sources, baseline, runners })
    await fleet.settle()
    return fleet
  }

  get leases(): ReadonlyArray<string> {
    return this.#sources.flatMap(({ name }) => lists.map(({ label }) => `${name} ${label}`))
  }

  get instanceOf(): (event: Pick<AuditEvent, "at" | "port">) => string {
    return instancesOf(this.runners.flatMap(({ link }) => link.connections))
  }

  /** Returns the first acquisition or commit of each process on each lease after a moment. */
  async progressSince(at: number): Promise<ReadonlyArray<Progress>> {
    const { rows } = await this.client.query<{ source: string; label: string; port: number; at: string }>(
      `SELECT source, label, port, extract(epoch FROM min(at)) * 1000 AS at FROM audit.events
      WHERE at > to_timestamp($1::float8 / 1000) AND kind IN ('acquire', 'commit') GROUP BY source, label, port`,
      [at]
    )
    const { instanceOf } = this
    return rows.map(({ label, port, source, ...row }) => {
      const first = Number(row.at)
      return { source, label, instance: instanceOf({ port, at: first }), at: first }
    }).toSorted((a, b) => a.at - b.at)
  }

  /** Returns the process that last acquired or committed under each lease. */
  async owners(): Promise<ReadonlyMap<string, string>> {
    const { rows } = await this.client.query<{ lease: string; port: number; at: string }>(
      `SELECT DISTINCT ON (source, label) source || ' ' || label AS lease, port, extract(epoch FROM at) * 1000 AS at
      FROM audit.events WHERE kind IN ('acquire', 'commit') AND at > clock_timestamp() - interval '5 minutes'
      ORDER BY source, label, seq DESC`
    )
    const { instanceOf } = this
    return new Map(rows.map(({ lease, port, at }) => [lease, instanceOf({ port, at: Number(at) })]))
  }

  /** Waits until every process is ready and every list has had a commit; fails after 3 minutes. */
  async settle(): Promise<void> {
    const start = wallMs()
    for (const runner of this.runners) {
      if (!runner.isAlive) runner.spawn()
      await runner.untilReady(longest)
    }
    const found = await this.untilProgress(start)
    const idle = this.leases.filter((lease) => !found.has(lease))
    if (idle.length > 0) throw new Error(`${this.#options.name}: no commits of ${idle.join(", ")}`)
  }

  /**
   * Waits until a process has acquired or committed under each of the leases after a moment. The process `without` does
   * not count. Returns the times since then in milliseconds, by lease; a lease without progress is missing.
   */
  async untilProgress(
    since: number,
    { leases = this.leases, timeoutMs = longest, without }: {
      readonly leases?: ReadonlyArray<string>
      readonly without?: string
      readonly timeoutMs?: number
    } = {}
  ): Promise<ReadonlyMap<string, number>> {
    const end = wallMs() + timeoutMs
    for (;;) {
      const found = new Map<string, number>()
      for (const progress of await this.progressSince(since)) {
        const lease = `${progress.source} ${progress.label}`
        if (!found.has(lease) && progress.instance !== without) found.set(lease, progress.at - since)
      }
      if (leases.every((lease) => found.has(lease)) || wallMs() > end) return found
      await sleep(500)
    }
  }

  /** Ends a process with SIGTERM, which must end it with code 0 within 15 s. */
  async stop(runner: Runner): Promise<void> {
    const { instance } = runner
    if (!runner.isAlive) return
    const { code, ms } = await runner.end("SIGTERM")
    if (code !== 0) this.problems.push(`${instance} ended with code ${String(code)} after SIGTERM`)
    if (ms > 15_000) this.problems.push(`${instance} took ${(ms / 1000).toFixed(1)} s to end`)
  }

  /** Lets the copies become complete, stops the runners, and compares everything. */
  async finish(): Promise<FleetResult> {
    clearInterval(this.#clock)
    await this.settle()
    await this.#untilComplete()
    for (const runner of this.runners) {
      await this.stop(runner)
      if (runner.unexpectedEnds > 0) this.problems.push(`${runner.name} ended ${runner.unexpectedEnds} times by itself`)
    }
    const wrong: Array<string> = []
    let [records, changes] = [0, 0]
    for (const [index, { source, list }] of this.#baseline.entries()) {
      const copy = await readCopy(this.client, source, list)
      const truth = source.truth(list.name)
      const before = this.#baseline[index]?.rows ?? []
      records += truth.length
      changes += copy.changes.length
      wrong.push(
        ...[...truthProblems(copy.rows, truth), ...replayProblems(before, copy.changes, copy.rows)]
          .map((problem) => `${this.#options.name} ${source.name} ${list.label}: ${problem}`)
      )
    }
    for (const { name } of this.#sources) {
      wrong.push(...await this.#numberProblems(name), ...await this.#verify(name))
    }
    const events = await readAudit(this.client)
    const peaks = this.#sources.map(({ name, requests }) => ({
      name,
      ...mostWithin(requests, windowSeconds * 1000)
    }))
    const errors = new Map<string, number>()
    for (const [text, count] of this.runners.flatMap((runner) => [...runner.errors])) {
      errors.set(text, (errors.get(text) ?? 0) + count)
    }
    return {
      commits: events.filter(({ kind }) => kind === "commit").length,
      stale: staleCommits(events, this.instanceOf).map((problem) => `${this.#options.name} ${problem}`),
      wrong,
      records,
      changes,
      outrun: peaks.filter(({ count }) => count > mostInWindow).map(({ count, end, name }) =>
        `${this.#options.name} ${name}: ${count} requests in ${windowSeconds} s, until ${new Date(end).toISOString()}`
      ),
      peak: Math.max(...peaks.map(({ count }) => count)) / mostInWindow,
      problems: this.problems,
      outages: this.runners.reduce((total, { messages }) => total + (messages.get(outage) ?? 0), 0),
      errors
    }
  }

  /** Waits for three complete scans of each list: a row is missing when two did not return it. */
  async #untilComplete(): Promise<void> {
    const [{ now } = { now: "" }] =
      (await this.client.query<{ now: string }>("SELECT clock_timestamp()::text AS now")).rows
    for (const lease of this.leases) {
      const [source, label] = lease.split(" ")
      for (let tries = 0;; tries++) {
        const { rows } = await this.client.query(
          `SELECT FROM ${source}.scans WHERE list = $1 AND state = 'complete' AND kind = 'full'
          AND started_at > $2::timestamptz`,
          [label, now]
        )
        if (rows.length >= 3) break
        if (tries > 300) throw new Error(`${this.#options.name}: no complete scans of ${lease}`)
        await sleep(1000)
      }
    }
  }

  /** Finds gaps in the numbers of the changes, up to the number that the destination has assigned last. */
  async #numberProblems(source: string): Promise<ReadonlyArray<string>> {
    const { rows: [row] } = await this.client.query<Record<"count" | "low" | "high" | "last", string | null>>(
      `SELECT count(*), min(seq) AS low, max(seq) AS high, (SELECT changes FROM ${source}.destination) AS last
      FROM ${source}.changes`
    )
    const numbers = [row?.count, row?.high ?? "0", row?.low ?? "1"]
    return numbers.join() === [row?.last, row?.last, "1"].join() ? [] : [
      `${this.#options.name} ${source}: ${
        numbers.join(", ")
      } are count, highest and lowest number of ${row?.last} changes`
    ]
  }

  async #verify(source: string): Promise<ReadonlyArray<string>> {
    const from = `postgres://${user}@127.0.0.1:${this.#options.postgresPort}/${this.#options.name}?schema=${source}`
    try {
      await run(process.execPath, [programs.cli, "verify", "--from", from], { env: { PATH: process.env["PATH"] } })
      return []
    } catch (error) {
      return [`${this.#options.name} ${source}: verify: ${String(error)}`]
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#clock)
    await Promise.all(this.runners.map((runner) => runner[Symbol.asyncDispose]()))
    await Promise.all(this.#sources.map(({ stop }) => stop()))
    await this.client.end()
  }
}

type List = (typeof lists)[number]

interface Source {
  readonly name: string
  readonly url: string
  /** When it received each request, in milliseconds since the epoch. */
  readonly requests: ReadonlyArray<number>
  readonly tick: () => Promise<void>
  /** The texts of the list's records now. */
  readonly truth: (list: List["name"]) => ReadonlyArray<string>
  readonly stop: () => Promise<void>
}

const startSource = async (name: string, seed: number): Promise<Source> => {
  const options = sandboxOptions(seed)
  const requests: Array<number> = []
  const runtime = ManagedRuntime.make(Sandbox.layer({ ...options, onRequest: () => requests.push(wallMs()) }))
  const sandbox = await runtime.runPromise(Effect.service(Sandbox))
  let now = 0
  // The same options give the same records.
  const world = World.make({ ...options, live: { ...options.live, now: () => now } })
  return {
    name,
    url: sandbox.url,
    requests,
    tick: async () => {
      now = await runtime.runPromise(sandbox.advance(tickMs))
    },
    truth: (list) => world.snapshot(list),
    stop: () => runtime.dispose()
  }
}

interface Copy {
  readonly source: Source
  readonly list: List
  readonly rows: ReadonlyArray<StoredRow>
  readonly changes: ReadonlyArray<ChangeRow>
}

const readCopy = async (client: Client, source: Source, list: List): Promise<Copy> => {
  const rows = await client.query<StoredRow>(
    `SELECT id, raw::text AS text, missing_since IS NOT NULL AS "isMissing" FROM ${source.name}.${list.table}`
  )
  const changes = await client.query<ChangeRow>(
    `SELECT kind, id, before::text, after::text FROM ${source.name}.changes WHERE list = $1 ORDER BY seq`,
    [list.label]
  )
  return { source, list, rows: rows.rows, changes: changes.rows }
}

/** Returns the largest number of these sorted times that lie within `ms`, and the last of them. */
export const mostWithin = (times: ReadonlyArray<number>, ms: number) => {
  let [most, first] = [{ count: 0, end: 0 }, 0]
  for (const [index, time] of times.entries()) {
    while (time - (times[first] ?? time) >= ms) first++
    if (index - first + 1 > most.count) most = { count: index - first + 1, end: time }
  }
  return most
}
