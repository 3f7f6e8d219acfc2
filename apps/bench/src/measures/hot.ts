/** Measures where the time of a page goes: the stages of a listing, of a first load into SQLite, and of a rescan. */
import { join } from "node:path"
import { pageSize } from "../harness/PageServer.ts"
import { temporaryFolder } from "../harness/Programs.ts"
import type { Figure } from "../harness/Report.ts"
import { Process } from "../workloads/Process.ts"

export interface HotSizes {
  readonly records: number
}

export const fullHotSizes: HotSizes = { records: 200_000 }

/** Each part runs once before it is profiled, so that V8 has optimized its functions. All of it runs in one thread. */
export const measureHot = async (
  { records }: HotSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  await using server = new Process()
  const url = await server.run("listen", records)
  using place = temporaryFolder()
  const to = (name: string) => ({ url, to: `sqlite:${join(place.folder, name)}`, isInThisThread: true })
  await using process = new Process(["--max-semi-space-size=16"])
  const listing = { workload: "PaymentsApi, exact texts", url } as const
  await process.run("read", listing)
  await process.run("export", to("before.db"))
  const parts = {
    "listing with exact texts": await process.run("profile", { name: "read", input: listing }),
    "first load into SQLite": await process.run("profile", { name: "export", input: to("payments.db") }),
    "rescan": await process.run("profile", { name: "export", input: to("payments.db") })
  }
  return Object.entries(parts).flatMap(([part, times]) =>
    Object.entries(times).toSorted(([, a], [, b]) => b - a).flatMap(([stage, ms]): ReadonlyArray<Figure> => {
      log(`${part}: ${stage}: ${(ms / records * pageSize * 1000).toFixed(1)} µs per page`)
      return [{ name: `${part}: ${stage}, per record`, value: ms / records * 1000, unit: "µs" }]
    })
  )
}
