/** A stored record. */
export interface StoredRow {
  readonly id: string
  readonly raw: string
}
