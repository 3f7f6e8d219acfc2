/** `npm run bench -- core|export|history|hot|cli|handoff|probe|reconcile|sandbox|worker|fleet [--records N] [--rounds N] [--json FILE] [--check]` */
import { writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import { type Figure, machine, report } from "./harness/Report.ts"
import { fullCliSizes, measureCli } from "./measures/cli.ts"
import { fullSizes, measureCore } from "./measures/core.ts"
import { fullExportSizes, measureExport } from "./measures/export.ts"
import { fullFleetSizes, measureFleet } from "./measures/fleet.ts"
import { fullHandoffSizes, measureHandoff } from "./measures/handoff.ts"
import { fullHistorySizes, measureHistory } from "./measures/history.ts"
import { fullHotSizes, measureHot } from "./measures/hot.ts"
import { fullProbeSizes, measureProbe } from "./measures/probe.ts"
import { fullReconcileSizes, measureReconcile } from "./measures/reconcile.ts"
import { fullSandboxSizes, measureSandbox } from "./measures/sandbox.ts"
import { fullWorkerSizes, measureWorker } from "./measures/worker.ts"

const usage = `usage: npm run bench -- core|export|history|hot|cli|handoff|probe|reconcile|sandbox|worker|fleet [flags]
  --records N   core, export, history, cli, handoff, reconcile: records of the list (a multiple of 100; default ${fullSizes.records}, cli: ${fullCliSizes.records})
  --rounds N    core, export, history, cli, handoff, reconcile: measured rounds; the figures are their medians (default ${fullSizes.rounds}, cli: ${fullCliSizes.rounds})
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

interface Bench<Sizes> {
  readonly sizes: Sizes
  readonly measure: (sizes: Sizes, log: (line: string) => void) => Promise<ReadonlyArray<Figure>>
}

/** Replaces the records and rounds by those of the flags. */
const ofSize = <Sizes extends { readonly records: number; readonly rounds: number }>(
  { measure, sizes }: Bench<Sizes>
) => {
  const chosen = {
    ...sizes,
    records: Number(values.records ?? sizes.records),
    rounds: Number(values.rounds ?? sizes.rounds)
  }
  return fixed({ sizes: chosen, measure })
}

const fixed = <Sizes extends object>({ measure, sizes }: Bench<Sizes>) => ({
  sizes,
  run: () => measure(sizes, (line) => console.error(line))
})

const benches = {
  core: ofSize({ sizes: fullSizes, measure: measureCore }),
  export: ofSize({ sizes: fullExportSizes, measure: measureExport }),
  history: ofSize({ sizes: fullHistorySizes, measure: measureHistory }),
  cli: ofSize({ sizes: fullCliSizes, measure: measureCli }),
  handoff: ofSize({ sizes: fullHandoffSizes, measure: measureHandoff }),
  hot: fixed({ sizes: fullHotSizes, measure: measureHot }),
  probe: fixed({ sizes: fullProbeSizes, measure: measureProbe }),
  reconcile: ofSize({ sizes: fullReconcileSizes, measure: measureReconcile }),
  sandbox: fixed({ sizes: fullSandboxSizes, measure: measureSandbox }),
  worker: fixed({ sizes: fullWorkerSizes, measure: measureWorker }),
  fleet: fixed({ sizes: fullFleetSizes, measure: measureFleet })
}
const isBench = (name: string): name is keyof typeof benches => Object.hasOwn(benches, name)
const isCount = (value: number) => Number.isInteger(value) && value > 0

const name = positionals.join(" ")
if (!isBench(name) || !isCount(Number(values.records ?? 100) / 100) || !isCount(Number(values.rounds ?? 1))) {
  console.error(usage)
  process.exitCode = 2
} else {
  const { run, sizes } = benches[name]
  const about = machine()
  console.log(`${about.cpu}, ${about.cores} cores, ${about.memoryGiB} GiB, Node ${about.node}`)
  console.log(Object.entries(about.versions).map((pair) => pair.join(" ")).join(", "))
  console.log(`${JSON.stringify(sizes)}; pages of 100 over loopback\n`)
  const figures = await run()
  if (!report(figures) && values.check) process.exitCode = 1
  if (values.json !== undefined) {
    writeFileSync(values.json, `${JSON.stringify({ machine: about, sizes, figures }, undefined, 2)}\n`)
  }
}
