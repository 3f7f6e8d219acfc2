/**
 * `npm run test:soak [-- --scans N]`: a worker scans a list of 10,000 records N times in a row (default 1,000), over a service
 * with faults. Its memory and its open files must not grow, and every certificate must be the same.
 */
import { scenarios } from "@payments/sandbox"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { parseArgs } from "node:util"
import { type Figure, meetsTarget, render } from "../harness/Report.ts"
import { WorkerProcess } from "../harness/WorkerProcess.ts"
import { Process } from "../workloads/Process.ts"

const { values } = parseArgs({ options: { scans: { type: "string", default: "1000" } } })
const scans = Number(values.scans)
if (!Number.isInteger(scans) || scans < 20) throw new Error("--scans is a whole number, 20 or more")

const records = 10_000
const folder = mkdtempSync(join(tmpdir(), "payments-soak-"))
await using services = new Process()
const { urls: [url = ""] = [] } = await services.send({
  do: "serveMany",
  services: [{ records, faults: scenarios.flaky.faults }]
})
const source = { name: "soak", url, settings: [`lists = ["payout-requests"]`, `every = "1s"`] }
await using worker = await WorkerProcess.start(folder, [], [source])

/** Returns the figures of the last certificate that do not depend on the scan. */
const lastCertificate = (): string => {
  using database = new DatabaseSync(join(folder, "soak.db"), { readOnly: true })
  const row = database.prepare("SELECT certificate FROM scans WHERE certificate IS NOT NULL ORDER BY scan DESC LIMIT 1")
    .get()
  const { distinct, digest, records: certified, sums }: Record<string, unknown> = JSON.parse(
    String(row?.["certificate"])
  )
  return JSON.stringify([certified, distinct, digest, sums])
}

/** The resident set in MiB and the number of open files, after each scan. */
const memory: Array<number> = []
const files: Array<number> = []
let wrong = 0
let first: string | undefined
for (let scan = 1; scan <= scans; scan++) {
  // oxlint-disable-next-line no-await-in-loop -- one sample per scan
  const line = (await worker.untilLogged("scan complete", scan))[scan - 1]
  const certificate = lastCertificate()
  first ??= certificate
  const { missing, quarantined, records: read }: { readonly [name: string]: unknown } = line ?? {}
  if (certificate !== first || read !== records || missing !== 0 || quarantined !== 0) wrong++
  memory.push(worker.memory("VmRSS") / 2 ** 20)
  files.push(readdirSync(`/proc/${worker.pid}/fd`).length)
  if (scan % 50 === 0) {
    console.error(`scan ${scan}: ${memory.at(-1)?.toFixed(0)} MiB, ${files.at(-1)} open files, ${wrong} wrong`)
  }
}

/** Returns the slope of the regression line through the values, per 100 values. */
const slope = (measured: ReadonlyArray<number>): number => {
  const middle = (measured.length - 1) / 2
  const mean = measured.reduce((sum, value) => sum + value, 0) / measured.length
  const products = measured.reduce((sum, value, index) => sum + (index - middle) * (value - mean), 0)
  return products / measured.reduce((sum, _, index) => sum + (index - middle) ** 2, 0) * 100
}

// The first tenth is left out: the heap grows to its usual size.
const settled = Math.floor(scans / 10)
const figures: ReadonlyArray<Figure> = [
  { name: "growth of the resident set per 100 scans", value: slope(memory.slice(settled)), unit: "MiB", atMost: 1 },
  { name: "growth of the open files per 100 scans", value: slope(files.slice(settled)), unit: "files", atMost: 0.5 },
  { name: `wrong scans of ${scans}`, value: wrong, unit: "scans", atMost: 0 }
]
console.log(render(figures))
rmSync(folder, { recursive: true, force: true })
if (figures.some((figure) => meetsTarget(figure) === false)) process.exitCode = 1
