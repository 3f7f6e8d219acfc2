/**
 * `npm run test:soak [-- --scans N]`: a worker scans a list of 10,000 records N times in a row (default 1,000), over a
 * service with faults. Its memory and its open files must not grow, and every certificate must be the same.
 */
import { scenarios } from "@payments/sandbox"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { memory } from "../harness/ProcessFigures.ts"
import { temporaryFolder } from "../harness/Programs.ts"
import { type Figure, report } from "../harness/Report.ts"
import { startWorker } from "../workloads/ManySources.ts"
import { Process } from "../workloads/Process.ts"

const { values } = parseArgs({ options: { scans: { type: "string", default: "1000" } } })
const scans = Number(values.scans)
if (!Number.isInteger(scans) || scans < 20) throw new Error("--scans is a whole number, 20 or more")

const records = 10_000
await using stack = new AsyncDisposableStack()
const { folder } = stack.use(temporaryFolder())
const [url = ""] = await stack.use(new Process()).run("serveMany", [{ records, faults: scenarios.flaky.faults }])
const settings = [`lists = ["payout-requests"]`, `every = "1s"`]
const worker = await startWorker(stack, folder, settings, [{ name: "soak", url, to: "sqlite:soak.db" }])

/** Returns the figures of the last certificate that do not depend on the scan, with what is missing and quarantined. */
const lastResult = (): string => {
  using database = new DatabaseSync(join(folder, "soak.db"), { readOnly: true })
  const row = database.prepare(
    `SELECT certificate, (SELECT count(*) FROM payout_requests WHERE missing_since IS NOT NULL) AS missing,
      (SELECT count(*) FROM quarantine) AS quarantined
    FROM scans WHERE certificate IS NOT NULL ORDER BY scan DESC LIMIT 1`
  ).get()
  const { distinct, digest, records: certified, sums }: Record<string, unknown> = JSON.parse(
    String(row?.["certificate"])
  )
  return JSON.stringify([certified, row?.["missing"], row?.["quarantined"], distinct, digest, sums])
}

/** The resident set in MiB and the number of open files, after each scan. */
const sizes: Array<number> = []
const files: Array<number> = []
let wrong = 0
let first: string | undefined
for (let scan = 1; scan <= scans; scan++) {
  await worker.untilLogged("scan complete", scan)
  const result = lastResult()
  first ??= result
  if (result !== first || !result.startsWith(`[${records},0,0,`)) wrong++
  sizes.push(memory(worker.pid, "VmRSS") / 2 ** 20)
  files.push(readdirSync(`/proc/${worker.pid}/fd`).length)
  if (scan % 50 === 0) {
    console.error(`scan ${scan}: ${sizes.at(-1)?.toFixed(0)} MiB, ${files.at(-1)} open files, ${wrong} wrong`)
  }
}

/** The slope of the regression line through the values, per 100 values. */
const slope = (measured: ReadonlyArray<number>): number => {
  const middle = (measured.length - 1) / 2
  const mean = measured.reduce((sum, value) => sum + value, 0) / measured.length
  const products = measured.reduce((sum, value, index) => sum + (index - middle) * (value - mean), 0)
  return products / measured.reduce((sum, _, index) => sum + (index - middle) ** 2, 0) * 100
}

// The first tenth is left out: the heap grows to its usual size.
const settled = Math.floor(scans / 10)
const figures: ReadonlyArray<Figure> = [
  { name: "growth of the resident set per 100 scans", value: slope(sizes.slice(settled)), unit: "MiB", atMost: 1 },
  { name: "growth of the open files per 100 scans", value: slope(files.slice(settled)), unit: "files", atMost: 0.5 },
  { name: `wrong scans of ${scans}`, value: wrong, unit: "scans", atMost: 0 }
]
if (!report(figures)) process.exitCode = 1
