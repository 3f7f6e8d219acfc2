/**
 * The destination `-` prints the exact text of each record as a line on stdout. It delivers every record that the API
 * returns at least once, including records that do not decode. It stores no state, so every scan starts at the first
 * page. If a refused cursor restarts a scan, its records are printed again.
 */
import { Effect, Layer, Stdio } from "effect"
import * as ScanTotals from "../plan/ScanTotals.ts"
import { type Batch, type BatchRecord, DestinationFailed, type ScanProgress, Sink, SinkError } from "../port/Sink.ts"
import * as Stdout from "../stdout/Stdout.ts"
import { printable } from "../text/Printable.ts"

const location = "standard output"

/** Build it in the main thread: in a worker thread, a write does not wait until stdout accepts the text. */
export const layer: Layer.Layer<Sink, never, Stdio.Stdio> = Layer.effect(
  Sink,
  Effect.gen(function*() {
    const stdio = yield* Stdio.Stdio
    const line = (yield* stdio.stdoutIsTerminal)
      ? ({ text }: BatchRecord) => `${printable(text)}\n`
      : ({ text }: BatchRecord) => `${text}\n`
    const print = (records: ReadonlyArray<BatchRecord>) =>
      records.length === 0
        ? Effect.void
        : Stdout.write(records.map(line).join("")).pipe(
          Effect.provideService(Stdio.Stdio, stdio),
          Effect.mapError((error) =>
            new SinkError({ location, reason: new DestinationFailed({ code: Stdout.systemCodeOf(error) }) })
          )
        )
    let scans = 0
    return Sink.of({
      location,
      lock: () => Effect.void,
      begin: () =>
        Effect.sync(() => {
          const nothing = ScanTotals.progressOf(ScanTotals.none)
          let progress = nothing
          const count = ({ pages, records, undocumented }: Batch): ScanProgress => {
            const bad = records.filter(({ problem }) => problem !== undefined)
            return {
              ...progress,
              pages: progress.pages + pages,
              records: progress.records + records.length,
              quarantined: progress.quarantined + bad.length,
              withoutId: progress.withoutId + bad.filter(({ id }) => id === undefined).length,
              undocumented: ScanTotals.addPaths(progress.undocumented, undocumented)
            }
          }
          return {
            scan: ++scans,
            start: "first",
            resumeAt: undefined,
            progress: Effect.sync(() => progress),
            commit: (batch) => Effect.map(print(batch.records), () => progress = count(batch)),
            restart: Effect.sync(() => void (progress = nothing)),
            giveUp: Effect.void
          }
        }),
      publish: () => Effect.void
    })
  })
)
