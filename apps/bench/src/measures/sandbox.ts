/** Measures `@payments/sandbox` and, for comparison in the same run, a bare server. */
import { type Figure, median } from "../harness/Report.ts"
import { Process, type ServeOptions } from "../workloads/Process.ts"

/** The sizes of the measurements. */
export interface SandboxSizes {
  readonly rounds: number
  /** Requests per round and server. */
  readonly requests: number
  /** Records of the list for the speed figures. */
  readonly records: number
  /** Records of the short list for the figures of the first page and of memory. */
  readonly short: { readonly firstPage: number; readonly memory: number }
  /** Records of the long list for both figures. */
  readonly long: number
}

/** The sizes for which the targets are defined. */
export const fullSandboxSizes: SandboxSizes = {
  rounds: 7,
  requests: 4000,
  records: 100_000,
  short: { firstPage: 1000, memory: 100_000 },
  long: 10_000_000
}

/** Measures all figures. `log` receives a line after each step. */
export const measureSandbox = async (
  sizes: SandboxSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => [
  ...await measureSpeed(sizes, log),
  ...await measureFirstPage(sizes, log),
  ...await measureMemory(sizes, log)
]

const measureSpeed = async (
  { records, requests, rounds }: SandboxSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const start = async (options: ServeOptions) => {
    const { url } = await stack.use(new Process()).send({ do: "serve", options })
    if (url === undefined) throw new Error("the server reported no address")
    return { kind: options.kind, url, rates: Array<number>() }
  }
  const client = stack.use(new Process())
  const servers = [
    await start({ kind: "bare" }),
    await start({ kind: "generated", records })
  ]
  for (let round = 0; round <= rounds; round++) {
    for (const { kind, rates, url } of servers) {
      const { ms } = await client.send({ do: "load", url, pages: 200, requests })
      if (ms === undefined) throw new Error("the child reported no time")
      const rate = requests / ms * 1000
      if (round > 0) rates.push(rate)
      log(`${round === 0 ? "warm-up" : `round ${round} of ${rounds}`}: ${kind} ${rate.toFixed(0)} pages/s`)
    }
  }
  const [bare = 0, generated = 0] = servers.map(({ rates }) => median(rates))
  return [
    { name: "bare node:http, one prepared page", value: bare, unit: "pages/s" },
    { name: "the sandbox, generated pages", value: generated, unit: "pages/s" },
    { name: "generated ÷ bare", value: generated / bare, unit: "×", atLeast: 0.3 }
  ]
}

const measureFirstPage = async (
  { long, rounds, short }: SandboxSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  const time = async (records: number): Promise<number> => {
    await using process = new Process()
    const { ms } = await process.send({ do: "firstPage", records })
    if (ms === undefined) throw new Error("the child reported no time")
    log(`first page of a list of ${records} records: ${ms.toFixed(1)} ms`)
    return ms
  }
  const times = { short: Array<number>(), long: Array<number>() }
  for (let round = 0; round < rounds; round++) {
    times.short.push(await time(short.firstPage))
    times.long.push(await time(long))
  }
  return [{
    name: `time to the first page, list of ${long} ÷ ${short.firstPage} records`,
    value: median(times.long) / median(times.short),
    unit: "×",
    atMost: 3
  }]
}

const measureMemory = async (
  { long, short }: SandboxSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  const peak = async (records: number, flags: ReadonlyArray<string>): Promise<number> => {
    await using server = new Process(flags)
    await using client = new Process()
    const { url } = await server.send({ do: "serve", options: { kind: "generated", records } })
    const read = await client.send({ do: "readAll", url: url ?? "" })
    if (read.records !== records) throw new Error(`read ${read.records} of ${records} records`)
    const { peakRss = 0 } = await server.send({ do: "memory" })
    log(
      `peak RSS after ${records} records${flags.length === 0 ? "" : ` with ${flags.join(" ")}`}: ${
        (peakRss / 2 ** 20).toFixed(0)
      } MiB`
    )
    return peakRss
  }
  // The flags of `bin/payments`. Without them V8 lets its young generation grow with time.
  const flags = ["--max-semi-space-size=4", "--heap-growing-percent=80"]
  const limited = await peak(long, flags) / await peak(short.memory, flags)
  const plain = await peak(long, []) / await peak(short.memory, [])
  return [
    {
      name: `peak RSS with ${flags.join(" ")}, ${long} ÷ ${short.memory} records`,
      value: limited,
      unit: "×",
      atMost: 1.15
    },
    { name: `peak RSS without these flags, ${long} ÷ ${short.memory} records`, value: plain, unit: "×" }
  ]
}
