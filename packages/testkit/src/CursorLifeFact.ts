/** Stores the life of a cursor as if a probe had observed it: a probe would have to wait for it. */
import { DatabaseSync } from "node:sqlite"

/** The SQLite destination already has other facts of the same service. Other evidence about the life of a cursor is replaced. */
export const addCursorLife = (file: string, answer: string, times: number): void => {
  const observations = Array.from({ length: times }, () => ({ answer, seen: "", at: "2026-01-01T00:00:00.000Z" }))
  const evidence = JSON.stringify({ observations, ...(times < 2 ? {} : { accepted: answer }) })
  const db = new DatabaseSync(file)
  const { changes } = db.prepare(
    "INSERT OR REPLACE INTO facts (list, fact, service, evidence) SELECT DISTINCT list, 'cursor-life', service, ? FROM facts"
  ).run(evidence)
  db.close()
  if (changes === 0) throw new Error("the destination has no facts")
}
