/** Measures a worker with many sources in one process. */
import { Lists } from "@payments/core"
import { memory } from "../harness/ProcessFigures.ts"
import { temporaryFolder } from "../harness/Programs.ts"
import type { Figure } from "../harness/Report.ts"
import { observe, startServices, startWorker } from "../workloads/ManySources.ts"

export interface WorkerSizes {
  readonly sources: number
  /** Records of each list of a source. */
  readonly recordsPerList: number
  readonly seconds: number
  /** The interval of the full scans in seconds. */
  readonly every: number
}

/** The sizes for which the targets are defined. */
export const fullWorkerSizes: WorkerSizes = { sources: 100, recordsPerList: 1000, seconds: 60, every: 15 }

export const measureWorker = async (
  { every, recordsPerList, seconds, sources }: WorkerSizes
): Promise<ReadonlyArray<Figure>> => {
  await using stack = new AsyncDisposableStack()
  const { folder } = stack.use(temporaryFolder())
  const { services, urls } = await startServices(stack, sources, recordsPerList)
  const worker = await startWorker(
    stack,
    folder,
    [`every = "${every}s"`],
    urls.map((url, index) => ({ name: `s${index}`, url, to: `sqlite:s${index}.db` }))
  )
  await worker.untilLogged("scan complete", sources * Lists.all.length)
  const { age, cpu } = await observe([worker], services, seconds)
  return [
    { name: `CPU per 1,000 pages, ${sources} sources`, value: cpu, unit: "ms" },
    { name: `peak RSS, ${sources} sources`, value: memory(worker.pid, "VmHWM") / 2 ** 20, unit: "MiB", atMost: 400 },
    { name: "age p95 of all lists", value: age, unit: "s" }
  ]
}
