/** Measures how fast `bin/payments` starts and lists, each next to what it is compared with, in the same run. */
import { listen } from "@payments/testkit/Listening"
import { page } from "@payments/testkit/PageBody"
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { closeSync, openSync, statSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { atRoot, temporaryFolder } from "../harness/Programs.ts"
import { type Figure, medianOf, rateOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import { Process, runAlone } from "../workloads/Process.ts"

export interface CliSizes {
  /** Measured rounds after a warm-up round. The figures are medians over them. */
  readonly rounds: number
  /** Invoices of the listing: so many that it takes much longer than the start. */
  readonly records: number
}

/** The sizes for which the targets are defined. */
export const fullCliSizes: CliSizes = { rounds: 20, records: 300_000 }

type Log = (line: string) => void

/** `log` receives a line after each step. */
export const measureCli = async (sizes: CliSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  execFileSync(process.execPath, [atRoot("scripts/programs.mjs")])
  return [...await measureStart(sizes, log), ...await measureListing(sizes, log)]
}

const payments = atRoot("bin/payments")

/** The environment of the measured programs, without this user's settings. `gh` fails without a home folder. */
const ownEnvironment = { PATH: process.env["PATH"], HOME: "/nonexistent", XDG_CONFIG_HOME: "/dev/null" }

/** Measures how long a program runs. Its output goes to `file`. */
const run = async (
  [program, ...args]: readonly [string, ...ReadonlyArray<string>],
  env: Readonly<Record<string, string>> = {},
  file = "/dev/null"
) => {
  const output = openSync(file, "w")
  const start = performance.now()
  const child = spawn(program, args, { env: { ...ownEnvironment, ...env }, stdio: ["ignore", output, "inherit"] })
  closeSync(output)
  const [code] = await once(child, "exit")
  if (code !== 0) throw new Error(`${program} ${args.join(" ")} ended with code ${String(code)}`)
  return { ms: performance.now() - start }
}

const startEmptyService = async (stack: AsyncDisposableStack) => {
  let firstRequestAt: number | undefined
  const { close, port } = await listen(createServer((_, response) => {
    firstRequestAt ??= performance.now()
    response.writeHead(200, { "content-type": "application/json" }).end(page())
  }))
  stack.defer(close)
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    /** Measures how long a program takes to its first request. */
    untilRequest: async (command: readonly [string, ...ReadonlyArray<string>]) => {
      firstRequestAt = undefined
      const start = performance.now()
      await run(command, { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" })
      return { ms: (firstRequestAt ?? Number.NaN) - start }
    }
  }
}

const measureStart = async ({ rounds }: CliSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { untilRequest, url } = await startEmptyService(stack)
  const hasGh = spawnSync("gh", ["--version"], { env: ownEnvironment }).status === 0
  const node = [process.execPath, "-e", "0"] as const
  const runs = await inTurn({
    "node -e 0": () => run(node),
    "reference of --version": () => run(hasGh ? ["gh", "--version"] : node),
    "payments --version": () => run([payments, "--version"]),
    "reference of --help": () => run(hasGh ? ["gh", "--help"] : node),
    "payments --help": () => run([payments, "--help"]),
    "node -e fetch": () => untilRequest([process.execPath, "-e", `fetch("${url}/v1/invoices")`]),
    "payments invoices list": () => untilRequest([payments, "invoices", "list"])
  }, { rounds, log })
  const of = (name: keyof typeof runs): number => medianOf(runs[name], "ms")
  const figure = (name: keyof typeof runs, title: string = name): Figure => ({
    name: title,
    value: of(name),
    unit: "ms"
  })
  const ratio = (name: keyof typeof runs, reference: keyof typeof runs, title: string, atMost: number): Figure => ({
    name: `${name} ÷ ${title}`,
    value: of(name) / of(reference),
    unit: "×",
    atMost
  })
  const reference = (command: string) => hasGh ? `gh ${command}` : "node -e 0 (gh is not installed)"
  return [
    figure("node -e 0"),
    figure("payments --version"),
    ratio("payments --version", "reference of --version", reference("--version"), 1.2),
    figure("payments --help"),
    ratio("payments --help", "reference of --help", reference("--help"), 1.5),
    figure("node -e fetch", "node -e fetch, up to its request"),
    figure("payments invoices list", "payments invoices list, up to its first request"),
    ratio("payments invoices list", "node -e fetch", "node -e fetch", 1.5)
  ]
}

const measureListing = async ({ records, rounds }: CliSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { folder } = stack.use(temporaryFolder())
  const url = await stack.use(new Process()).run("listen", records)
  const file = join(folder, "invoices.ndjson")
  const env = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" }
  let characters = 0
  const { library, program } = await inTurn({
    // A new process each time, as each listing is one: the first seconds of both run code that is not optimized yet.
    library: async () => {
      const read = await runAlone({ records }, "read", { workload: "PaymentsApi, exact texts of invoices", url })
      characters = read.characters
      return { ms: read.ms }
    },
    program: async () => {
      const listed = await run([payments, "invoices", "list", "--all", "--format", "ndjson"], env, file)
      // Each line is a text and a line end. The texts are not only ASCII, so a line may have more bytes than
      // characters.
      if (statSync(file).size < characters + records) throw new Error("not all invoices were printed")
      return listed
    }
  }, { rounds, log })
  const rates = [
    rateOf("PaymentsApi, exact texts of invoices", records, library),
    rateOf("payments invoices list --all --format ndjson > FILE", records, program)
  ] as const
  return [
    ...rates,
    {
      name: "payments invoices list --all ÷ PaymentsApi, exact texts",
      value: rates[1].value / rates[0].value,
      unit: "×",
      atLeast: 0.8
    }
  ]
}
