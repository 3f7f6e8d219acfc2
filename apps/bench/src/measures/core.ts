/** Measures `@payments/core` and, for comparison in the same run, a bare loop and other clients. */
import { pageSize } from "../harness/PageServer.ts"
import { memoryFlags } from "../harness/Programs.ts"
import { type Figure, medianOf, rateOf, ratioOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import type { WorkloadName } from "../workloads/all.ts"
import { Process, requireRecords, runAlone } from "../workloads/Process.ts"
import type { Timed } from "../workloads/tasks.ts"

export interface Sizes {
  /** Records of the list for the speed figures. */
  readonly records: number
  /** Rounds after a warm-up round. The figures are medians over them. */
  readonly rounds: number
  /** Records of the list on the slow server. */
  readonly slowRecords: number
  /** How many times the long list of the memory figures repeats the short one. */
  readonly memoryFactor: number
  /** Listings against a server that responds with 503. */
  readonly stormListings: number
}

/** The sizes for which the targets are defined. */
export const fullSizes: Sizes = {
  records: 100_000,
  rounds: 7,
  slowRecords: 4000,
  memoryFactor: 10,
  stormListings: 10_000
}

type Log = (line: string) => void

/** `log` receives a line after each step. */
export const measureCore = async (sizes: Sizes, log: Log): Promise<ReadonlyArray<Figure>> => [
  ...await measureSpeed(sizes, log),
  ...await measureSlowConsumer(sizes, log),
  ...await measureMemory(sizes, log),
  ...await measureRetryStorm(sizes, log)
]

/** Each workload reads a list in turn, in a process that goes on between the rounds. */
const runsOf = async <const Name extends WorkloadName>(
  names: ReadonlyArray<Name>,
  { log, records, rounds, url }: Pick<Sizes, "records" | "rounds"> & { readonly url: string; readonly log: Log }
): Promise<{ readonly [name in Name]: ReadonlyArray<Timed> }> => {
  await using stack = new AsyncDisposableStack()
  const caseOf = (workload: Name) => {
    const process = stack.use(new Process())
    return async () => requireRecords(await process.run("read", { workload, url }), records)
  }
  // One entry for each name, in both records.
  const cases = Object.fromEntries(names.map((name) => [name, caseOf(name)])) as Record<Name, () => Promise<Timed>>
  return await inTurn(cases, { rounds, log })
}

const measureSpeed = async ({ records, rounds }: Sizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await server.run("listen", records)
  const names = [
    "bare loop",
    "bare loop, prefetching",
    "PaymentsApi",
    "PaymentsApi, exact texts",
    "PaymentsApi over Effect's undici",
    "PaymentsApi over fetch",
    "stripe-node",
    "fetch + zod",
    "got.paginate"
  ] as const
  const runs = await runsOf(names, { url, records, rounds, log })
  const ratioTo = (name: typeof names[number], other: typeof names[number], atLeast?: number): Figure =>
    ratioOf(`${name} ÷ ${other}`, "ms", [runs[other], runs[name]], atLeast === undefined ? {} : { atLeast })
  return [
    ...names.map((name) => rateOf(name, records, runs[name])),
    ratioTo("PaymentsApi", "bare loop", 0.9),
    ratioTo("PaymentsApi", "bare loop, prefetching"),
    ratioTo("PaymentsApi, exact texts", "bare loop", 0.7),
    ratioOf("PaymentsApi ÷ bare loop in processor time", "cpuMs", [runs["bare loop"], runs.PaymentsApi]),
    ratioTo("PaymentsApi over Effect's undici", "bare loop"),
    ratioTo("PaymentsApi over fetch", "bare loop"),
    ratioTo("PaymentsApi", "stripe-node", 1.3),
    ratioTo("PaymentsApi", "fetch + zod", 1.1),
    ratioTo("PaymentsApi", "got.paginate", 3)
  ]
}

const measureSlowConsumer = async ({ rounds, slowRecords: records }: Sizes, log: Log): Promise<Array<Figure>> => {
  await using server = new Process()
  const url = `${await server.run("listen", records)}/slow`
  const runs = await runsOf(["bare loop", "PaymentsApi, 30 ms per page"], { url, records, rounds, log })
  return [ratioOf(
    `time of ${records / pageSize} pages, 50 ms per response: a consumer that waits 30 ms per page ÷ bare loop`,
    "ms",
    [runs["PaymentsApi, 30 ms per page"], runs["bare loop"]],
    { atMost: 1.05 }
  )]
}

const measureMemory = async (
  { memoryFactor, records, rounds }: Sizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await server.run("listen", records)
  const read = (workload: WorkloadName, times: number, flags: ReadonlyArray<string> = []) => () =>
    runAlone({ flags, records: records * times }, "read", { workload, url: `${url}/times/${times}` })
  const runs = await inTurn({
    "short, with flags": read("PaymentsApi", 1, memoryFlags),
    "long, with flags": read("PaymentsApi", memoryFactor, memoryFlags),
    "short": read("PaymentsApi", 1),
    "long": read("PaymentsApi", memoryFactor),
    "short, bare loop": read("bare loop", 1),
    "long, bare loop": read("bare loop", memoryFactor)
  }, { rounds: Math.min(rounds, 5), warmUp: false, log })
  const peak = (name: keyof typeof runs) => medianOf(runs[name], "peakRss")
  const ratio = (of: "" | ", with flags" | ", bare loop") => ({
    value: peak(`long${of}`) / peak(`short${of}`),
    unit: "×" as const
  })
  const flags = memoryFlags.join(" ")
  const lengths = `${records * memoryFactor} ÷ ${records} records`
  return [
    { name: `peak RSS with ${flags}, ${records} records`, value: peak("short, with flags") / 2 ** 20, unit: "MiB" },
    { name: `peak RSS with ${flags}, ${lengths}`, ...ratio(", with flags"), atMost: 1.15 },
    { name: `peak RSS without these flags, ${lengths}`, ...ratio("") },
    { name: `peak RSS without these flags, ${lengths}, bare loop`, ...ratio(", bare loop") }
  ]
}

const measureRetryStorm = async ({ stormListings: listings }: Sizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await server.run("listen", pageSize)
  await using process = new Process()
  await process.run("storm", { url: `${url}/down`, listings })
  const requests = Number(await (await fetch(`${url}/requests`)).text())
  log(`storm: ${requests} requests`)
  return [{
    name: `retries of ${listings} listings at a server that responds only with 503`,
    value: requests - listings,
    unit: "requests",
    atMost: 50
  }]
}
