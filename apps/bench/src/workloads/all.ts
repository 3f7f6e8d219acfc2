/** The workloads by name. Each runs in its own process and loads only the code that it measures. */
import type { Workload } from "../harness/WorkloadResult.ts"

export const workloads = {
  "bare loop": async () => (await import("./bareLoop.ts")).sequential,
  "bare loop, prefetching": async () => (await import("./bareLoop.ts")).prefetching,
  "PaymentsApi": async () => (await import("./paymentsApi.ts")).stream,
  "PaymentsApi, exact texts": async () => (await import("./paymentsApi.ts")).exactTexts,
  "PaymentsApi, exact texts of invoices": async () => (await import("./paymentsApi.ts")).exactInvoices,
  "PaymentsApi over fetch": async () => (await import("./paymentsApi.ts")).overFetch,
  "PaymentsApi over Effect's undici": async () => (await import("./paymentsApi.ts")).overStockUndici,
  "PaymentsApi, 30 ms per page": async () => (await import("./paymentsApi.ts")).slowConsumer,
  "stripe-node": async () => (await import("./stripeNode.ts")).autoPagination,
  "fetch + zod": async () => (await import("./fetchZod.ts")).listing,
  "got.paginate": async () => (await import("./gotPaginate.ts")).paginate
} as const satisfies Record<string, () => Promise<Workload>>

export type WorkloadName = keyof typeof workloads
