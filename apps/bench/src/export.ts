/** The figures of `@payments/export`, beside bare loops that keep less, all in one run. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Client } from "pg"
import { type PostgresServer, startServer, user } from "../../../packages/export/test/PostgresServer.ts"
import { pageSize } from "./PageServer.ts"
import { type Answer, Process } from "./Process.ts"
import { type Figure, median } from "./Report.ts"
import type { ExportOptions } from "./workloads/exports.ts"

/** How much to do. */
export interface ExportSizes {
  /** Of the list that is exported for speed, and of the short one for memory. */
  readonly records: number
  /** Of the list that is exported twice, killed, and the long one for memory. */
  readonly long: number
  readonly rounds: number
}

/** What the targets are meant for. */
export const fullExportSizes: ExportSizes = { records: 100_000, long: 1_000_000, rounds: 7 }

/**
 * As this workspace starts its exports. Left to itself V8 takes a third more memory for nothing: it doubles the room for young
 * objects, and lets old ones that are dead pile up to several times those that live.
 */
const flags = ["--max-semi-space-size=16", "--heap-growing-percent=80"]

type Say = (line: string) => void

/** Measures everything. `say` is told what is under way. */
export const exports = async (sizes: ExportSizes, say: Say): Promise<ReadonlyArray<Figure>> => {
  await using short = await serving(sizes.records)
  const server = await startServer(["fsync=on"])
  try {
    const speeds = [...await speed(short.url, sizes, say), ...await postgresSpeed(server, short.url, sizes, say)]
    await using long = await serving(sizes.long)
    return [
      ...speeds,
      ...await rescan(long.url, sizes, say),
      ...await postgresRescan(server, long.url, sizes, say),
      ...await resume(long.url, sizes, say),
      ...await memory(short.url, long.url, sizes, say)
    ]
  } finally {
    await server.stop()
  }
}

const serving = async (records: number) => {
  const server = new Process()
  const { url } = await server.tell({ do: "listen", records })
  if (url === undefined) throw new Error("the server gave no address")
  return { url, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** A folder that is gone when its use is over. */
const temporary = () => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

const tell = async (order: Parameters<Process["tell"]>[0], records?: number): Promise<Required<Answer>> => {
  await using process = new Process(flags)
  const answer = await process.tell(order)
  if (records !== undefined && answer.tally?.records !== records) {
    throw new Error(`${order.do} read ${answer.tally?.records} of ${records} records`)
  }
  return { url: "", ms: 0, records: 0, peakRss: 0, written: 0, tally: { records: 0, sum: 0, characters: 0 }, ...answer }
}

const exporting = (options: ExportOptions, records?: number) => tell({ do: "export", options }, records)

const speed = async (url: string, { records, rounds }: ExportSizes, say: Say): Promise<ReadonlyArray<Figure>> => {
  const bare: Array<number> = []
  const ours: Array<number> = []
  for (let round = 0; round <= rounds; round++) {
    using place = temporary()
    const copied = await tell({ do: "copy", url, folder: place.folder }, records)
    const exported = await exporting({ url, to: `sqlite:${join(place.folder, "payments.db")}` }, records)
    say(`SQLite, round ${round} of ${rounds}: bare ${copied.ms.toFixed(0)} ms, export ${exported.ms.toFixed(0)} ms`)
    if (round === 0) continue
    bare.push(copied.ms)
    ours.push(exported.ms)
  }
  return [
    { name: "bare loop into SQLite", value: records / median(bare) * 1000, unit: "records/s" },
    { name: "export into SQLite", value: records / median(ours) * 1000, unit: "records/s" },
    { name: "export into SQLite ÷ bare loop", value: median(bare) / median(ours), unit: "×", atLeast: 0.6 }
  ]
}

const rescan = async (url: string, { long, rounds }: ExportSizes, say: Say): Promise<ReadonlyArray<Figure>> => {
  using place = temporary()
  const run = () => exporting({ url, to: `sqlite:${join(place.folder, "payments.db")}` }, long)
  const first = await run()
  const { again, listed } = await rescans(url, long, rounds, "SQLite", run, say)
  return [
    {
      name: `bytes of a rescan of ${long} unchanged records ÷ those of the first scan, SQLite`,
      value: median(again.map(({ written }) => written)) / first.written,
      unit: "×",
      atMost: 0.01
    },
    {
      name: "time of that rescan ÷ listing with exact texts, SQLite",
      value: median(again.map(({ ms }) => ms)) / median(listed),
      unit: "×",
      atMost: 1.5
    }
  ]
}

/** Listings and rescans in turn. */
const rescans = async (
  url: string,
  records: number,
  rounds: number,
  destination: string,
  run: () => Promise<Required<Answer>>,
  say: Say
) => {
  const listed: Array<number> = []
  const again: Array<Required<Answer>> = []
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    const { ms } = await tell({ do: "run", workload: "PaymentsApi, exact texts", url }, records)
    const answer = await run()
    say(`rescan of ${records}, ${destination}: listing ${ms.toFixed(0)} ms, export ${answer.ms.toFixed(0)} ms`)
    listed.push(ms)
    again.push(answer)
  }
  return { listed, again }
}

const databaseOf = ({ port }: PostgresServer) => `postgres://${user}@127.0.0.1:${port}/postgres`

const postgresSpeed = async (
  server: PostgresServer,
  url: string,
  { records, rounds }: ExportSizes,
  say: Say
): Promise<ReadonlyArray<Figure>> => {
  const database = databaseOf(server)
  const unnest: Array<number> = []
  const copy: Array<number> = []
  const ours: Array<number> = []
  for (let round = 0; round <= rounds; round++) {
    const bare = (by: "unnest" | "copy") =>
      tell({ do: "copyToPostgres", url, database, schema: `${by}_${round}`, by }, records)
    const unnested = await bare("unnest")
    const copied = await bare("copy")
    const exported = await exporting({ url, to: `${database}?schema=export_${round}` }, records)
    say(
      `PostgreSQL, round ${round} of ${rounds}: unnest ${unnested.ms.toFixed(0)} ms, COPY ${
        copied.ms.toFixed(0)
      } ms, export ${exported.ms.toFixed(0)} ms`
    )
    if (round === 0) continue
    unnest.push(unnested.ms)
    copy.push(copied.ms)
    ours.push(exported.ms)
  }
  const bare = Math.min(median(unnest), median(copy))
  return [
    { name: "bare loop into PostgreSQL, by unnest", value: records / median(unnest) * 1000, unit: "records/s" },
    { name: "bare loop into PostgreSQL, by COPY", value: records / median(copy) * 1000, unit: "records/s" },
    { name: "export into PostgreSQL", value: records / median(ours) * 1000, unit: "records/s" },
    { name: "export into PostgreSQL ÷ the faster bare loop", value: bare / median(ours), unit: "×", atLeast: 0.6 }
  ]
}

/** Bytes of write-ahead log that the server writes meanwhile, without what it writes by itself at rest. */
const logged = async (database: string, work: () => Promise<Required<Answer>>) => {
  const client = new Client({ connectionString: database })
  await client.connect()
  const { rows: [before] } = await client.query<{ readonly at: string }>("SELECT pg_current_wal_lsn() AS at")
  const answer = await work()
  const { rows: [after] } = await client.query<{ readonly bytes: string }>(
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1) AS bytes",
    [before?.at]
  )
  await client.end()
  return { ...answer, written: Number(after?.bytes) }
}

