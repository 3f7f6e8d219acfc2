/** The result of a workload. All workloads compute it in the same way, which shows that they read the same records. */
export interface WorkloadResult {
  records: number
  /** The sum of all amounts. */
  sum: number
  /** The length of all exact texts; 0 if the workload does not read them. */
  characters: number
}

export const emptyResult = (): WorkloadResult => ({ records: 0, sum: 0, characters: 0 })

export const addRecords = (
  result: WorkloadResult,
  records: ReadonlyArray<{ readonly amount?: number | null | undefined }>
): void => {
  for (const record of records) addRecord(result, record)
}

export const addRecord = (
  result: WorkloadResult,
  record: { readonly amount?: number | null | undefined }
): void => {
  result.records++
  result.sum += record.amount ?? 0
}

/** Reads the list at this base address to its end. */
export type Workload = (url: string) => Promise<WorkloadResult>
