/**
 * Which records of a list are open: their status is not final. The API's document has no list of states and gives none of them a
 * meaning, so no state is final unless the source says so, or the copy has learned it.
 */
import { Lists } from "@payments/core"
import { DateTime, Duration, Effect, String } from "effect"
import { tableOf } from "../plan/Columns.ts"
import { type Contents, otherValue, subjects } from "../plan/Contents.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { FinalStates, OpenQuestion, OpenRecords, OpenStatus } from "../port/ListFreshness.ts"
import type { SinkError } from "../port/Sink.ts"
import { omittedIn, pseudonymFields } from "../rule/StoredRule.ts"
import type { Reader, ScanReader } from "./Store.ts"

/** The fields of a list that say whether a record is open, and since when. */
export const openFields = (list: Lists.AnyList): {
  readonly since: string
  /** A record with a value in this field is not open: an invoice that has been paid. */
  readonly without: string | undefined
} => ({ since: "createdAt", without: list.name === Lists.invoices.name ? "paymentDate" : undefined })

/** Returns SQL for a record without a value in a field of texts. */
export const lacksText = (field: string): string => {
  const column = String.camelToSnake(field)
  return `(${column} IS NULL OR trim(${column}) = '')`
}

/** Returns those of the fields that the copy leaves out or replaces. Every record would look as if it had no value there. */
export const lackingIn = (
  reader: Pick<Reader, "personal">,
  list: Lists.AnyList,
  fields: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string>, SinkError> =>
  Effect.map(reader.personal, ({ rule }) => {
    const others = new Set([...omittedIn(rule), ...pseudonymFields(rule, list)])
    return fields.filter((field) => others.has(field))
  })

/**
 * Reads the open records of a list. Returns undefined if the destination has no such list, or if every record would count,
 * because no final state is known, and nobody asks for them: `isLimited` says that they may not be open for long.
 */
export const openRecordsOf = Effect.fnUntraced(function*(
  reader: Reader,
  list: Lists.AnyList,
  { configured, isLimited }: OpenQuestion
): Effect.fn.Return<OpenRecords | undefined, SinkError> {
  const { since, without } = openFields(list)
  const fields = [since, "status", ...without === undefined ? [] : [without]]
  const columns = new Set((yield* reader.columns(list)).map(({ name }) => name))
  if (fields.some((field) => !columns.has(String.camelToSnake(field)))) return undefined
  const finalStates = yield* finalStatesIn(reader, list, configured)
  if (finalStates.from === "unknown" && !isLimited) return undefined
  const lacking = yield* lackingIn(reader, list, fields)
  if (lacking.length > 0) return { finalStates, statuses: [], lacking }
  const statuses = yield* reader.openStatuses(list, finalStates.states)
  return { finalStates, statuses: statuses.toSorted(byAge), lacking }
})

/** The oldest open record of those with one status. */
export interface OldestOpen {
  readonly status: string | null
  readonly age: Duration.Duration
}

/** Returns the age of the oldest open record. It is 0 if its date is in the future. Undefined if no open record has a date. */
export const oldestOpen = (
  { statuses: [first] }: Pick<OpenRecords, "statuses">,
  now: DateTime.DateTime
): OldestOpen | undefined =>
  first?.oldestAt === undefined ? undefined : { status: first.status, age: ageSince(first.oldestAt, now) }

/** Returns how many open records have no date that can be read. Nobody knows how long they have been open. */
export const undatedIn = ({ statuses }: Pick<OpenRecords, "statuses">): number =>
  statuses.reduce((sum, { undated }) => sum + undated, 0)

/** Returns the time since an instant; 0 if it is in the future. */
export const ageSince = (instant: string, now: DateTime.DateTime): Duration.Duration =>
  Duration.millis(Math.max(0, DateTime.toEpochMillis(now) - Date.parse(instant)))

/** Returns a statement for the open records, the oldest first, for people. */
export const openRecordsSql = (list: Lists.AnyList, { states }: Pick<FinalStates, "states">): string => {
  const { since, without } = openFields(list)
  const date = String.camelToSnake(since)
  const final = states.map((state) => `'${state.replaceAll("'", "''")}'`)
  const met = [
    "missing_since IS NULL",
    ...final.length === 0 ? [] : [`(status IS NULL OR status NOT IN (${final.join(", ")}))`],
    ...without === undefined ? [] : [lacksText(without)]
  ]
  return `SELECT id, status, ${date} FROM ${tableOf(list)} WHERE ${
    met.join(" AND ")
  } ORDER BY ${date} IS NULL, ${date} LIMIT 100`
}

/** No text is after this one. */
const latest = "\uffff"

const byAge = (one: OpenStatus, other: OpenStatus): number =>
  (one.oldestAt ?? latest) < (other.oldestAt ?? latest) ? -1 : one.oldestAt === other.oldestAt ? 0 : 1

/** Returns the states that the source names, or without them those that the copy has learned. */
export const finalStatesIn = (
  reader: Pick<ScanReader, "scans">,
  list: Lists.AnyList,
  configured: ReadonlyArray<string> | undefined
): Effect.Effect<FinalStates, SinkError> =>
  Effect.map(reader.scans(list, ""), (scans) => {
    const contents = ScanTotals.contentsOf(scans.find(({ state }) => state === "complete"))
    if (configured !== undefined) {
      const unseen = unseenStates(contents, configured)
      return { states: configured, from: "configured", ...unseen.length === 0 ? {} : { unseen } }
    }
    const states = learnedStates(contents)
    return { states, from: states.length === 0 ? "unknown" : "learned" }
  })

/** Returns the states that no record has had or left. Returns none if not every state is counted by its name. */
const unseenStates = (contents: Contents, states: ReadonlyArray<string>): ReadonlyArray<string> => {
  const steps = Object.keys(contents[subjects.steps] ?? {})
  const seen = new Set([...Object.keys(contents["status"] ?? {}), ...steps.flatMap((step) => step.split(" → "))])
  if (seen.size === 0 || seen.has(otherValue)) return []
  return states.filter((state) => !seen.has(state))
}

/**
 * Returns the states that a record has entered, and that none has left. A state without any transition is not among them: it
 * may be the one in which records are stuck.
 */
export const learnedStates = (contents: Contents): ReadonlyArray<string> => {
  const steps = Object.keys(contents[subjects.steps] ?? {})
  // More transitions than are counted one by one may have left any state.
  if (steps.includes(otherValue)) return []
  const [left, entered] = [new Set<string>(), new Set<string>()]
  for (const step of steps) {
    const [from = "", to = ""] = step.split(" → ")
    left.add(from)
    entered.add(to)
  }
  // Any text that is no code is counted under one name.
  return [...entered].filter((state) => !left.has(state) && state !== otherValue).toSorted()
}

/** Says which states count as final, and how that is known. */
export const finalStatesText = (list: Lists.AnyList, { from, states, unseen = [] }: FinalStates): string => {
  const names = states.join(", ")
  switch (from) {
    case "configured":
      return states.length === 0
        ? `${list.label}: no status is final, as the setting final_states says.`
        : `${list.label}: final, by the setting final_states: ${names}.${
          unseen.length === 0 ? "" : ` No record is known to have had ${unseen.join(" or ")}: compare the spelling.`
        }`
    case "learned":
      return `${list.label}: final, as learned, because records have entered but none has left it: ${names}. The setting final_states decides otherwise.`
    case "unknown":
      return `${list.label}: no final status is known, so records of every status count as open. The setting final_states names those that are final.`
  }
}
