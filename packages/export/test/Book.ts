/**
 * What a destination must hold after a history, kept by other means than the engine's: plain sets of ids, one page after
 * the other.
 */

/** What a traversal has shown so far. */
interface Traversal {
  readonly part: string
  seen: Set<string>
  nameless: number
  /** Ids that were stored when it began. */
  readonly before: ReadonlySet<string>
  ended: boolean
}

/** The last complete traversals, and what follows from them. */
export class Book {
  /** What may be stored of each id: the last text, or one of several that came side by side. */
  readonly texts = new Map<string, ReadonlyArray<string>>()
  readonly missing = new Set<string>()
  /** Seen by the running traversal, or the last one. */
  current: Traversal = { part: "", seen: new Set(), nameless: 0, before: new Set(), ended: true }
  /** The last complete traversal of all, and what came after it. */
  #whole: Traversal | undefined
  #since: Array<Traversal> = []

  begin(part: string): void {
    // A traversal that was cut and not gone on with keeps what it saw.
    if (!this.current.ended) this.#since.push(this.current)
    this.current = { part, seen: new Set(), nameless: 0, before: new Set(this.texts.keys()), ended: false }
  }

  /** The service showed a page, and it is committed. */
  page(texts: ReadonlyArray<string>): void {
    for (const text of texts) {
      const id = idOf(text)
      if (id === undefined) this.current.nameless++
      else {
        this.texts.set(id, [text])
        this.current.seen.add(id)
        this.missing.delete(id)
      }
    }
  }

  /** The traversal begins again. */
  again(): void {
    this.current.seen = new Set()
    this.current.nameless = 0
  }

  /** The traversal came to its end: the ids that are missing from now on, and how many were held back. */
  end(limit = 0.1): { readonly missing: ReadonlyArray<string>; readonly heldBack: number } {
    const { before, nameless, part, seen } = this.current
    this.current.ended = true
    if (part !== "") {
      this.#since = [...this.#since.filter((one) => one.part !== part || !one.ended), this.current]
      return { missing: [], heldBack: 0 }
    }
    const between = this.#whole === undefined ? [] : [this.#whole, ...this.#since]
    const old = this.#whole
    this.#whole = this.current
    this.#since = []
    if (nameless > 0) return { missing: [], heldBack: 0 }
    const unseen = [...before].filter((id) => !seen.has(id) && !this.missing.has(id))
    const gone = old === undefined || between.some((one) => one.nameless > 0)
      ? []
      : unseen.filter((id) => old.before.has(id) && between.every((one) => !one.seen.has(id)))
    const most = (before.size - this.missing.size) * limit
    if (unseen.length > most) return { missing: [], heldBack: unseen.length }
    for (const id of gone) this.missing.add(id)
    return { missing: gone, heldBack: 0 }
  }
}

/** The id that a record of these tests has. */
export const idOf = (text: string): string | undefined => /"id":"([^"]*)"/.exec(text)?.[1]
