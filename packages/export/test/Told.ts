/** A reader of the changes, who knows the rows as they were and must be told how they became what they are. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import type { ChangeRow, FullRow, Reader } from "../src/engine/Store.ts"
import type { SinkError } from "../src/Sink.ts"

interface Known {
  readonly text: string
  readonly missing: boolean
}

/** Every row of the list. */
export const rowsIn = Effect.fnUntraced(function*(reader: Reader): Effect.fn.Return<ReadonlyArray<FullRow>, SinkError> {
  return yield* reader.rows(Lists.invoices, -1, Number.MAX_SAFE_INTEGER)
})

/**
 * Follows the changes from one moment to the next. Before any scan was complete nothing need be told; before one of the whole
 * list was, a new record may be left untold.
 */
export class Told {
  /** How many changes of each kind. */
  readonly counts = { insert: 0, update: 0, missing: 0, returned: 0 }
  readonly #known = new Map<string, Known>()
  #after = 0
  #complete: "none" | "part" | "whole" = "none"

  readonly follow = Effect.fnUntraced(function*(this: Told, reader: Reader): Effect.fn.Return<void, SinkError> {
    const changes = yield* reader.changes(this.#after, Number.MAX_SAFE_INTEGER, Lists.all)
    const rows = new Map((yield* rowsIn(reader)).map(({ id, missingSince, raw }): [string, Known] => [id, {
      text: raw,
      missing: missingSince !== undefined
    }]))
    for (const change of changes) {
      assert.strictEqual(change.seq, ++this.#after, "no number is left out")
      this.counts[change.kind]++
      if (this.#complete !== "none") this.#apply(change)
    }
    if (this.#complete === "none") this.#known.clear()
    for (const [id, row] of rows) {
      const known = this.#known.get(id)
      if (known === undefined) {
        assert.notStrictEqual(this.#complete, "whole", `${id} was inserted, and is not told`)
        this.#known.set(id, row)
      } else assert.deepStrictEqual(known, row, `${id} is not as it was told`)
    }
    assert.strictEqual(this.#known.size, rows.size, "no row vanishes")
    const complete = (yield* reader.scans(Lists.invoices)).filter(({ state }) => state === "complete")
    this.#complete = complete.some(({ part }) => part === "") ? "whole" : complete.length > 0 ? "part" : "none"
  })

  #apply({ after, before, id, kind }: ChangeRow): void {
    const known = this.#known.get(id)
    const told = `${kind} of ${id}`
    if (kind === "insert") {
      assert.isUndefined(known, told)
      assert.isUndefined(before, told)
    } else if (known === undefined) assert.strictEqual(this.#complete, "part", `${told}, which was not inserted`)
    else {
      assert.strictEqual(known.missing, kind === "returned", told)
      if (kind !== "missing") assert.strictEqual(before, known.text, told)
    }
    if (kind === "update") assert.notStrictEqual(after, before, told)
    this.#known.set(id, { text: after ?? known?.text ?? "", missing: kind === "missing" })
  }
}
