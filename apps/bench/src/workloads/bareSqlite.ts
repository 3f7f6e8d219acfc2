/** The least that an export into SQLite does: requests, `JSON.parse`, prepared upserts, a durable commit per page. */
import type { PayoutRequest } from "@payments/core"
import { hash } from "node:crypto"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { addRecord, emptyResult } from "../harness/WorkloadResult.ts"
import { reader } from "./bareLoop.ts"

/** The typed columns of a payout request, in the order of {@link cellsOf}. */
export const columns = [
  "id",
  "reference",
  "customer_id",
  "customer_details_reference",
  "customer_details_name",
  "customer_details_document_type",
  "customer_details_document_number",
  "customer_details_email",
  "customer_details_phone_number",
  "payout_target_id",
  "payout_target_details_reference",
  "payout_target_details_description",
  "payout_target_details_type",
  "status",
  "status_message",
  "amount",
  "amount_sent",
  "fee",
  "source_merchant_account_id",
  "created_at",
  "updated_at"
] as const

/** Whether a column is a 64-bit integer. All other columns are text. */
export const isAmount = (name: string): boolean => ["amount", "amount_sent", "fee"].includes(name)

/** The columns of a loop that also keeps what an export keeps of each record. */
export const exactColumns = [...columns, "raw", "hash"]

/** The cells of {@link exactColumns}. The text is made again, which takes as long as to cut it from the body. */
export const exactCellsOf = (record: PayoutRequest) => {
  const raw = JSON.stringify(record)
  return [...cellsOf(record), raw, hash("sha256", raw)]
}

/** Returns one cell for each column. */
export const cellsOf = (record: PayoutRequest) => {
  const { customerDetails: customer, payoutTargetDetails: target } = record
  return [
    record.id,
    record.reference ?? null,
    record.customerId ?? null,
    customer?.reference ?? null,
    customer?.name ?? null,
    customer?.documentType ?? null,
    customer?.documentNumber ?? null,
    customer?.email ?? null,
    customer?.phoneNumber ?? null,
    record.payoutTargetId ?? null,
    target?.reference ?? null,
    target?.description ?? null,
    target?.type ?? null,
    record.status ?? null,
    record.statusMessage ?? null,
    record.amount ?? null,
    record.amountSent ?? null,
    record.fee ?? null,
    record.sourceMerchantAccountId ?? null,
    record.createdAt ?? null,
    record.updatedAt ?? null
  ]
}

export interface BareSqliteOptions {
  readonly url: string
  readonly folder: string
  /** Whether to store the text of each record and its hash too. */
  readonly isExact: boolean
}

/** Copies into a new file in the folder. Checks no records. */
export const bareSqlite = async ({ folder, isExact, url }: BareSqliteOptions) => {
  const [names, cells] = isExact ? [exactColumns, exactCellsOf] : [columns, cellsOf]
  const read = reader(url)
  const total = emptyResult()
  const db = new DatabaseSync(join(folder, "bare.db"))
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS payout_requests (${
    names.map((name) => `${name} ${isAmount(name) ? "INTEGER" : "TEXT"}${name === "id" ? " NOT NULL UNIQUE" : ""}`)
      .join(", ")
  }) STRICT;`)
  const upsert = db.prepare(
    `INSERT INTO payout_requests (${names.join(", ")}) VALUES (${names.map(() => "?").join(", ")})
    ON CONFLICT (id) DO UPDATE SET ${names.slice(1).map((name) => `${name} = excluded.${name}`).join(", ")}`
  )
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await read(cursor)
    db.exec("BEGIN IMMEDIATE")
    for (const record of page.items) {
      upsert.run(...cells(record))
      addRecord(total, record)
    }
    db.exec("COMMIT")
    cursor = page.cursor
  }
  db.close()
  return total
}
