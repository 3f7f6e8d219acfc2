/** Measures `@payments/copy` and, for comparison in the same run, bare loops that store less. */
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { copyFileSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Client } from "pg"
import { pageSize } from "../harness/PageServer.ts"
import { type Figure, median } from "../harness/Report.ts"
import { emptyResult } from "../harness/WorkloadResult.ts"
import type { ExportOptions } from "../workloads/exports.ts"
import { type ChildRequest, type ChildResponse, Process } from "../workloads/Process.ts"

/** The sizes of the measurements. */
export interface ExportSizes {
  /** Records of the list for the speed figures, and of the short list for the memory figures. */
  readonly records: number
  /** Records of the list for the rescan and resume figures, and of the long list for the memory figures. */
  readonly long: number
  readonly rounds: number
}

/** The sizes for which the targets are defined. */
export const fullExportSizes: ExportSizes = { records: 100_000, long: 1_000_000, rounds: 7 }

/**
 * The flags of `npm start`. Without them V8 uses a third more memory and is not faster. It doubles
 * the size of the young generation, and it collects the old generation only at several times the size of the live objects.
 */
const flags = ["--max-semi-space-size=16", "--heap-growing-percent=80"]

type Log = (line: string) => void

/** Measures all figures. `log` receives a line after each step. */
export const measureExport = async (sizes: ExportSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using short = await startPageServer(sizes.records)
  const server = await startServer(["fsync=on"])
  try {
    const speeds = [
      ...await measureSpeed(short.url, sizes, log),
      ...await measurePostgresSpeed(server, short.url, sizes, log)
    ]
    await using long = await startPageServer(sizes.long)
    return [
      ...speeds,
      ...await measureRescan(long.url, sizes, log),
      ...await measurePostgresRescan(server, long.url, sizes, log),
      ...await measureDiff(long.url, sizes, log),
      ...await measureResume(long.url, sizes, log),
      ...await measureMemory(short.url, long.url, sizes, log)
    ]
  } finally {
    await server.stop()
  }
}

