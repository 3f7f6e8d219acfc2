/**
 * `-`: the exact text of each record as a line on stdout, as the pages come and as fast as they are read. Nothing is kept of
 * it, so every scan begins anew; where a refused cursor makes it begin again, its records are printed again. Whoever reads
 * it gets each record that the API returned at least once, those that do not decode too.
 */
import { parseText } from "@payments/core"
import { Effect, Layer, Stdio } from "effect"
import { layoutOf } from "./engine/Columns.ts"
import { countPaths } from "./engine/Plan.ts"
import * as Tally from "./engine/Tally.ts"
import { Failed, type ReadRecord, type ScanProgress, Sink, SinkError } from "./Sink.ts"
import * as Stdout from "./Stdout.ts"

const location = "standard output"

/** Writes to stdout. It must be built in the main thread: no other one waits for the reader. */
export const layer: Layer.Layer<Sink, never, Stdio.Stdio> = Layer.effect(
  Sink,
  Effect.gen(function*() {
    const stdio = yield* Stdio.Stdio
    const line = (yield* stdio.stdoutIsTerminal)
      ? ({ text }: ReadRecord) => `${Stdout.printable(text)}\n`
      : ({ text }: ReadRecord) => `${text}\n`
    const print = (reads: ReadonlyArray<ReadRecord>) =>
      reads.length === 0
        ? Effect.void
        : Stdout.write(reads.map(line).join("")).pipe(
          Effect.provideService(Stdio.Stdio, stdio),
          Effect.mapError((error) =>
            new SinkError({ location, reason: new Failed({ code: Stdout.systemCodeOf(error) }) })
          )
        )
    let scans = 0
    return Sink.of({
      location,
      hold: () => Effect.void,
      begin: (list) =>
        Effect.sync(() => {
          const layout = layoutOf(list)
          const nothing: ScanProgress = {
            ...Tally.none.counts,
            missing: 0,
            heldBack: 0,
            undocumented: {},
            replaced: 0
          }
          let progress = nothing
          const count = (reads: ReadonlyArray<ReadRecord>, pages: number): ScanProgress => {
            const undocumented = new Map(Object.entries(progress.undocumented))
            for (const { text } of reads) countPaths(undocumented, layout.undocumentedIn(parseText(text)))
            const bad = reads.filter(({ problem }) => problem !== undefined)
            return {
              ...progress,
              pages: progress.pages + pages,
              records: progress.records + reads.length,
              quarantined: progress.quarantined + bad.length,
              nameless: progress.nameless + bad.filter(({ id }) => id === undefined).length,
              undocumented: Object.fromEntries(undocumented)
            }
          }
          return {
            scan: ++scans,
            start: "first",
            resumeAt: undefined,
            progress: Effect.sync(() => progress),
            commit: ({ pages, reads }) => Effect.map(print(reads), () => progress = count(reads, pages)),
            restart: Effect.sync(() => void (progress = nothing)),
            giveUp: Effect.void
          }
        }),
      publish: () => Effect.void
    })
  })
)
