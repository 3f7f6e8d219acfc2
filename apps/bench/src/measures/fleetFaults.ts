/**
 * `npm run test:fleet [-- --times N] [--faults kill,freeze,…] [--seed N] [--folder FOLDER] [--worker FILE] [--standby]`
 *
 * Small fleets run side by side. Each suffers one kind of fault at random moments, 30 times by default. A process that
 * has lost its lease must commit nothing. No record may be lost or doubled. Other runners must take the sources over.
 */
import { startServer } from "@payments/testkit/postgres/PostgresServer"
import { diceOf } from "@payments/testkit/Seed"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { type FaultName, type FaultOutcome, faults } from "../fleet/Faults.ts"
import { Fleet, type FleetResult } from "../fleet/Fleet.ts"
import { wallMs } from "../harness/Link.ts"
import { programs } from "../harness/Programs.ts"
import { type Figure, median, percentile95, report } from "../harness/Report.ts"

const { values } = parseArgs({
  options: {
    times: { type: "string", default: "30" },
    faults: { type: "string", default: Object.keys(faults).join() },
    seed: { type: "string", default: String(wallMs() % 1_000_000_000) },
    runners: { type: "string", default: "3" },
    sources: { type: "string", default: "4" },
    folder: { type: "string" },
    worker: { type: "string", default: programs.worker },
    standby: { type: "boolean", default: false }
  }
})
const [times, seed] = [Number(values.times), Number(values.seed)]
const names = Object.keys(faults).filter((name): name is FaultName => values.faults.split(",").includes(name))
if (!Number.isInteger(times) || times < 1 || names.length === 0) throw new Error("--times N, --faults NAME,…")

/** How many fleets share the repetitions of a fault. A freeze and a black hole take minutes each. */
const fleetsOf = { kill: 1, freeze: 2, terminate: 1, blackhole: 2, rolling: 1 } as const
/** The longest random wait before a fault, in milliseconds. */
const longestWait = 8000

const folder = values.folder ?? mkdtempSync(join(tmpdir(), "payments-fleet-"))
mkdirSync(folder, { recursive: true })
console.log(`seed ${seed}; logs of the workers in ${folder}`)
const start = performance.now()
const log = (line: string) => console.log(`${((performance.now() - start) / 1000).toFixed(0).padStart(5)} s  ${line}`)

for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))
const server = await startServer(["max_connections=2000"])

interface FleetRun {
  readonly fault: FaultName
  readonly outcomes: ReadonlyArray<FaultOutcome>
  readonly result: FleetResult
}

const runFleet = async (fault: FaultName, number: number, share: number): Promise<FleetRun> => {
  const name = `${fault}${number}`
  const dice = diceOf(seed, name)
  await using fleet = await Fleet.start({
    name,
    postgresPort: server.port,
    folder: join(folder, name),
    runners: Number(values.runners),
    sources: Number(values.sources),
    worker: values.worker,
    mode: values.standby ? "standby" : "cluster",
    seed: 1 + dice.below(1_000_000)
  })
  log(`${name}: started`)
  const outcomes: Array<FaultOutcome> = []
  while (outcomes.length < share) {
    await sleep(dice.below(longestWait))
    const owners = Map.groupBy(await fleet.owners(), ([, instance]) => instance)
    const shares = [...owners].map(([instance, own]) => `${instance} ${own.length}`).toSorted().join(", ")
    const outcome = await faults[fault](fleet, dice)
    outcomes.push(outcome)
    const seconds = [...outcome.takeovers.values()]
    log(
      `${name} ${outcomes.length} of ${share}: ${outcome.kind}, ${outcome.variant}: ${
        seconds.map((value) => value.toFixed(1)).join(", ")
      } s (lists before: ${shares})`
    )
    await fleet.settle().catch((error: unknown) => {
      log(`${name}: ${String(error)}`)
      fleet.problems.push(`after ${outcome.kind}: ${String(error)}`)
    })
  }
  const result = await fleet.finish()
  log(`${name}: ended; ${result.commits} commits, ${result.stale.length} stale, ${result.wrong.length} wrong`)
  return { fault, outcomes, result }
}

const ended = await Promise.allSettled(names.flatMap((fault) => {
  const count = Math.min(times, fleetsOf[fault])
  return Array.from({ length: count }, (_, number) => {
    const share = Math.floor((times + number) / count)
    return runFleet(fault, number, share)
  })
}))
await server.stop()

const runs = ended.flatMap((one) => one.status === "fulfilled" ? [one.value] : [])
const failed = ended.flatMap((one) => one.status === "rejected" ? [one.reason as unknown] : [])
const results = runs.map(({ result }) => result)
const count = (name: string, lines: ReadonlyArray<string>): Figure => {
  for (const line of lines.slice(0, 20)) console.log(`${name}: ${line}`)
  return { name, value: lines.length, unit: "count", atMost: 0 }
}
const sum = (of: (result: FleetResult) => number) => results.reduce((total, result) => total + of(result), 0)

const errors = Map.groupBy(results.flatMap((result) => [...result.errors]), ([text]) => text)
for (const [text, counts] of errors) {
  console.log(`logged ${counts.reduce((total, [, one]) => total + one, 0)} times: ${text}`)
}
for (const reason of failed) console.log(`a fleet failed: ${reason instanceof Error ? reason.stack : String(reason)}`)

const figures: ReadonlyArray<Figure> = [
  ...names.map((fault): Figure => ({
    name: `faults: ${fault}`,
    value: runs.filter((one) => one.fault === fault).reduce((total, one) => total + one.outcomes.length, 0),
    unit: "count",
    atLeast: times
  })),
  ...[...Map.groupBy(runs.flatMap(({ outcomes }) => outcomes), ({ kind }) => kind)].flatMap(([kind, outcomes]) => {
    const takeovers = outcomes.flatMap((one) => [...one.takeovers.values()])
    return [
      { name: `takeover of a source, ${kind}, median`, value: median(takeovers), unit: "s" },
      { name: `takeover of a source, ${kind}, p95`, value: percentile95(takeovers), unit: "s", atMost: 60 },
      { name: `takeover of a source, ${kind}, longest`, value: Math.max(...takeovers), unit: "s" }
    ] satisfies ReadonlyArray<Figure>
  }),
  { name: "commits under a lease", value: sum(({ commits }) => commits), unit: "count", atLeast: 1 },
  count("stale commits", results.flatMap(({ stale }) => stale)),
  { name: "records compared", value: sum(({ records }) => records), unit: "count", atLeast: 1 },
  { name: "changes replayed", value: sum(({ changes }) => changes), unit: "count", atLeast: 1 },
  count("records lost, doubled or otherwise wrong", results.flatMap(({ wrong }) => wrong)),
  // Standbys wait for each list by itself, so the lists of a source may be on two runners, each with its own pace.
  ...(values.standby
    ? []
    : [count("sources whose requests exceeded the ceiling", results.flatMap((one) => one.outrun))]),
  {
    name: "most requests in 5 s ÷ what the ceiling allows",
    value: Math.max(...results.map(({ peak }) => peak)),
    unit: "×"
  },
  count("wrong ends of a process, or runners that did not work again", results.flatMap(({ problems }) => problems)),
  { name: "runners that lost the cluster's database", value: sum(({ outages }) => outages), unit: "count" },
  { name: "fleets that failed", value: failed.length, unit: "count", atMost: 0 }
]
if (!report(figures)) process.exitCode = 1
else if (values.folder === undefined) rmSync(folder, { recursive: true, force: true })
