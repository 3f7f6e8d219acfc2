/** Counts the invoices without a settlement date. */
import { PaymentsApi } from "@payments/core"
import { Effect, Stream } from "effect"

export const openInvoices = Effect.gen(function*() {
  const { invoices } = yield* PaymentsApi
  return yield* invoices.stream({ limit: 50 }).pipe(
    Stream.filter(({ settlementDate }) => settlementDate == null),
    Stream.runCount
  )
})
