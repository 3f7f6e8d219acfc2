/** `pnpm bench core|sandbox|export|worker|observation|fleet|budget|cli|alerts [--records N] [--rounds N] [--json FILE] [--check]` */
import { writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { machine, meetsTarget, render } from "./harness/Report.ts"
import { fullAlertSizes, measureAlerts } from "./measures/alerts.ts"
import { fullBudgetSizes, measureBudget } from "./measures/budget.ts"
import { fullCliSizes, measureCli } from "./measures/cli.ts"
import { fullSizes, measureCore } from "./measures/core.ts"
import { fullExportSizes, measureExport } from "./measures/export.ts"
import { fullFleetSizes, measureFleet } from "./measures/fleet.ts"
import { fullHeadSizes, measureHead } from "./measures/head.ts"
import { fullSandboxSizes, measureSandbox } from "./measures/sandbox.ts"
import { fullWorkerSizes, measureObservation, measureWorker } from "./measures/worker.ts"

const usage = `usage: pnpm bench core|sandbox|export|worker|observation|fleet|budget|cli|alerts [flags]
  --records N   records of the list for speed and memory figures (a multiple of 100; default ${fullSizes.records}, worker and
                observation: ${fullWorkerSizes.records}, cli: ${fullCliSizes.records})
  --rounds N    measured rounds; the figures are their medians (default ${fullSizes.rounds}, worker and
                observation: ${fullWorkerSizes.rounds}, cli: ${fullCliSizes.rounds})
  --json FILE   also write the figures to this file
  --check       exit with code 1 if a target is missed`

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    records: { type: "string" },
    rounds: { type: "string" },
    json: { type: "string" },
    check: { type: "boolean", default: false }
  }
})
const defaults = ["worker", "observation"].includes(positionals[0] ?? "")
  ? fullWorkerSizes
  : positionals[0] === "cli"
  ? fullCliSizes
  : fullSizes
const sizes = {
  ...fullSizes,
  records: Number(values.records ?? defaults.records),
  rounds: Number(values.rounds ?? defaults.rounds)
}
const benches = {
  core: (log: Log) => measureCore(sizes, log),
  sandbox: (log: Log) => measureSandbox({ ...fullSandboxSizes, records: sizes.records, rounds: sizes.rounds }, log),
  export: (log: Log) => measureExport({ ...fullExportSizes, records: sizes.records, rounds: sizes.rounds }, log),
  worker: async (log: Log) => [
    ...await measureWorker({ ...fullWorkerSizes, records: sizes.records, rounds: sizes.rounds }, log),
    // It always runs with 1,000,000 records for 4 minutes.
    ...await measureHead(fullHeadSizes, log)
  ],
  // It always has 100 sources, and ignores the flags for sizes.
  fleet: async (log: Log) => [...await measureFleet(fullFleetSizes, log), ...await measureBudget(fullBudgetSizes, log)],
  // A part of `fleet`: a worker and command lines with one key.
  budget: (log: Log) => measureBudget(fullBudgetSizes, log),
  // A part of `worker`: the cost of telemetry and status pages.
  observation: (log: Log) =>
    measureObservation({ ...fullWorkerSizes, records: sizes.records, rounds: sizes.rounds }, log),
  cli: (log: Log) => measureCli({ records: sizes.records, rounds: sizes.rounds }, log),
  // It needs Prometheus, and ignores the flags for sizes.
  alerts: (log: Log) => measureAlerts(fullAlertSizes, log)
}
type Log = (line: string) => void
const isCount = (value: number) => Number.isInteger(value) && value > 0

if (!Object.hasOwn(benches, positionals.join(" ")) || !isCount(sizes.records / 100) || !isCount(sizes.rounds)) {
  console.error(usage)
  process.exitCode = 2
} else {
  const about = machine()
  console.log(`${about.cpu}, ${about.cores} cores, ${about.memoryGiB} GiB, Node ${about.node}`)
  console.log(Object.entries(about.versions).map((pair) => pair.join(" ")).join(", "))
  console.log(`${sizes.records} records in pages of 100 over loopback; medians of ${sizes.rounds} interleaved rounds\n`)
  const log = (line: string) => console.error(line)
  const figures = await benches[positionals[0] as keyof typeof benches](log) // its name was checked above
  console.log(`\n${render(figures)}`)
  if (values.json !== undefined) {
    writeFileSync(values.json, `${JSON.stringify({ machine: about, sizes, figures }, undefined, 2)}\n`)
  }
  if (values.check && figures.some((figure) => meetsTarget(figure) === false)) process.exitCode = 1
}
