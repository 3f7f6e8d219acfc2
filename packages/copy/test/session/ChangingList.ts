/** A list of invoices that changes while it is read, and a service over the list that reports the pages it returns. */
import { Lists, type Page, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerClient, ListCursor, type ListServer, makeListService, MemoryList } from "@payments/core/testing"
import type { Dice } from "@payments/testkit/Seed"
import { Effect, Layer, Redacted, Stream } from "effect"

/** The order of the list, and its cursors: the last returned record (keyset), or the number of returned records (offset). */
export interface Shape {
  readonly order: "newest" | "oldest" | "shuffled"
  readonly cursors: "keyset" | "offset"
}

interface Held {
  /** The constant position of the record in the order. */
  readonly rank: number
  readonly contract: string
  readonly settlementDate: string | undefined
  readonly text: string
}

const contracts = ["north", "south"] as const
const farAway = 1_000_000

/** A list that changes between its pages. */
export class ChangingList {
  readonly server: ListServer.ListServer
  /** The number of changes between two pages. */
  pace = 0
  /** Whether the service returns an empty list. */
  isEmpty = false
  /** Whether each page has a record without an id. */
  hasRecordWithoutId = false
  /** Whether the service refuses the next cursor. */
  refusesCursor = false
  /** The id of a record that the service leaves out. */
  #hidden: string | undefined
  /** The ids that have existed since a test last set this. */
  throughout = new Set<string>()
  readonly #dice: Dice
  readonly #shape: Shape
  readonly #held = new Map<string, Held>()
  /** The removed records that may return, in the order of their removal. */
  readonly #away = new Map<string, Held>()
  #born = 0
  #version = 0

  readonly #days: ReadonlyArray<string>

  /** Without days, records have no settlement date. */
  constructor(dice: Dice, shape: Shape, size: number, days: ReadonlyArray<string> = []) {
    this.#dice = dice
    this.#shape = shape
    this.#days = days
    const cursors = ListCursor.make("invoices", { kind: shape.cursors })
    for (let count = 0; count < size; count++) this.#insert()
    this.server = (request) => {
      this.change(dice.below(this.pace + 1))
      const from = request.cursor === undefined ? [0] : cursors.decode(request, request.cursor)
      if (from === undefined || (this.refusesCursor && request.cursor !== undefined)) {
        this.refusesCursor = false
        return { _tag: "CursorRefused" }
      }
      const [place = 0] = from
      const all = (this.isEmpty ? [] : this.#sorted()).filter(({ contract, settlementDate }) =>
        (request.filters["contract"] ?? contract) === contract &&
        (request.filters["settlementDate"] ?? settlementDate) === settlementDate
      )
      const rest = shape.cursors === "offset" ? all.slice(place) : all.filter(({ rank }) => rank >= place)
      const page = rest.slice(0, request.limit)
      const next = shape.cursors === "offset" ? place + page.length : (page.at(-1)?.rank ?? 0) + 1
      const withoutId = this.hasRecordWithoutId && !this.isEmpty
        ? [`{"contract":"${request.filters["contract"]}"}`]
        : []
      const items = [...page.map(({ text }) => text), ...withoutId]
      return {
        _tag: "Page",
        items,
        next: rest.length > page.length ? cursors.encode(request, [next]) : null,
        count: items.length
      }
    }
  }

