/** What a sink knows about a list while it is open, and what the full scans and passes of the list share. */
import { type Effect, Semaphore } from "effect"
import { conclude, type Concluded, type Contents, merged, noContents } from "../plan/Contents.ts"
import { RowSet } from "../plan/RowSet.ts"
import type { SinkError } from "../port/Sink.ts"
import type { Opening } from "../store/Store.ts"

/** The open full scan of a list, for a pass that changes rows that this scan has seen. */
export interface OpenFullScan {
  readonly seen: RowSet
  /** Commits pending unchanged batches, so that the stored totals are the latest ones. The caller has the mutex. */
  readonly flush: Effect.Effect<unknown, SinkError>
  /** Makes the scan read its totals from the destination again, because a pass may have corrected them there. */
  readonly invalidate: () => void
}

/** The rows that passes have read while a full scan was the last one. */
interface PassRows {
  /** The number of that scan, or 0 if this sink has opened none yet. */
  readonly scan: number
  readonly rows: RowSet
  /** Whether a pass has read a record without an id, which may belong to any row. */
  hasRecordWithoutId: boolean
}

export class OpenList {
  /** Scans of parts, the full scan and passes may run concurrently, but a plan depends on the commits before it. */
  readonly mutex = Semaphore.makeUnsafe(1)
  /** What was last read to begin a scan of a part, until this sink writes the list or locks it again. */
  opening: { readonly part: string; readonly read: Opening } | undefined
  /** The open full scan, unless one of its commits has failed. */
  full: OpenFullScan | undefined
  /** The rows on the last page that the last complete head pass has read. */
  headEnd: ReadonlySet<number> = new Set()
  /**
   * The first unused row number when the last complete head pass ended. The destination then had every record that is newer than
   * the rows below. A head pass that fails leaves it unchanged: it may have written records, but not the next older ones.
   */
  headRows: number | undefined
  /** What the sessions of this process have written, and what they have named, since the last complete full scan. */
  #written: Contents = noContents
  #named: Contents = noContents
  /** What passes have read since the last full scan was opened. */
  #passRows: PassRows = { scan: 0, rows: new RowSet(), hasRecordWithoutId: false }
  /** What passes have read before, since the last complete full scan began. */
  #earlierPassRows: ReadonlyArray<PassRows> = []

  /** A scan that is not new has begun before the passes since the last opened one. */
  openFullScan(scan: number, isNew: boolean): void {
    if (isNew) {
      this.#earlierPassRows = [...this.#earlierPassRows, this.#passRows]
      this.#passRows = { scan, rows: new RowSet(), hasRecordWithoutId: false }
    } else this.#passRows = { ...this.#passRows, scan }
  }

  /** The next full scan needs only what passes have read since this one began. */
  completeFullScan(scan: number): void {
    this.#earlierPassRows = this.#earlierPassRows.filter((earlier) => earlier.scan >= scan)
  }

  /** Notes what a session has written, also if it fails later: then the next one names it. */
  noteWritten(contents: Contents): void {
    this.#written = merged(this.#written, contents)
  }

  /**
   * Compares what a session has found with what was known and named before it. `stored` is what the last complete full scan has stored. An erasure empties it, and
   * then what this process has noted is forgotten too.
   */
  conclude(stored: Contents, contents: Contents): Concluded {
    if (Object.keys(stored).length === 0) this.#written = this.#named = noContents
    const before = merged(stored, this.#named)
    return conclude(before, merged(merged(contents, this.#written), before))
  }

  /** Notes that a session has ended, and that what it has found is named. */
  noteNamed({ contents }: Concluded): void {
    this.#named = merged(this.#named, contents)
  }

  noteReadByPass(rows: ReadonlyArray<number>, hasRecordWithoutId: boolean): void {
    for (const row of rows) this.#passRows.rows.add(row)
    this.#passRows.hasRecordWithoutId ||= hasRecordWithoutId
  }

  /** Whether a pass has read the row since the last complete full scan began. */
  isReadByPass(row: number): boolean {
    return this.#passRows.rows.has(row) || this.#earlierPassRows.some(({ rows }) => rows.has(row))
  }

  /** Whether a pass has read a record without an id since the last complete full scan began. */
  get hasPassWithoutId(): boolean {
    return [this.#passRows, ...this.#earlierPassRows].some(({ hasRecordWithoutId }) => hasRecordWithoutId)
  }
}
