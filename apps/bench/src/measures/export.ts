/** Measures `@payments/copy` and, for comparison in the same run, bare loops that store less. */
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { Client } from "pg"
import { startDatabase, user } from "../harness/Database.ts"
import { pageSize } from "../harness/PageServer.ts"
import { memoryFlags, temporaryFolder } from "../harness/Programs.ts"
import { type Figure, figureOf, medianOf, rateOf, ratioOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import type { ExportOptions } from "../workloads/exports.ts"
import { Process, requireRecords, runAlone } from "../workloads/Process.ts"
import type { Tasks, Timed } from "../workloads/tasks.ts"

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
 * The flags of `npm start`. Without them V8 uses a third more memory and is not faster. It
 * doubles the size of the young generation, and collects the old generation only at several times the size of the live
 * objects.
 */
const flags = ["--max-semi-space-size=16", "--heap-growing-percent=80"]

/** All measurements share these. */
interface Setting extends ExportSizes {
  /** The services with the short and the long list. */
  readonly url: { readonly short: string; readonly long: string }
  /** The database of a PostgreSQL server, as a URL. */
  readonly database: string
  readonly log: (line: string) => void
}

/** `log` receives a line after each step. */
export const measureExport = async (
  sizes: ExportSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const url = {
    short: await stack.use(new Process()).run("listen", sizes.records),
    long: await stack.use(new Process()).run("listen", sizes.long)
  }
  const { server } = await startDatabase(stack, ["fsync=on"])
  const setting: Setting = { ...sizes, url, log, database: `postgres://${user}@127.0.0.1:${server.port}/postgres` }
  return [
    ...await measureSpeed(setting),
    ...await measureWarm(setting),
    ...await measurePostgresSpeed(setting),
    ...await measureRescan(setting),
    ...await measurePostgresRescan(setting),
    ...await measureDiff(setting),
    ...await measureResume(setting),
    ...await measureMemory(setting)
  ]
}

const exportTo = (options: ExportOptions, records: number, by = flags) =>
  runAlone({ flags: by, records }, "export", options)

const inFolder = async <A>(measure: (folder: string) => Promise<A>): Promise<A> => {
  using place = temporaryFolder()
  return await measure(place.folder)
}

/** A process of its own for each run, whose start counts. */
const measureSpeed = async ({ log, records, rounds, url: { short: url } }: Setting): Promise<ReadonlyArray<Figure>> => {
  const bare = (isExact: boolean) => () =>
    inFolder((folder) => runAlone({ flags, records }, "copy", { url, folder, isExact }))
  const runs = await inTurn({
    bare: bare(false),
    exact: bare(true),
    ours: () => inFolder((folder) => exportTo({ url, to: `sqlite:${join(folder, "payments.db")}` }, records))
  }, { rounds, log })
  return [
    rateOf("bare loop into SQLite", records, runs.bare),
    rateOf("export into SQLite", records, runs.ours),
    ...sqliteRatios("", runs, { bare: 0.75, exact: 0.85 })
  ]
}

type SqliteRuns = { readonly [name in "bare" | "exact" | "ours"]: ReadonlyArray<Timed> }

const sqliteRatios = (
  when: string,
  { bare, exact, ours }: SqliteRuns,
  atLeast: { readonly bare: number; readonly exact: number }
): ReadonlyArray<Figure> => {
  const ofExact = "bare loop that stores texts and hashes"
  return [
    ratioOf(`export into SQLite ÷ bare loop${when}`, "ms", [bare, ours], { atLeast: atLeast.bare }),
    ratioOf(`export into SQLite ÷ ${ofExact}${when}`, "ms", [exact, ours], { atLeast: atLeast.exact }),
    ratioOf(`the same in processor time${when}`, "cpuMs", [exact, ours])
  ]
}

/** Processes that have run before, with the long list. */
const measureWarm = async ({ log, long, records, rounds, url }: Setting): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const warm = () => stack.use(new Process(flags))
  const [processes, ours] = [{ bare: warm(), exact: warm() }, warm()]
  const listOf = (round: number) => round === 0 ? [url.short, records] as const : [url.long, long] as const
  const bare = (isExact: boolean, process: Process) => (round: number) =>
    inFolder(async (folder) => {
      const [from, count] = listOf(round)
      return requireRecords(await process.run("copy", { url: from, folder, isExact }), count)
    })
  const runs = await inTurn({
    bare: bare(false, processes.bare),
    exact: bare(true, processes.exact),
    ours: (round) =>
      inFolder(async (folder) => {
        const [from, count] = listOf(round)
        return requireRecords(
          await ours.run("export", { url: from, to: `sqlite:${join(folder, "payments.db")}` }),
          count
        )
      })
  }, { rounds: Math.min(rounds, 3), log })
  const micros = runs.ours.map(({ cpuMs }) => cpuMs / long * 1000)
  return [
    ...sqliteRatios(`, ${long} records, warm`, runs, { bare: 0.6, exact: 0.9 }),
    figureOf("processor time of an export into SQLite per record, warm", micros, { unit: "µs" })
  ]
}