  /** Returns the ids of the existing records. */
  ids(): ReadonlySet<string> {
    return new Set([...this.#held.keys()].filter((id) => id !== this.#hidden))
  }

  /** Returns the texts of the existing records by id. */
  texts(): ReadonlyMap<string, string> {
    return new Map([...this.#held].map(([id, { text }]) => [id, text]))
  }

  /** Leaves out this record from now on. */
  hide(id: string | undefined): void {
    this.#hidden = id
    if (id !== undefined) this.throughout.delete(id)
  }

  /** Makes changes: mostly to the content of a record; otherwise a record is added, or removed for ever or for a while. */
  change(times: number): void {
    for (let time = 0; time < times; time++) {
      const ids = [...this.#held.keys()]
      const kind = this.#dice.below(5)
      if (kind === 0 || ids.length === 0) this.#insert()
      else if (kind === 1) this.remove(this.#dice.pick(ids))
      else if (kind === 2 && this.#dice.chance(0.3)) this.restoreRemoved()
      else this.#put(this.#dice.pick(ids))
    }
  }

  /** Adds records, which are the newest ones. */
  insert(count: number): void {
    for (let added = 0; added < count; added++) this.#insert()
  }

  /** Adds records at the end of a list that is served newest first. */
  insertOldest(count: number): void {
    for (let added = 0; added < count; added++) this.#put(`inv_${this.#born++}`, farAway + this.#born)
  }

  /** Changes the newest records. */
  changeNewest(count: number): void {
    for (const id of [...this.#held.keys()].slice(-count)) this.#put(id)
  }

  /** Changes the settlement date of a record. */
  moveTo(id: string, date: string): void {
    const held = this.#held.get(id)
    if (held?.settlementDate === undefined) return
    const text = held.text.replace(held.settlementDate, date)
    this.#held.set(id, { ...held, settlementDate: date, text })
  }

  /** Removes a share of the records at once. */
  removeShare(share: number): void {
    for (const id of this.#held.keys()) if (this.#dice.chance(share)) this.remove(id)
  }

  remove(id: string): void {
    const held = this.#held.get(id)
    if (held !== undefined && this.#dice.chance(0.7)) this.#away.set(id, held)
    this.#held.delete(id)
    this.throughout.delete(id)
  }

  /** Returns the first removed record to the list, unchanged. */
  restoreRemoved(): void {
    for (const [id, held] of this.#away) {
      this.#away.delete(id)
      this.#held.set(id, held)
      return
    }
  }

  #insert(): void {
    this.#put(`inv_${this.#born++}`)
  }

  #put(id: string, newRank?: number): void {
    const { order } = this.#shape
    const born = Number(id.slice("inv_".length))
    const rank = this.#held.get(id)?.rank ?? newRank ??
      (order === "oldest" ? born : order === "newest" ? farAway - born : this.#dice.below(farAway) * 1000 + born)
    const contract = this.#dice.pick(contracts)
    const version = ++this.#version
    // One record in ten does not match the document, but has an id.
    const amount = this.#dice.chance(0.1) ? `"${version}"` : `${version}`
    const settlementDate = this.#days[born % this.#days.length]
    const day = settlementDate === undefined ? "" : `,"settlementDate":"${settlementDate}"`
    this.#held.set(id, {
      rank,
      contract,
      settlementDate,
      text: `{"id":"${id}","amount":${amount},"contract":"${contract}"${day}}`
    })
  }

  #sorted(): ReadonlyArray<Held> {
    return [...this.#held].filter(([id]) => id !== this.#hidden).map(([, held]) => held).toSorted((left, right) =>
      left.rank - right.rank
    )
  }
}

/** Returns the texts of a page in order. */
export const textsOf = (page: Page<{ readonly id: string }>): ReadonlyArray<string> =>
  page.records().map(({ text }) => text)

/** The real client over the list; each page is shown as it is handed on, with the contract that was asked for, if any. */
export const layerOver = (
  list: ChangingList,
  options: {
    readonly source?: string
    readonly onPages?: (part: string) => void
    readonly onPage?: (texts: ReadonlyArray<string>, part: string) => void
  } = {}
): Layer.Layer<PaymentsApi> => {
  const client = PaymentsApi.layer.pipe(
    Layer.provide(layerClient((now) =>
      makeListService({
        servers: {
          ...Lists.map((other) => MemoryList.serve(other, MemoryList.recordsOf([]))),
          invoices: list.server
        },
        accepts: () => true
      }, now)
    )),
    Layer.provide(Layer.effect(
      PaymentsConfig,
      PaymentsConfig.fromSettings({
        PAYMENTS_BASE_URL: "https://memory.localhost",
        PAYMENTS_API_KEY: Redacted.make("test")
      }).pipe(Effect.orDie, Effect.map((config) => ({ ...config, source: options.source ?? "memory" })))
    ))
  )
  return Layer.effect(
    PaymentsApi,
    Effect.map(PaymentsApi, (api): PaymentsApi["Service"] => ({
      ...api,
      invoices: {
        ...api.invoices,
        pages: (query) => {
          const part = query?.contract ?? ""
          options.onPages?.(part)
          return Stream.map(api.invoices.pages(query), (page) => {
            options.onPage?.(textsOf(page), part)
            return page
          })
        }
      }
    }))
  ).pipe(Layer.provide(client))
}
