/** Measures how fast `bin/payments` starts, and how fast it lists, each next to what it is compared with, in the same run. */
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { closeSync, mkdtempSync, openSync, rmSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type Figure, median } from "../harness/Report.ts"
import { atRoot } from "../harness/Root.ts"
import { Process } from "../workloads/Process.ts"

/** The sizes of the measurements. */
export interface CliSizes {
  /** Measured rounds after a warm-up round. The figures are medians over them. */
  readonly rounds: number
  /** Invoices of the listing: so many that it takes much longer than the start. */
  readonly records: number
}

/** The sizes for which the targets are defined. */
export const fullCliSizes: CliSizes = { rounds: 20, records: 300_000 }

/** Measures all figures. `log` receives a line after each step. */
export const measureCli = async (
  sizes: CliSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  execFileSync(process.execPath, [atRoot("scripts/programs.mjs")])
  return [...await measureStart(sizes, log), ...await measureListing(sizes, log)]
}

const payments = atRoot("bin/payments")

/** The environment of the measured programs, without this user's settings. `gh` fails without a home folder. */
const ownEnvironment = { PATH: process.env["PATH"], HOME: "/nonexistent", XDG_CONFIG_HOME: "/dev/null" }

/** Runs a program until its end. Returns its milliseconds. Its output goes to `file`. */
const run = async (
  [program, ...args]: readonly [string, ...ReadonlyArray<string>],
  env: Readonly<Record<string, string>> = {},
  file = "/dev/null"
): Promise<number> => {
  const output = openSync(file, "w")
  const start = performance.now()
  const child = spawn(program, args, {
    env: { ...ownEnvironment, ...env },
    stdio: ["ignore", output, "inherit"]
  })
  closeSync(output)
  const [code] = await once(child, "exit")
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with code ${String(code)}`)
  return performance.now() - start
}

const measureStart = async ({ rounds }: CliSizes, log: (line: string) => void): Promise<ReadonlyArray<Figure>> => {
  let firstRequestAt: number | undefined
  const server = createServer((_, response) => {
    firstRequestAt ??= performance.now()
    response.writeHead(200, { "content-type": "application/json" }).end(`{"items":[],"cursor":null,"count":0}`)
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
  const untilRequest = async (command: readonly [string, ...ReadonlyArray<string>]): Promise<number> => {
    firstRequestAt = undefined
    const start = performance.now()
    await run(command, { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" })
    return (firstRequestAt ?? Number.NaN) - start
  }
  const hasGh = spawnSync("gh", ["--version"], { env: ownEnvironment }).status === 0
  const node = [process.execPath, "-e", "0"] as const
  const cases = {
    "node -e 0": () => run(node),
    "reference of --version": () => run(hasGh ? ["gh", "--version"] : node),
    "payments --version": () => run([payments, "--version"]),
    "reference of --help": () => run(hasGh ? ["gh", "--help"] : node),
    "payments --help": () => run([payments, "--help"]),
    "node -e fetch": () => untilRequest([process.execPath, "-e", `fetch("${url}/v1/invoices")`]),
    "payments invoices list": () => untilRequest([payments, "invoices", "list"])
  }
  const ms: { [name: string]: Array<number> } = {}
  for (let round = 0; round <= rounds; round++) {
    for (const [name, measure] of Object.entries(cases)) {
      const time = await measure()
      if (round > 0) (ms[name] ??= []).push(time)
    }
    log(`start: round ${round} of ${rounds}`)
  }
  server.close()
  const of = (name: keyof typeof cases): number => median(ms[name] ?? [])
  const reference = (command: string) => hasGh ? `gh ${command}` : "node -e 0 (gh is not installed)"
  return [
    { name: "node -e 0", value: of("node -e 0"), unit: "ms" },
    { name: "payments --version", value: of("payments --version"), unit: "ms" },
    {
      name: `payments --version ÷ ${reference("--version")}`,
      value: of("payments --version") / of("reference of --version"),
      unit: "×",
      atMost: 1.2
    },
    { name: "payments --help", value: of("payments --help"), unit: "ms" },
    {
      name: `payments --help ÷ ${reference("--help")}`,
      value: of("payments --help") / of("reference of --help"),
      unit: "×",
      atMost: 1.5
    },
    { name: "node -e fetch, up to its request", value: of("node -e fetch"), unit: "ms" },
    { name: "payments invoices list, up to its first request", value: of("payments invoices list"), unit: "ms" },
    {
      name: "payments invoices list ÷ node -e fetch",
      value: of("payments invoices list") / of("node -e fetch"),
      unit: "×",
      atMost: 1.5
    }
  ]
}

const measureListing = async (
  { records, rounds }: CliSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  try {
    await using server = new Process()
    const { url } = await server.send({ do: "listen", records })
    if (url === undefined) throw new Error("the server reported no address")
    const file = join(folder, "invoices.ndjson")
    const env = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" }
    const program: Array<number> = []
    const reads: Array<number> = []
    for (let round = 0; round <= rounds; round++) {
      // A new process each time, as each listing is one: the first seconds of both run code that is not optimized yet.
      await using library = new Process()
      const read = await library.send({ do: "run", workload: "PaymentsApi, exact texts of invoices", url })
      const listed = await run([payments, "invoices", "list", "--all", "--format", "ndjson"], env, file)
      if (read.ms === undefined || read.result?.records !== records) throw new Error("not all invoices were read")
      // Each line is a text and a line end; the texts are ASCII in part only, so a line may have more bytes than characters.
      if (statSync(file).size < read.result.characters + records) throw new Error("not all invoices were printed")
      if (round > 0) {
        reads.push(read.ms)
        program.push(listed)
      }
      log(`listing: round ${round} of ${rounds}: library ${read.ms.toFixed(0)} ms, program ${listed.toFixed(0)} ms`)
    }
    const rate = (ms: ReadonlyArray<number>) => records / median(ms) * 1000
    return [
      { name: "PaymentsApi, exact texts of invoices", value: rate(reads), unit: "records/s" },
      { name: "payments invoices list --all --format ndjson > FILE", value: rate(program), unit: "records/s" },
      {
        name: "payments invoices list --all ÷ PaymentsApi, exact texts",
        value: rate(program) / rate(reads),
        unit: "×",
        atLeast: 0.8
      }
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