const measurePostgresSpeed = async (
  { database, log, records, rounds, url: { short: url } }: Setting
): Promise<ReadonlyArray<Figure>> => {
  const bare = (by: "unnest" | "copy", isExact: boolean) => (round: number) =>
    runAlone({ flags, records }, "copyToPostgres", {
      url,
      database,
      schema: `${by}_${isExact ? "exact_" : ""}${round}`,
      by,
      isExact
    })
  const { copy, exact, ours, unnest } = await inTurn({
    unnest: bare("unnest", false),
    copy: bare("copy", false),
    exact: bare("unnest", true),
    ours: (round) => exportTo({ url, to: `${database}?schema=export_${round}` }, records)
  }, { rounds, log })
  return [
    rateOf("bare loop into PostgreSQL, by unnest", records, unnest),
    rateOf("bare loop into PostgreSQL, by COPY", records, copy),
    rateOf("export into PostgreSQL", records, ours),
    ratioOf(
      "export into PostgreSQL ÷ the faster bare loop",
      "ms",
      [medianOf(unnest, "ms") < medianOf(copy, "ms") ? unnest : copy, ours],
      { atLeast: 0.6 }
    ),
    ratioOf("export into PostgreSQL ÷ bare loop that stores texts and hashes", "ms", [exact, ours], { atLeast: 0.9 })
  ]
}

/** Exports the long list once, and then again in turn with a listing. */
const rescanFigures = async (
  { log, long, rounds, url: { long: url } }: Setting,
  { afterLoad, run, store, written }: {
    readonly store: string
    readonly written: string
    readonly run: () => Promise<Timed>
    readonly afterLoad: () => Promise<void>
  }
): Promise<ReadonlyArray<Figure>> => {
  const first = await run()
  await afterLoad()
  const { listing, rescan } = await inTurn({
    listing: () => runAlone({ flags, records: long }, "read", { workload: "PaymentsApi, exact texts", url }),
    rescan: run
  }, { rounds: Math.min(rounds, 3), warmUp: false, log })
  return [
    {
      name: `${written} a rescan of ${long} unchanged records ÷ the first scan, ${store}`,
      value: medianOf(rescan, "written") / first.written,
      unit: "×",
      atMost: 0.01
    },
    ratioOf(`time of that rescan ÷ listing with exact texts, ${store}`, "ms", [rescan, listing], { atMost: 1.35 }),
    ratioOf(`processor time of that rescan ÷ listing, ${store}`, "cpuMs", [rescan, listing])
  ]
}

const measureRescan = (setting: Setting): Promise<ReadonlyArray<Figure>> =>
  inFolder((folder) =>
    rescanFigures(setting, {
      store: "SQLite",
      written: "bytes written by",
      run: () => exportTo({ url: setting.url.long, to: `sqlite:${join(folder, "payments.db")}` }, setting.long),
      afterLoad: () => Promise.resolve()
    })
  )

