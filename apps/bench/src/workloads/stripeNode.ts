/** stripe-node's auto-pagination, over an address that answers in Stripe's list shape with the same records. */
import { Stripe } from "stripe"
import { pageSize } from "../PageServer.ts"
import { countOne, tally, type Workload } from "../Tally.ts"

const clients = new Map<string, Stripe>()

export const autoPagination: Workload = async (url) => {
  const { hostname, port } = new URL(url)
  const client = clients.get(url) ??
    new Stripe("sandbox_key", { host: hostname, port, protocol: "http", telemetry: false })
  clients.set(url, client)
  const total = tally()
  for await (const payout of client.payouts.list({ limit: pageSize })) countOne(total, payout)
  return total
}
