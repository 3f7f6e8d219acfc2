/** Measures `@payments/core` against a bare loop and other clients, all in one run. */
import { pageSize } from "./PageServer.ts"
import { Process } from "./Process.ts"
import { type Figure, median } from "./Report.ts"
import type { WorkloadName } from "./workloads/all.ts"

/** The sizes of the measurements. */
export interface Sizes {
  /** Records of the list for the speed figures. */
  readonly records: number
  /** Rounds after a warm-up round. The figures are medians over them. */
  readonly rounds: number
  /** Records of the list on the slow server. */
  readonly slowRecords: number
  /** The ratio of the long list to the short one, for the memory figures. */
  readonly memoryTimes: number
  /** Listings against a server that responds with 503. */
  readonly stormListings: number
}

/** The sizes for which the targets are defined. */
export const fullSizes: Sizes = {
  records: 100_000,
  rounds: 7,
  slowRecords: 4000,
  memoryTimes: 10,
  stormListings: 10_000
}

/** Measures all figures. `log` receives a line after each step. */
export const core = async (sizes: Sizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => [
  ...await speed(sizes, log),
  ...await slow(sizes, log),
  ...await memory(sizes, log),
  ...await storm(sizes, log)
]

const startListening = async (server: Process, records: number): Promise<string> => {
  const { url } = await server.send({ do: "listen", records })
  if (url === undefined) throw new Error("the server gave no address")
  return url
}

/** Runs the workloads alternately for several rounds, so that other load on the machine affects all of them. */
const interleaved = async <Name extends WorkloadName>(
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

const speed = async ({ records, rounds }: Sizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, records)
  const names = [
    "floor",
    "floor, prefetching",
    "PaymentsApi",
    "PaymentsApi, exact texts",
    "PaymentsApi over Effect's undici",
    "PaymentsApi over fetch",
    "stripe-node",
    "fetch + zod",
    "got.paginate"
  ] as const
  const ms = await interleaved(names.map((name) => ({ name, url })), records, rounds, log)
  const rate = (name: typeof names[number]): Figure => ({ name, value: records / ms[name] * 1000, unit: "records/s" })
  const ratioTo = (name: typeof names[number], other: typeof names[number], atLeast?: number): Figure => ({
    name: `${name} ÷ ${other}`,
    value: ms[other] / ms[name],
    unit: "×",
    ...(atLeast === undefined ? {} : { atLeast })
  })
  return [
    ...names.map(rate),
    ratioTo("PaymentsApi", "floor", 0.9),
    ratioTo("PaymentsApi", "floor, prefetching"),
    ratioTo("PaymentsApi, exact texts", "floor", 0.7),
    ratioTo("PaymentsApi over Effect's undici", "floor"),
    ratioTo("PaymentsApi over fetch", "floor"),
    ratioTo("PaymentsApi", "stripe-node", 1.3),
    ratioTo("PaymentsApi", "fetch + zod", 1.1),
    ratioTo("PaymentsApi", "got.paginate", 3)
  ]
}

const slow = async ({ rounds, slowRecords }: Sizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = `${await startListening(server, slowRecords)}/slow`
  const names = ["floor", "PaymentsApi, 30 ms per page"] as const
  const ms = await interleaved(names.map((name) => ({ name, url })), slowRecords, rounds, log)
  return [{
    name: `50 ms per response, 30 ms per page of a consumer, ${slowRecords / pageSize} pages ÷ the bare requests`,
    value: ms["PaymentsApi, 30 ms per page"] / ms.floor,
    unit: "×",
    atMost: 1.05
  }]
}

const memory = async (
  { memoryTimes, records, rounds }: Sizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, records)
  const peak = async (workload: WorkloadName, times: number, flags: ReadonlyArray<string>): Promise<number> => {
    await using process = new Process(flags)
    const { peakRss, result } = await process.send({ do: "run", workload, url: `${url}/times/${times}` })
    if (result?.records !== records * times || peakRss === undefined) throw new Error("not all records were read")
    log(`memory: ${workload}, ${result.records} records ${flags.join(" ")} ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
    return peakRss / 2 ** 20
  }
  const compare = async (workload: WorkloadName, flags: ReadonlyArray<string>) => {
    const short: Array<number> = []
    const long: Array<number> = []
    for (let round = 0; round < Math.min(rounds, 5); round++) {
      short.push(await peak(workload, 1, flags))
      long.push(await peak(workload, memoryTimes, flags))
    }
    return { short: median(short), long: median(long) }
  }
  // The flags of `bin/payments`. Without them V8 lets its young generation grow with time.
  const flags = ["--max-semi-space-size=4", "--heap-growing-percent=80"]
  const limited = await compare("PaymentsApi", flags)
  const plain = await compare("PaymentsApi", [])
  const floor = await compare("floor", [])
  const ratio = ({ long, short }: { readonly short: number; readonly long: number }) => ({
    value: long / short,
    unit: "×" as const
  })
  const lengths = `${records * memoryTimes} ÷ ${records} records`
  return [
    { name: `peak RSS with ${flags.join(" ")}, ${records} records`, value: limited.short, unit: "MiB" },
    { name: `peak RSS with ${flags.join(" ")}, ${lengths}`, ...ratio(limited), atMost: 1.15 },
    { name: `peak RSS without, ${lengths}`, ...ratio(plain) },
    { name: `peak RSS without, ${lengths}, floor`, ...ratio(floor) }
  ]
}

const storm = async ({ stormListings }: Sizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await startListening(server, pageSize)
  await using process = new Process()
  await process.send({ do: "storm", url: `${url}/down`, listings: stormListings })
  const requests = Number(await (await fetch(`${url}/requests`)).text())
  log(`storm: ${requests} requests`)
  return [{
    name: `requests beyond the first ones of ${stormListings} listings, all answered 503`,
    value: requests - stormListings,
    unit: "requests",
    atMost: 50
  }]
}
