/** A service of invoices whose list skips records, and whose filters can be wrong. */
import { Lists, PaymentsApi, PaymentsConfig } from "@payments/core"
import { layerClient, makeListService, MemoryList, type ServiceAnswer, type TestLists } from "@payments/core/testing"
import { Effect, Layer, Redacted } from "effect"
import { Sink } from "../../src/port/Sink.ts"

export type Invoice = { readonly id: string; readonly [field: string]: unknown }

export class SkippingService {
  /** The records by id, in the order of the list. */
  readonly records = new Map<string, Invoice>()
  /** The ids that the whole list leaves out. A filter gives them. */
  readonly skipped = new Set<string>()
  /** The filters that the service ignores. */
  readonly ignored = new Set<string>()
  /** Answers the request of a filtered page, unless it returns undefined. */
  answer: ((filters: Readonly<Record<string, string>>) => ReadonlyArray<Invoice> | undefined) | undefined
  /** Returns the status of an error that answers the request of a filtered page, or undefined. */
  failing: ((filters: Readonly<Record<string, string>>) => number | undefined) | undefined
  /** The filters of each request of a filtered page. */
  readonly requests: Array<Readonly<Record<string, string>>> = []
  /** The pages of the whole list that were requested. */
  pages = 0
  faults: NonNullable<TestLists["faults"]> = []

  constructor(invoices: ReadonlyArray<Invoice>) {
    for (const invoice of invoices) this.records.set(invoice.id, invoice)
  }

  put(invoice: Invoice): void {
    this.records.set(invoice.id, invoice)
  }

  get layer(): Layer.Layer<PaymentsApi> {
    const serve = (records: Iterable<Invoice>) => MemoryList.serve(Lists.invoices, MemoryList.recordsOf([...records]))
    const server: ReturnType<typeof serve> = (request) => {
      if (Object.keys(request.filters).length === 0) {
        this.pages++
        return serve([...this.records.values()].filter(({ id }) => !this.skipped.has(id)))(request)
      }
      this.requests.push(request.filters)
      const given = this.answer?.(request.filters)
      if (given !== undefined) return serve(given)({ ...request, filters: {} })
      const filters = Object.fromEntries(Object.entries(request.filters).filter(([field]) => !this.ignored.has(field)))
      return serve(this.records.values())({ ...request, filters })
    }
    const servers = { ...Lists.map((list) => MemoryList.serve(list, MemoryList.recordsOf([]))), invoices: server }
    const client = layerClient((now) => {
      const service = makeListService({ servers, accepts: () => true, faults: this.faults }, now)
      return { ...service, answer: (request) => this.#failure(request.target) ?? service.answer(request) }
    })
    const config = Effect.map(
      PaymentsConfig.fromSettings({
        PAYMENTS_BASE_URL: "https://memory.localhost",
        PAYMENTS_API_KEY: Redacted.make("test-key")
      }),
      (settings) => ({ ...settings, source, retry: { ...settings.retry, attempts: 1 } })
    )
    return PaymentsApi.layer.pipe(
      Layer.provide(client),
      Layer.provide(Layer.effect(PaymentsConfig, Effect.orDie(config)))
    )
  }

  #failure(target: string): ServiceAnswer | undefined {
    const { cursor: _, limit: _limit, ...filters } = Object.fromEntries(new URL(target, "http://x").searchParams)
    const status = Object.keys(filters).length === 0 ? undefined : this.failing?.(filters)
    return status === undefined
      ? undefined
      : { reply: { status, headers: { "content-type": "application/json" }, body: "{}" }, list: "invoices", faults: [] }
  }
}

const source = "memory"

/** Makes these filters certain in the destination, with an answer. */
export const prove = (fields: ReadonlyArray<string>, answer = "only matching records") =>
  Effect.gen(function*() {
    const { facts, lock } = yield* Sink
    yield* lock(Lists.invoices, "refuse")
    const seen = fields.map((field) => ({ fact: `filter-${field}`, answer, seen: "records", records: 1 }))
    // A probe stores these facts. The store does not compare the name.
    for (let time = 0; time < 3; time++) {
      yield* facts?.observe(Lists.invoices, source, seen as Array<never>) ?? Effect.void
    }
  }).pipe(Effect.scoped) satisfies Effect.Effect<void, unknown, Sink>
