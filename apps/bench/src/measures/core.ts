/** Measures `@payments/core` and, for comparison in the same run, a bare loop and other clients. */
import { pageSize } from "../harness/PageServer.ts"
import { type Figure, median } from "../harness/Report.ts"
import type { WorkloadName } from "../workloads/all.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurements. */
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

/** Measures all figures. `log` receives a line after each step. */
export const measureCore = async (sizes: Sizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => [
  ...await measureSpeed(sizes, log),
  ...await measureSlowConsumer(sizes, log),
  ...await measureMemory(sizes, log),
  ...await measureRetryStorm(sizes, log)
]

const startListening = async (server: Process, records: number): Promise<string> => {
  const { url } = await server.send({ do: "listen", records })
  if (url === undefined) throw new Error("the server reported no address")
  return url
}

/** Runs the workloads alternately for several rounds, so that other load on the machine affects all of them. */
const runInterleaved = async <Name extends WorkloadName>(
  workloads: ReadonlyArray<{ readonly name: Name; readonly url: string }>,
  records: number,
  rounds: number,
  log: (line: string) => void
): Promise<Readonly<Record<Name, number>>> => {
  await using stack = new AsyncDisposableStack()
  const runs = workloads.map((workload) => ({ ...workload, process: stack.use(new Process()), ms: Array<number>() }))
  for (let round = 0; round <= rounds; round++) {
    for (const { ms, name, process, url } of runs) {
      const response = await process.send({ do: "run", workload: name, url })
      if (response.result?.records !== records || response.ms === undefined) {
        throw new Error(`${name} read ${response.result?.records} of ${records} records`)
      }
      if (round > 0) ms.push(response.ms)
      log(`${round === 0 ? "warm-up" : `round ${round} of ${rounds}`}: ${name} ${response.ms.toFixed(0)} ms`)
    }
  }
  return Object.fromEntries(runs.map(({ ms, name }) => [name, median(ms)])) as Record<Name, number> // one entry each
}

const measureSpeed = async (
  { records, rounds }: Sizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, records)
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
  const ms = await runInterleaved(names.map((name) => ({ name, url })), records, rounds, log)
  const rate = (name: typeof names[number]): Figure => ({ name, value: records / ms[name] * 1000, unit: "records/s" })
  const ratioTo = (name: typeof names[number], other: typeof names[number], atLeast?: number): Figure => ({
    name: `${name} ÷ ${other}`,
    value: ms[other] / ms[name],
    unit: "×",
    ...(atLeast === undefined ? {} : { atLeast })
  })
  return [
    ...names.map(rate),
    ratioTo("PaymentsApi", "bare loop", 0.9),
    ratioTo("PaymentsApi", "bare loop, prefetching"),
    ratioTo("PaymentsApi, exact texts", "bare loop", 0.7),
    ratioTo("PaymentsApi over Effect's undici", "bare loop"),
    ratioTo("PaymentsApi over fetch", "bare loop"),
    ratioTo("PaymentsApi", "stripe-node", 1.3),
    ratioTo("PaymentsApi", "fetch + zod", 1.1),
    ratioTo("PaymentsApi", "got.paginate", 3)
  ]
}

const measureSlowConsumer = async (
  { rounds, slowRecords }: Sizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = `${await startListening(server, slowRecords)}/slow`
  const names = ["bare loop", "PaymentsApi, 30 ms per page"] as const
  const ms = await runInterleaved(names.map((name) => ({ name, url })), slowRecords, rounds, log)
  return [{
    name: `time of ${
      slowRecords / pageSize
    } pages, 50 ms per response: a consumer that waits 30 ms per page ÷ bare loop`,
    value: ms["PaymentsApi, 30 ms per page"] / ms["bare loop"],
    unit: "×",
    atMost: 1.05
  }]
}

const measureMemory = async (
  { memoryFactor, records, rounds }: Sizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, records)
  const peak = async (workload: WorkloadName, times: number, flags: ReadonlyArray<string>): Promise<number> => {
    await using process = new Process(flags)
    const { peakRss, result } = await process.send({ do: "run", workload, url: `${url}/times/${times}` })
    if (result?.records !== records * times || peakRss === undefined) throw new Error("not all records were read")
    log(`peak RSS: ${workload}, ${result.records} records ${flags.join(" ")} ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
    return peakRss / 2 ** 20
  }
  const compare = async (workload: WorkloadName, flags: ReadonlyArray<string>) => {
    const short: Array<number> = []
    const long: Array<number> = []
    for (let round = 0; round < Math.min(rounds, 5); round++) {
      short.push(await peak(workload, 1, flags))
      long.push(await peak(workload, memoryFactor, flags))
    }
    return { short: median(short), long: median(long) }
  }
  // The flags of `bin/payments`. Without them V8 lets its young generation grow with time.
  const flags = ["--max-semi-space-size=4", "--heap-growing-percent=80"]
  const limited = await compare("PaymentsApi", flags)
  const plain = await compare("PaymentsApi", [])
  const bareLoop = await compare("bare loop", [])
  const ratio = ({ long, short }: { readonly short: number; readonly long: number }) => ({
    value: long / short,
    unit: "×" as const
  })
  const lengths = `${records * memoryFactor} ÷ ${records} records`
  return [
    { name: `peak RSS with ${flags.join(" ")}, ${records} records`, value: limited.short, unit: "MiB" },
    { name: `peak RSS with ${flags.join(" ")}, ${lengths}`, ...ratio(limited), atMost: 1.15 },
    { name: `peak RSS without these flags, ${lengths}`, ...ratio(plain) },
    { name: `peak RSS without these flags, ${lengths}, bare loop`, ...ratio(bareLoop) }
  ]
}

const measureRetryStorm = async (
  { stormListings }: Sizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, pageSize)
  await using process = new Process()
  await process.send({ do: "storm", url: `${url}/down`, listings: stormListings })
  const requests = Number(await (await fetch(`${url}/requests`)).text())
  log(`storm: ${requests} requests`)
  return [{
    name: `retries of ${stormListings} listings at a server that responds only with 503`,
    value: requests - stormListings,
    unit: "requests",
    atMost: 50
  }]
}
