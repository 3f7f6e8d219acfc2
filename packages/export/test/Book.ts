/**
 * What a destination must hold after a history, kept by other means than the engine's: plain sets of ids, one page after
 * the other.
 */

/** A traversal of the list, or of a part of it, over all its runs. */
export interface Traversal {
  readonly scan: number
  /** Empty for the whole list. */
  readonly part: string
  /** By id what it was shown last, and on the how manieth page of all. */
  readonly seen: Map<string, { readonly text: string; readonly page: number }>
  /** Whether it was shown some record again. */
  isRepeated: boolean
  /** Whether it began again, so that it is not known what it was shown before. */
  isRestarted: boolean
  /** The page of all that last had a record without an id. */
  namelessAt: number | undefined
  /** Ids that were stored when it began. */
  readonly before: ReadonlySet<string>
  /** How many pages there had been when it began. */
  readonly beganAt: number
  ended: boolean
  /** The ids that are missing from its end on. */
  missing: ReadonlyArray<string>
  heldBack: number
}

/** All traversals, and what follows from them. */
export class Book {
  /** What may be stored of each id: the last text, or one of several that came side by side. */
  readonly texts = new Map<string, ReadonlyArray<string>>()
  readonly missing = new Set<string>()
  readonly traversals: Array<Traversal> = []
  #pages = 0

  /** A scan begins, or goes on. */
  begin(scan: number, part: string, resumed: boolean): Traversal {
    const going = this.traversals.findLast((one) => one.scan === scan)
    if (resumed && going !== undefined) return going
    const traversal: Traversal = {
      scan,
      part,
      seen: new Map(),
      isRepeated: false,
      isRestarted: false,
      namelessAt: undefined,
      before: new Set(this.texts.keys()),
      beganAt: this.#pages,
      ended: false,
      missing: [],
      heldBack: 0
    }
    this.traversals.push(traversal)
    return traversal
  }

  /** A page is committed. Of what came beside it, no order is known. */
  page(traversal: Traversal, texts: ReadonlyArray<string>, beside: ReadonlyArray<string> = []): void {
    const page = ++this.#pages
    for (const text of texts) {
      const id = idOf(text)
      if (id === undefined) traversal.namelessAt = page
      else {
        this.texts.set(id, [text, ...beside.filter((other) => idOf(other) === id)])
        traversal.isRepeated ||= traversal.seen.has(id)
        traversal.seen.set(id, { text, page })
        this.missing.delete(id)
      }
    }
  }

  /** The traversal begins again. */
  again(traversal: Traversal): void {
    traversal.seen.clear()
    traversal.isRepeated = false
    traversal.isRestarted = true
    traversal.namelessAt = undefined
  }

  /** Whether another part of the list was, or may have been, shown one of its records. */
  isShared({ part, seen }: Traversal): boolean {
    return this.traversals.some((one) =>
      one.part !== "" && one.part !== part && (one.isRestarted || [...one.seen.keys()].some((id) => seen.has(id)))
    )
  }

  /** The traversal came to its end. What any other showed since the last complete one of the whole list began is not missing. */
  end(traversal: Traversal, limit = 0.1): void {
    const { before, namelessAt, part, seen } = traversal
    const old = this.traversals.findLast((one) => one.part === "" && one.ended)
    traversal.ended = true
    if (part !== "" || namelessAt !== undefined) return
    const unseen = [...before].filter((id) => !seen.has(id) && !this.missing.has(id))
    const since = (page: number | undefined) => old !== undefined && page !== undefined && page > old.beganAt
    const between = this.traversals.filter((one) => one !== traversal)
    const gone = old === undefined || between.some((one) => since(one.namelessAt))
      ? []
      : unseen.filter((id) => old.before.has(id) && !between.some((one) => since(one.seen.get(id)?.page)))
    const most = (before.size - this.missing.size) * limit
    if (unseen.length > most) {
      traversal.heldBack = unseen.length
      return
    }
    traversal.missing = gone
    for (const id of gone) this.missing.add(id)
  }
}

/** The id that a record of these tests has. */
export const idOf = (text: string): string | undefined => /"id":"([^"]*)"/.exec(text)?.[1]
