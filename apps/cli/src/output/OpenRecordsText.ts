/** What people read about the open records of a list: how many there are, since when, and how to print them. */
import { finalStatesText, type OldestOpen, type OpenRecords, openRecordsSql, undatedIn } from "@payments/copy"
import { Lists } from "@payments/core"
import { ageAndLimit, ageText, allOf, counted, grouped, quotedWord } from "@payments/program"
import { Duration } from "effect"

/** The open records of a list, as a command has read them. */
export interface OpenStatus {
  /** The list's name, and before it that of its source if several sources are shown. */
  readonly label: string
  readonly list: string
  /** Undefined if the destination has no such list, or nobody asks. */
  readonly open: OpenRecords | undefined
  readonly oldestOpen: OldestOpen | undefined
  readonly maxOpen: Duration.Duration | undefined
  readonly completeScan: object | undefined
  /** The flag that names the destination, for commands. */
  readonly place: string
}

/** Says how many records are open, since when, what counts as final, and how to print them. */
export const openNotes = (status: OpenStatus): ReadonlyArray<string> => {
  const { label, list, oldestOpen: oldest, open } = status
  const known = Lists.all.find((one) => one.label === list)
  if (open === undefined || known === undefined) return []
  if (open.lacking.length > 0) {
    return [
      `${label}: the copy leaves out or replaces ${allOf(open.lacking)}, so it does not know which records are open`
    ]
  }
  const prefix = label.slice(0, label.length - list.length)
  const records = open.statuses.reduce((sum, one) => sum + one.records, 0)
  const undated = undatedIn(open)
  const parts = [
    `${counted(records, "record")} ${records === 1 ? "is" : "are"} open`,
    ...oldest === undefined ? [] : [`the oldest for ${ageText(oldest.age)} (${statusText(oldest)})`],
    ...undated === 0 ? [] : [`${grouped(undated)} of them without a date`]
  ]
  return [
    `${label}: ${parts.join(", ")}`,
    ...records === 0 ? [] : [`${label}: ${recordsCommand(known, open, status)}`],
    `${prefix}${finalStatesText(known, open.finalStates).replace(/\.$/, "")}`
  ]
}

const statusText = ({ status }: OldestOpen): string => status === null ? "without a status" : `status ${status}`

const recordsCommand = (list: Lists.AnyList, { finalStates }: OpenRecords, { place }: OpenStatus): string =>
  `to print them: payments query ${place} ${quotedWord(openRecordsSql(list, finalStates))}`

/** Returns why the open records of a list are a problem. */
export const openProblemOf = (status: OpenStatus): string => {
  const { completeScan, label, maxOpen = Duration.zero, oldestOpen: oldest, open } = status
  const limit = ageText(maxOpen)
  if (completeScan === undefined || open === undefined) {
    return `${label} was never read completely, so its records may have been open for more than ${limit}`
  }
  if (open.lacking.length > 0) return openNotes(status).join(". ")
  if (oldest === undefined || !Duration.isGreaterThan(oldest.age, maxOpen)) {
    const undated = undatedIn(open)
    return `nobody knows how long ${counted(undated, "open record")} of ${label} without a date of creation ${
      undated === 1 ? "has" : "have"
    } been open, and at most ${limit} is allowed`
  }
  const [old, allowed] = ageAndLimit(oldest.age, maxOpen)
  const unknown = open.finalStates.from === "unknown"
    ? ". No final status is known, so every record counts as open"
    : ""
  return `${label} has a record that has been open for ${old}, but ${allowed} is allowed (${
    statusText(oldest)
  })${unknown}`
}