/** Starts a service with a list of this length. */
export const startPageServer = async (records: number) => {
  const server = new Process()
  const { url } = await server.send({ do: "listen", records })
  if (url === undefined) throw new Error("the server reported no address")
  return { url, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** Makes a temporary folder. Disposing it removes it. */
const temporaryFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Sends one request to a new child process. Fails if `records` is given and the child read another number of records. */
const runInChild = async (request: ChildRequest, records?: number): Promise<Required<ChildResponse>> => {
  await using process = new Process(flags)
  const response = await process.send(request)
  if (records !== undefined && response.result?.records !== records) {
    throw new Error(`${request.do} read ${response.result?.records} of ${records} records`)
  }
  return {
    url: "",
    ms: 0,
    records: 0,
    peakRss: 0,
    written: 0,
    urls: [],
    requests: [],
    statuses: [],
    result: emptyResult(),
    ...response
  }
}

const runExport = (options: ExportOptions, records?: number) => runInChild({ do: "export", options }, records)

const measureSpeed = async (
  url: string,
  { records, rounds }: ExportSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  const bare: Array<number> = []
  const ours: Array<number> = []
  for (let round = 0; round <= rounds; round++) {
    using place = temporaryFolder()
    const copied = await runInChild({ do: "copy", url, folder: place.folder }, records)
    const exported = await runExport({ url, to: `sqlite:${join(place.folder, "payments.db")}` }, records)
    log(`SQLite, round ${round} of ${rounds}: bare ${copied.ms.toFixed(0)} ms, export ${exported.ms.toFixed(0)} ms`)
    if (round === 0) continue
    bare.push(copied.ms)
    ours.push(exported.ms)
  }
  return [
    { name: "bare loop into SQLite", value: records / median(bare) * 1000, unit: "records/s" },
    { name: "export into SQLite", value: records / median(ours) * 1000, unit: "records/s" },
    { name: "export into SQLite ÷ bare loop", value: median(bare) / median(ours), unit: "×", atLeast: 0.75 }
  ]
}

const measureRescan = async (url: string, { long, rounds }: ExportSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  using place = temporaryFolder()
  const run = () => runExport({ url, to: `sqlite:${join(place.folder, "payments.db")}` }, long)
  const first = await run()
  const { listingMs, rescans } = await runRescans(url, long, rounds, "SQLite", run, log)
  return [
    {
      name: `bytes written by a rescan of ${long} unchanged records ÷ by the first scan, SQLite`,
      value: median(rescans.map(({ written }) => written)) / first.written,
      unit: "×",
      atMost: 0.01
    },
    {
      name: "time of that rescan ÷ listing with exact texts, SQLite",
      value: median(rescans.map(({ ms }) => ms)) / median(listingMs),
      unit: "×",
      atMost: 1.35
    }
  ]
}

/** Runs listings and rescans alternately. */
const runRescans = async (
  url: string,
  records: number,
  rounds: number,
  destination: string,
  run: () => Promise<Required<ChildResponse>>,
  log: Log
) => {
  const listingMs: Array<number> = []
  const rescans: Array<Required<ChildResponse>> = []
  for (let round = 0; round < Math.min(rounds, 3); round++) {
    const { ms } = await runInChild({ do: "run", workload: "PaymentsApi, exact texts", url }, records)
    const response = await run()
    log(`rescan of ${records}, ${destination}: listing ${ms.toFixed(0)} ms, export ${response.ms.toFixed(0)} ms`)
    listingMs.push(ms)
    rescans.push(response)
  }
  return { listingMs, rescans }
}

const databaseOf = ({ port }: PostgresServer) => `postgres://${user}@127.0.0.1:${port}/postgres`

const measurePostgresSpeed = async (
  server: PostgresServer,
  url: string,
  { records, rounds }: ExportSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  const database = databaseOf(server)
  const unnest: Array<number> = []
  const copy: Array<number> = []
  const ours: Array<number> = []
  for (let round = 0; round <= rounds; round++) {
    const bare = (by: "unnest" | "copy") =>
      runInChild({ do: "copyToPostgres", url, database, schema: `${by}_${round}`, by }, records)
    const unnested = await bare("unnest")
    const copied = await bare("copy")
    const exported = await runExport({ url, to: `${database}?schema=export_${round}` }, records)
    log(
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

/** Runs the work. Replaces `written` in its response with the bytes of write-ahead log that the server wrote meanwhile. */
const withWalBytes = async (database: string, work: () => Promise<Required<ChildResponse>>) => {
  const client = new Client({ connectionString: database })
  await client.connect()
  const { rows: [before] } = await client.query<{ readonly at: string }>("SELECT pg_current_wal_lsn() AS at")
  const response = await work()
  const { rows: [after] } = await client.query<{ readonly bytes: string }>(
    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1) AS bytes",
    [before?.at]
  )
  await client.end()
  return { ...response, written: Number(after?.bytes) }
}

/**
 * Vacuums the table and makes a checkpoint, as the server itself does within minutes of a load. Otherwise the first query that
 * reads the new rows sets their hint bits, which writes to the write-ahead log.
 */
const vacuum = async (database: string, schema: string) => {
  const client = new Client({ connectionString: database })
  await client.connect()
  await client.query(`VACUUM ${schema}.payout_requests`)
  await client.query("CHECKPOINT")
  await client.end()
}

const measurePostgresRescan = async (
  server: PostgresServer,
  url: string,
  { long, rounds }: ExportSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  const database = databaseOf(server)
  const run = () => withWalBytes(database, () => runExport({ url, to: `${database}?schema=rescan` }, long))
  const first = await run()
  await vacuum(database, "rescan")
  const { listingMs, rescans } = await runRescans(url, long, rounds, "PostgreSQL", run, log)
  return [
    {
      name: `WAL bytes of a rescan of ${long} unchanged records ÷ of the first scan, PostgreSQL`,
      value: median(rescans.map(({ written }) => written)) / first.written,
      unit: "×",
      atMost: 0.01
    },
    {
      name: "time of that rescan ÷ listing with exact texts, PostgreSQL",
      value: median(rescans.map(({ ms }) => ms)) / median(listingMs),
      unit: "×",
      atMost: 1.35
    }
  ]
}

/** Compares two equal copies, as `payments diff` does. */
export const measureDiff = async (
  url: string,
  { long, rounds }: ExportSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  using place = temporaryFolder()
  const copies = [join(place.folder, "a.db"), join(place.folder, "b.db")] as const
  await runExport({ url, to: `sqlite:${copies[0]}` }, long)
  copyFileSync(...copies)
  const compared: Array<number> = []
  const read: Array<number> = []
  const peaks: Array<number> = []
  for (let round = 0; round <= Math.min(rounds, 3); round++) {
    const reading = await runInChild({ do: "readCopies", copies }, 2 * long)
    const comparing = await runInChild({ do: "compareCopies", copies }, 2 * long)
    log(`equal copies of ${long}: read ${reading.ms.toFixed(0)} ms, compared ${comparing.ms.toFixed(0)} ms`)
    if (round === 0) continue
    read.push(reading.ms)
    compared.push(comparing.ms)
    peaks.push(comparing.peakRss)
  }
  return [
    {
      name: `comparing two equal copies of ${long} records ÷ reading both once, SQLite`,
      value: median(compared) / median(read),
      unit: "×",
      atMost: 1.2
    },
    { name: "peak RSS of the comparison", value: median(peaks) / 2 ** 20, unit: "MiB" }
  ]
}

const measureResume = async (url: string, { long, rounds }: ExportSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  using place = temporaryFolder()
  const to = `sqlite:${join(place.folder, "killed.db")}`
  {
    await using process = new Process(flags)
    await process.sendLast({ do: "export", options: { url, to, killAt: Math.floor(long / pageSize * 0.9) } })
  }
  const resumed: Array<number> = []
  const cold: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    resumed.push((await runExport({ url, to, firstPageOnly: true })).ms)
    cold.push(
      (await runExport({ url, to: `sqlite:${join(place.folder, `cold-${round}.db`)}`, firstPageOnly: true })).ms
    )
    log(`first page: resumed ${resumed.at(-1)?.toFixed(0)} ms, cold ${cold.at(-1)?.toFixed(0)} ms`)
  }
  return [{
    name: `next page after a kill at 90 % of ${long} records ÷ first page of a cold start`,
    value: median(resumed) / median(cold),
    unit: "×",
    atMost: 2
  }]
}

const measureMemory = async (
  short: string,
  long: string,
  sizes: ExportSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  const figures: Array<Figure> = []
  for (const to of ["sqlite:payments.db", "file:ndjson?format=ndjson", "file:parquet?format=parquet&compress=zstd"]) {
    const peak = async (url: string, records: number): Promise<number> => {
      using place = temporaryFolder()
      const { peakRss } = await runExport({ url, to: to.replace(":", `:${place.folder}/`) }, records)
      log(`peak RSS: ${records} records to ${to}: ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
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
