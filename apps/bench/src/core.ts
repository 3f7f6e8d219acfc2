/** The figures of `@payments/core`, beside a bare loop and other clients, all in one run. */
import { pageSize } from "./PageServer.ts"
import { Process } from "./Process.ts"
import { type Figure, median } from "./Report.ts"
import type { WorkloadName } from "./workloads/all.ts"

/** How much to do. */
export interface Sizes {
  /** Of the list that is read for speed. */
  readonly records: number
  /** Medians are taken over so many, after one that does not count. */
  readonly rounds: number
  /** Of the list behind a slow server. */
  readonly slowRecords: number
  /** The long list has so many times the records of the short one. */
  readonly memoryTimes: number
  /** Listings against a server that is down. */
  readonly stormListings: number
}

/** What the targets are meant for. */
export const fullSizes: Sizes = {
  records: 100_000,
  rounds: 7,
  slowRecords: 4000,
  memoryTimes: 10,
  stormListings: 10_000
}

/** Measures everything. `say` is told what is under way. */
export const core = async (sizes: Sizes, say: (line: string) => void): Promise<ReadonlyArray<Figure>> => [
  ...await speed(sizes, say),
  ...await slow(sizes, say),
  ...await memory(sizes, say),
  ...await storm(sizes, say)
]

const ask = async (server: Process, records: number): Promise<string> => {
  const { url } = await server.tell({ do: "listen", records })
  if (url === undefined) throw new Error("the server gave no address")
  return url
}

/** Runs the workloads in turn, again and again, so that whatever else the machine does falls on all of them. */
const interleaved = async <Name extends WorkloadName>(
  workloads: ReadonlyArray<{ readonly name: Name; readonly url: string }>,
  records: number,
  rounds: number,
  say: (line: string) => void
): Promise<Readonly<Record<Name, number>>> => {
  await using stack = new AsyncDisposableStack()
  const runs = workloads.map((workload) => ({ ...workload, process: stack.use(new Process()), ms: Array<number>() }))
  for (let round = 0; round <= rounds; round++) {
    for (const { ms, name, process, url } of runs) {
      const answer = await process.tell({ do: "run", workload: name, url })
      if (answer.tally?.records !== records || answer.ms === undefined) {
        throw new Error(`${name} read ${answer.tally?.records} of ${records} records`)
      }
      if (round > 0) ms.push(answer.ms)
      say(`${round === 0 ? "warm-up" : `round ${round} of ${rounds}`}: ${name} ${answer.ms.toFixed(0)} ms`)
    }
  }
  return Object.fromEntries(runs.map(({ ms, name }) => [name, median(ms)])) as Record<Name, number> // one entry each
}

const speed = async ({ records, rounds }: Sizes, say: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await ask(server, records)
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
  const ms = await interleaved(names.map((name) => ({ name, url })), records, rounds, say)
  const rate = (name: typeof names[number]): Figure => ({ name, value: records / ms[name] * 1000, unit: "records/s" })
  const against = (name: typeof names[number], other: typeof names[number], atLeast?: number): Figure => ({
    name: `${name} ÷ ${other}`,
    value: ms[other] / ms[name],
    unit: "×",
    ...(atLeast === undefined ? {} : { atLeast })
  })
  return [
    ...names.map(rate),
    against("PaymentsApi", "floor", 0.9),
    against("PaymentsApi", "floor, prefetching"),
    against("PaymentsApi, exact texts", "floor", 0.7),
    against("PaymentsApi over Effect's undici", "floor"),
    against("PaymentsApi over fetch", "floor"),
    against("PaymentsApi", "stripe-node", 1.3),
    against("PaymentsApi", "fetch + zod", 1.1),
    against("PaymentsApi", "got.paginate", 3)
  ]
}

const slow = async ({ rounds, slowRecords }: Sizes, say: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = `${await ask(server, slowRecords)}/slow`
  const names = ["floor", "PaymentsApi, 30 ms per page"] as const
  const ms = await interleaved(names.map((name) => ({ name, url })), slowRecords, rounds, say)
  return [{
    name: `50 ms per response, 30 ms per page of a consumer, ${slowRecords / pageSize} pages ÷ the bare requests`,
    value: ms["PaymentsApi, 30 ms per page"] / ms.floor,
    unit: "×",
    atMost: 1.05
  }]
}

const memory = async (
  { memoryTimes, records, rounds }: Sizes,
  say: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await ask(server, records)
  const peak = async (workload: WorkloadName, times: number, flags: ReadonlyArray<string>): Promise<number> => {
    await using process = new Process(flags)
    const { peakRss, tally } = await process.tell({ do: "run", workload, url: `${url}/times/${times}` })
    if (tally?.records !== records * times || peakRss === undefined) throw new Error("not all records were read")
    say(`memory: ${workload}, ${tally.records} records ${flags.join(" ")} ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
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
  // As `bin/payments` starts it. Without these flags V8 lets its young generation grow with time.
  const flags = ["--max-semi-space-size=4", "--heap-growing-percent=80"]
  const held = await compare("PaymentsApi", flags)
  const plain = await compare("PaymentsApi", [])
  const floor = await compare("floor", [])
  const ratio = ({ long, short }: { readonly short: number; readonly long: number }) => ({
    value: long / short,
    unit: "×" as const
  })
  const lengths = `${records * memoryTimes} ÷ ${records} records`
  return [
    { name: `peak RSS with ${flags.join(" ")}, ${records} records`, value: held.short, unit: "MiB" },
    { name: `peak RSS with ${flags.join(" ")}, ${lengths}`, ...ratio(held), atMost: 1.15 },
    { name: `peak RSS without, ${lengths}`, ...ratio(plain) },
    { name: `peak RSS without, ${lengths}, floor`, ...ratio(floor) }
  ]
}

const storm = async ({ stormListings }: Sizes, say: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await ask(server, pageSize)
  await using process = new Process()
  await process.tell({ do: "storm", url: `${url}/down`, listings: stormListings })
  const requests = Number(await (await fetch(`${url}/requests`)).text())
  say(`storm: ${requests} requests`)
  return [{
    name: `requests beyond the first ones of ${stormListings} listings, all answered 503`,
    value: requests - stormListings,
    unit: "requests",
    atMost: 50
  }]
}
