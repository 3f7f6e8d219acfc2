/** The auto-pagination of stripe-node. The server sends the same records in Stripe's list shape. */
import { Stripe } from "stripe"
import { pageSize } from "../harness/PageServer.ts"
import { addRecord, emptyResult, type Workload } from "../harness/WorkloadResult.ts"

const clients = new Map<string, Stripe>()

export const autoPagination: Workload = async (url) => {
  const { hostname, port } = new URL(url)
  const client = clients.get(url) ??
    new Stripe("sandbox_key", { host: hostname, port, protocol: "http", telemetry: false })
  clients.set(url, client)
  const total = emptyResult()
  for await (const payout of client.payouts.list({ limit: pageSize })) addRecord(total, payout)
  return total
}
