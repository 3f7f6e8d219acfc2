/** Which lists a statement reads. */
import { Lists } from "@payments/core"

/** Returns the lists whose tables the statement mentions. If there is none, or it mentions `changes` of all lists, all. */
export const listsIn = (sql: string): ReadonlyArray<Lists.AnyList> => {
  const text = sql.toLowerCase()
  const found = Lists.all.filter((list) => text.includes(list.label.replaceAll("-", "_")))
  return found.length === 0 || text.includes("changes") ? Lists.all : found
}
