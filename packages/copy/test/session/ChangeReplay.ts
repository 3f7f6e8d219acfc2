/** A reader that replays the `changes` over its copy of the rows and checks that the result equals the stored rows. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import type { SinkError } from "../../src/port/Sink.ts"
import type { ChangeRow, FullRow, Reader } from "../../src/store/Store.ts"

interface ReplayedRow {
  readonly text: string
  readonly missing: boolean
}

/** Reads every row of the list. */
export const rowsIn = Effect.fnUntraced(
  function*(reader: Pick<Reader, "rows">): Effect.fn.Return<ReadonlyArray<FullRow>, SinkError> {
    return yield* reader.rows(Lists.invoices, -1, Number.MAX_SAFE_INTEGER)
  }
)

/**
 * Replays the new changes at each call. Until a scan is complete, rows may change without an entry in `changes`. Until a scan
 * of the whole list is complete, a new row may lack its `insert` entry.
 */
export class ChangeReplay {
  /** The number of changes of each kind. */
  readonly counts = { insert: 0, update: 0, missing: 0, returned: 0 }
  /** The ids of missing rows that were removed. Without a change, a removed record vanishes, or is inserted again. */
  readonly removed = new Set<string>()
  readonly #rows = new Map<string, ReplayedRow>()
  #after = 0
  #complete: "none" | "part" | "whole" = "none"

  /** The number of the last change that was replayed. */
  get position(): number {
    return this.#after
  }

  readonly replay = Effect.fnUntraced(function*(this: ChangeReplay, reader: Reader): Effect.fn.Return<void, SinkError> {
    const changes = yield* reader.changes(this.#after, Number.MAX_SAFE_INTEGER, Lists.all)
    const stored = new Map((yield* rowsIn(reader)).map(({ id, missingSince, raw }): [string, ReplayedRow] => [id, {
      text: raw,
      missing: missingSince !== undefined
    }]))
    for (const change of changes) {
      assert.strictEqual(change.seq, ++this.#after, "the numbers have no gap")
      this.counts[change.kind]++
      if (this.#complete !== "none") this.#apply(change)
    }
    if (this.#complete === "none") this.#rows.clear()
    for (const [id, row] of stored) {
      const replayed = this.#rows.get(id)
      if (replayed === undefined) {
        assert.notStrictEqual(this.#complete, "whole", `${id} was inserted without a change`)
        this.#rows.set(id, row)
      } else assert.deepStrictEqual(replayed, row, `${id} differs from its changes`)
    }
    for (const [id, { missing }] of this.#rows) {
      if (missing && this.removed.has(id) && !stored.has(id)) this.#rows.delete(id)
    }
    assert.strictEqual(this.#rows.size, stored.size, "no row vanishes")
    const complete = (yield* reader.scans(Lists.invoices)).filter(({ state }) => state === "complete")
    this.#complete = complete.some(({ part }) => part === "") ? "whole" : complete.length > 0 ? "part" : "none"
  })

  #apply({ after, before, id, kind }: ChangeRow): void {
    const row = this.#rows.get(id)
    const change = `${kind} of ${id}`
    if (kind === "insert") {
      assert.isTrue(row === undefined || (row.missing && this.removed.has(id)), change)
      assert.isUndefined(before, change)
    } else if (row === undefined) assert.strictEqual(this.#complete, "part", `${change}, which was not inserted`)
    else {
      assert.strictEqual(row.missing, kind === "returned", change)
      if (kind !== "missing") assert.strictEqual(before, row.text, change)
    }
    if (kind === "update") assert.notStrictEqual(after, before, change)
    this.#rows.set(id, { text: after ?? row?.text ?? "", missing: kind === "missing" })
  }
}
