/**
 * A client as many teams write it: `fetch`, and a zod schema of all documented fields that keeps undocumented fields.
 */
import { z } from "zod"
import { pageSize } from "../harness/PageServer.ts"
import { addRecords, emptyResult, type Workload } from "../harness/WorkloadResult.ts"

const optional = <S extends z.ZodType>(schema: S) => schema.nullable().optional()
const text = optional(z.string())
const amount = optional(z.int())

const Page = z.looseObject({
  items: z.array(z.looseObject({
    id: z.string(),
    reference: text,
    customerId: text,
    customerDetails: optional(z.looseObject({
      reference: text,
      name: text,
      documentType: text,
      documentNumber: text,
      email: text,
      phoneNumber: text
    })),
    payoutTargetId: text,
    payoutTargetDetails: optional(z.looseObject({ reference: text, description: text, type: text })),
    status: text,
    statusMessage: text,
    amount,
    amountSent: amount,
    fee: amount,
    sourceMerchantAccountId: text,
    createdAt: text,
    updatedAt: text
  })),
  cursor: z.string().nullable()
})

export const listing: Workload = async (url) => {
  const total = emptyResult()
  const address = new URL(`${url}/v0/payoutRequests?limit=${pageSize}`)
  for (let cursor: string | null | undefined; cursor !== null;) {
    if (cursor !== undefined) address.searchParams.set("cursor", cursor)
    const response = await fetch(address, {
      headers: { authorization: "Bearer sandbox_key", accept: "application/json" }
    })
    const page = Page.parse(await response.json())
    addRecords(total, page.items)
    cursor = page.cursor
  }
  return total
}
