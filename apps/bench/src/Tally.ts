/** What every workload does with every record, so that all are known to have read the same. */
export interface Tally {
  records: number
  /** Of all amounts. */
  sum: number
  /** Of all exact texts, where the workload takes them. */
  characters: number
}

/** Nothing read yet. */
export const tally = (): Tally => ({ records: 0, sum: 0, characters: 0 })

/** Counts these records in. */
export const count = (into: Tally, records: ReadonlyArray<{ readonly amount?: number | null | undefined }>): void => {
  for (const record of records) countOne(into, record)
}

/** Counts one record in. */
export const countOne = (into: Tally, record: { readonly amount?: number | null | undefined }): void => {
  into.records++
  into.sum += record.amount ?? 0
}

/** Reads the list below this address to its end. */
export type Workload = (url: string) => Promise<Tally>
