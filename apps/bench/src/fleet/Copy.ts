/** Compares a copy with the truth, and with what its changes say. */

export interface StoredRow {
  readonly id: string
  readonly text: string
  readonly isMissing: boolean
}

export interface ChangeRow {
  readonly kind: string
  readonly id: string
  readonly before: string | null
  readonly after: string | null
}

/** Compares the rows that are not missing with the texts of the records. */
export const truthProblems = (rows: ReadonlyArray<StoredRow>, truth: ReadonlyArray<string>): ReadonlyArray<string> => {
  const present = rows.filter(({ isMissing }) => !isMissing)
  const stored = new Map(present.map(({ id, text }) => [id, text]))
  const problems = present.length === stored.size ? [] : [`${present.length - stored.size} rows are doubled`]
  for (const text of truth) {
    const { id } = JSON.parse(text) as { readonly id: string } // every generated record has an id
    const copied = stored.get(id)
    if (copied === undefined) problems.push(`${id} is lost`)
    else if (copied !== text) problems.push(`${id} is not as the service returns it`)
    stored.delete(id)
  }
  return [...problems, ...[...stored.keys()].map((id) => `${id} no longer exists, but is not marked missing`)]
}

/** Returns which changes do not fit the rows before them, and which rows differ from what the changes lead to. */
export const replayProblems = (
  before: ReadonlyArray<StoredRow>,
  changes: ReadonlyArray<ChangeRow>,
  after: ReadonlyArray<StoredRow>
): ReadonlyArray<string> => {
  const problems: Array<string> = []
  const rows = new Map(before.map(({ id, isMissing, text }) => [id, { text, isMissing }]))
  for (const [index, change] of changes.entries()) {
    const row = rows.get(change.id)
    const problem = (text: string) => problems.push(`change ${index} (${change.kind} of ${change.id}): ${text}`)
    if (change.kind === "insert") {
      if (row !== undefined) problem("the row exists")
    } else if (row === undefined) problem("the row does not exist")
    else {
      if (row.isMissing !== (change.kind === "returned")) {
        problem(row.isMissing ? "the row is missing" : "it was not missing")
      }
      if (change.kind !== "missing" && change.before !== row.text) problem("the row had another text before")
    }
    rows.set(change.id, { text: change.after ?? row?.text ?? "", isMissing: change.kind === "missing" })
  }
  for (const { id, isMissing, text } of after) {
    const replayed = rows.get(id)
    rows.delete(id)
    if (replayed === undefined) problems.push(`${id} was inserted without a change`)
    else if (replayed.text !== text || replayed.isMissing !== isMissing) problems.push(`${id} differs from its changes`)
  }
  return [...problems, ...[...rows.keys()].map((id) => `${id} has no row any more`)]
}