/**
 * Has the server do at once what it does by itself within minutes of a load: otherwise the first reading of the new rows, by
 * whomever, is what marks them as committed, and writes a log of that.
 */
const settled = async (database: string, schema: string) => {
  const client = new Client({ connectionString: database })
  await client.connect()
  await client.query(`VACUUM ${schema}.payout_requests`)
  await client.query("CHECKPOINT")
  await client.end()
}

const postgresRescan = async (
  server: PostgresServer,
  url: string,
  { long, rounds }: ExportSizes,
  say: Say
): Promise<ReadonlyArray<Figure>> => {
  const database = databaseOf(server)
  const run = () => logged(database, () => exporting({ url, to: `${database}?schema=rescan` }, long))
  const first = await run()
  await settled(database, "rescan")
  const { again, listed } = await rescans(url, long, rounds, "PostgreSQL", run, say)
  return [
    {
      name: `WAL of a rescan of ${long} unchanged records ÷ that of the first scan, PostgreSQL`,
      value: median(again.map(({ written }) => written)) / first.written,
      unit: "×",
      atMost: 0.01
    },
    {
      name: "time of that rescan ÷ listing with exact texts, PostgreSQL",
      value: median(again.map(({ ms }) => ms)) / median(listed),
      unit: "×",
      atMost: 1.5
    }
  ]
}

const resume = async (url: string, { long, rounds }: ExportSizes, say: Say): Promise<ReadonlyArray<Figure>> => {
  using place = temporary()
  const to = `sqlite:${join(place.folder, "killed.db")}`
  {
    await using process = new Process(flags)
    await process.end({ do: "export", options: { url, to, killAt: Math.floor(long / pageSize * 0.9) } })
  }
  const resumed: Array<number> = []
  const cold: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    resumed.push((await exporting({ url, to, first: true })).ms)
    cold.push((await exporting({ url, to: `sqlite:${join(place.folder, `cold-${round}.db`)}`, first: true })).ms)
    say(`first page: resumed ${resumed.at(-1)?.toFixed(0)} ms, cold ${cold.at(-1)?.toFixed(0)} ms`)
  }
  return [{
    name: `next page after a kill at 90 % of ${long} records ÷ first page of a cold start`,
    value: median(resumed) / median(cold),
    unit: "×",
    atMost: 2
  }]
}

const memory = async (
  short: string,
  long: string,
  sizes: ExportSizes,
  say: Say
): Promise<ReadonlyArray<Figure>> => {
  const figures: Array<Figure> = []
  for (const to of ["sqlite:payments.db", "file:ndjson?format=ndjson", "file:parquet?format=parquet&compress=zstd"]) {
    const peak = async (url: string, records: number): Promise<number> => {
      using place = temporary()
      const { peakRss } = await exporting({ url, to: to.replace(":", `:${place.folder}/`) }, records)
      say(`memory: ${records} records to ${to}: ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
      return peakRss
    }
    const peaks: { readonly short: Array<number>; readonly long: Array<number> } = { short: [], long: [] }
    for (let round = 0; round < Math.min(sizes.rounds, 3); round++) {
      peaks.short.push(await peak(short, sizes.records))
      peaks.long.push(await peak(long, sizes.long))
    }
    figures.push({
      name: `peak RSS, ${sizes.long} ÷ ${sizes.records} records, to ${to}`,
      value: median(peaks.long) / median(peaks.short),
      unit: "×",
      atMost: 1.15
    })
  }
  return figures
}
