/**
 * The expected content of a destination after a history. The model computes it differently from the engine: with plain sets
 * of ids, page by page.
 */

/** A traversal of the list, or of a part of it, across all its runs. */
export interface Traversal {
  readonly scan: number
  /** The value of the part's filter. Empty for the whole list. */
  readonly part: string
  /** The last text of each id, and the number of the page that had it, counted over all traversals. */
  readonly seen: Map<string, { readonly text: string; readonly page: number }>
  /** Whether a record occurred more than once. */
  isRepeated: boolean
  /** Whether the traversal was restarted, so that the records before the restart are unknown. */
  isRestarted: boolean
  /** The number of the last page with a record without an id. */
  withoutIdAtPage: number | undefined
  /** The ids that were stored when the traversal began. */
  readonly before: Set<string>
  /** The number of pages before the traversal began. */
  readonly firstPage: number
  ended: boolean
  /** The ids that the end of the traversal marked missing. */
  missing: ReadonlyArray<string>
  heldBack: number
}

/** All traversals, and the content that results from them. */
export class ReferenceModel {
  /** The texts that may be stored for each id: the last one, or one of several that were committed concurrently. */
  readonly texts = new Map<string, ReadonlyArray<string>>()
  readonly missing = new Set<string>()
  readonly traversals: Array<Traversal> = []
  #pages = 0

  /** Begins or resumes a scan. */
  begin(scan: number, part: string, isResumed: boolean): Traversal {
    const existing = this.traversals.findLast((traversal) => traversal.scan === scan)
    if (isResumed && existing !== undefined) return existing
    const traversal: Traversal = {
      scan,
      part,
      seen: new Map(),
      isRepeated: false,
      isRestarted: false,
      withoutIdAtPage: undefined,
      before: new Set(this.texts.keys()),
      firstPage: this.#pages,
      ended: false,
      missing: [],
      heldBack: 0
    }
    this.traversals.push(traversal)
    return traversal
  }

  /** Commits a page. `concurrent` has the texts of concurrent commits, whose order is unknown. */
  commitPage(traversal: Traversal, texts: ReadonlyArray<string>, concurrent: ReadonlyArray<string> = []): void {
    const page = ++this.#pages
    for (const text of texts) {
      const id = idOf(text)
      if (id === undefined) traversal.withoutIdAtPage = page
      else {
        this.texts.set(id, [text, ...concurrent.filter((other) => idOf(other) === id)])
        traversal.isRepeated ||= traversal.seen.has(id)
        traversal.seen.set(id, { text, page })
        this.missing.delete(id)
      }
    }
  }

  /** Restarts the traversal. */
  restart(traversal: Traversal): void {
    traversal.seen.clear()
    traversal.isRepeated = false
    traversal.isRestarted = true
    traversal.withoutIdAtPage = undefined
  }

  /** Removes a missing row. If its record is returned again, it is a new one. */
  remove(id: string): void {
    this.texts.delete(id)
    this.missing.delete(id)
    for (const { before } of this.traversals) before.delete(id)
  }

  /** Whether another part of the list returned one of the traversal's records, or may have returned one. */
  isShared({ part, seen }: Traversal): boolean {
    return this.traversals.some((other) =>
      other.part !== "" && other.part !== part &&
      (other.isRestarted || [...other.seen.keys()].some((id) => seen.has(id)))
    )
  }

  /**
   * Ends the traversal. A row is missing if neither this traversal, nor the last complete one of the whole list, nor any
   * traversal since the start of that one returned it.
   */
  end(traversal: Traversal, limit = 0.1): void {
    const { before, part, seen, withoutIdAtPage } = traversal
    const previous = this.traversals.findLast((earlier) => earlier.part === "" && earlier.ended)
    traversal.ended = true
    if (part !== "" || withoutIdAtPage !== undefined) return
    const unseen = [...before].filter((id) => !seen.has(id) && !this.missing.has(id))
    const isSincePrevious = (page: number | undefined) =>
      previous !== undefined && page !== undefined && page > previous.firstPage
    const others = this.traversals.filter((other) => other !== traversal)
    const missing = previous === undefined || others.some((other) => isSincePrevious(other.withoutIdAtPage))
      ? []
      : unseen.filter((id) =>
        previous.before.has(id) && !others.some((other) => isSincePrevious(other.seen.get(id)?.page))
      )
    const maxMissing = limit === 0 ? 0 : Math.max((before.size - this.missing.size) * limit, 3)
    if (unseen.length > maxMissing) {
      traversal.heldBack = unseen.length
      return
    }
    traversal.missing = missing
    for (const id of missing) this.missing.add(id)
  }
}

/** Returns the id of a record of these tests. */
export const idOf = (text: string): string | undefined => /"id":"([^"]*)"/.exec(text)?.[1]