const measurePostgresRescan = async (setting: Setting): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const client = new Client({ connectionString: setting.database })
  await client.connect()
  stack.defer(() => client.end())
  const position = async () => {
    const { rows: [row] } = await client.query<{ at: string }>(
      "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS at"
    )
    return Number(row?.at)
  }
  return await rescanFigures(setting, {
    store: "PostgreSQL",
    written: "WAL bytes of",
    run: async () => {
      const before = await position()
      const run = await exportTo({ url: setting.url.long, to: `${setting.database}?schema=rescan` }, setting.long)
      return { ...run, written: await position() - before }
    },
    // The server itself does this within minutes of a load. Otherwise the first query that reads the new rows sets
    // their hint bits, which writes to the write-ahead log.
    afterLoad: async () => {
      await client.query("VACUUM rescan.payout_requests")
      await client.query("CHECKPOINT")
    }
  })
}

/** Compares two equal copies, as `payments diff` does. */
const measureDiff = ({ log, long, rounds, url: { long: url } }: Setting): Promise<ReadonlyArray<Figure>> =>
  inFolder(async (folder) => {
    const copies = [join(folder, "a.db"), join(folder, "b.db")] as const
    await exportTo({ url, to: `sqlite:${copies[0]}` }, long)
    copyFileSync(...copies)
    const run = (name: Extract<keyof Tasks, `${string}Copies`>) => () =>
      runAlone({ flags, records: 2 * long }, name, copies)
    const { comparing, reading } = await inTurn({ reading: run("readCopies"), comparing: run("compareCopies") }, {
      rounds: Math.min(rounds, 3),
      log
    })
    return [
      ratioOf(
        `comparing two equal copies of ${long} records ÷ reading both once, SQLite`,
        "ms",
        [comparing, reading],
        { atMost: 1.2 }
      ),
      { name: "peak RSS of the comparison", value: medianOf(comparing, "peakRss") / 2 ** 20, unit: "MiB" }
    ]
  })

const measureResume = ({ log, long, rounds, url: { long: url } }: Setting): Promise<ReadonlyArray<Figure>> =>
  inFolder(async (folder) => {
    const to = `sqlite:${join(folder, "killed.db")}`
    {
      await using process = new Process(flags)
      await process.runLast("export", { url, to, killAt: Math.floor(long / pageSize * 0.9) })
    }
    const firstPage = async (destination: string) => {
      await using process = new Process(flags)
      return await process.run("export", { url, to: destination, firstPageOnly: true })
    }
    const { cold, resumed } = await inTurn({
      resumed: () => firstPage(to),
      cold: (round) => firstPage(`sqlite:${join(folder, `cold-${round}.db`)}`)
    }, { rounds, warmUp: false, log })
    return [
      figureOf("cold start of an export to its first committed page", cold.map(({ ms }) => ms), { unit: "ms" }),
      ratioOf(
        `next page after a kill at 90 % of ${long} records ÷ first page of a cold start`,
        "ms",
        [resumed, cold],
        { atMost: 2 }
      )
    ]
  })

const measureMemory = async ({ log, long, records, rounds, url }: Setting): Promise<ReadonlyArray<Figure>> => {
  const figures: Array<Figure> = []
  for (const to of ["sqlite:payments.db", "file:ndjson?format=ndjson", "file:parquet?format=parquet&compress=zstd"]) {
    const run = (from: string, count: number) => () =>
      inFolder((folder) => exportTo({ url: from, to: to.replace(":", `:${folder}/`) }, count, memoryFlags))
    const cases = { short: run(url.short, records), long: run(url.long, long) }
    const peaks = await inTurn(cases, { rounds: Math.min(rounds, 3), warmUp: false, log })
    figures.push(
      figureOf(
        `peak RSS with the flags of bin/payments, ${long} records, to ${to}`,
        peaks.long.map(({ peakRss }) => peakRss / 2 ** 20),
        {
          unit: "MiB"
        }
      ),
      ratioOf(`peak RSS, ${long} ÷ ${records} records, to ${to}`, "peakRss", [peaks.long, peaks.short], {
        atMost: 1.15
      })
    )
  }
  return figures
}
