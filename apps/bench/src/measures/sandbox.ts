/** Measures how the memory of `@payments/sandbox` grows with the number of records that it has sent. */
import { memoryFlags } from "../harness/Programs.ts"
import type { Figure } from "../harness/Report.ts"
import { Process, runAlone } from "../workloads/Process.ts"

/** The records of the lists whose figures are compared. */
export interface SandboxSizes {
  readonly short: number
  readonly long: number
}

/** The sizes for which the targets are defined. */
export const fullSandboxSizes: SandboxSizes = { short: 100_000, long: 10_000_000 }

/** `log` receives a line after each step. */
export const measureSandbox = async (
  { long, short }: SandboxSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  const peak = async (records: number, flags: ReadonlyArray<string>): Promise<number> => {
    await using server = new Process(flags)
    const [url = ""] = await server.run("serveMany", [{ records }])
    await runAlone({ records }, "read", { workload: "bare loop", url })
    const mebibytes = await server.run("peakRss") / 2 ** 20
    log(`peak RSS after ${records} records, ${flags.join(" ") || "no flags"}: ${mebibytes.toFixed(0)} MiB`)
    return mebibytes
  }
  const [limited, plain] = [await peak(long, memoryFlags), await peak(long, [])]
  const [withFlags, lengths] = [`peak RSS with ${memoryFlags.join(" ")}`, `${long} ÷ ${short} records`]
  return [
    { name: `${withFlags}, ${long} records`, value: limited, unit: "MiB" },
    { name: `peak RSS without these flags, ${long} records`, value: plain, unit: "MiB" },
    { name: `${withFlags}, ${lengths}`, value: limited / await peak(short, memoryFlags), unit: "×", atMost: 1.15 },
    { name: `peak RSS without these flags, ${lengths}`, value: plain / await peak(short, []), unit: "×" }
  ]
}
