/**
 * Facts that a copy has collected while the list was read: the values of kinds and states, the steps of the status, the fields
 * that can be without a value, those that change, and what its rows show. They cost no request. They say what was seen, and never
 * what cannot be, so none is certain.
 */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Contents, subjects } from "../plan/Contents.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { Counts } from "../port/Counts.ts"
import type { SinkError } from "../port/Sink.ts"
import type { QueryError } from "../statement/Statement.ts"
import type { Reader } from "../store/Store.ts"
import type { KnownFact } from "./Probe.ts"
import { type CopyFact, type QueriedCopy, rowFacts } from "./RowFacts.ts"

/** Returns the facts of a list; none if no scan of the whole list is complete. */
export const copyFacts = Effect.fnUntraced(function*(
  reader: Reader,
  list: Lists.AnyList,
  copy: QueriedCopy
): Effect.fn.Return<ReadonlyArray<KnownFact>, SinkError | QueryError> {
  const scans = yield* reader.scans(list)
  const last = scans.find(({ part, state }) => part === "" && state === "complete")
  if (last === undefined) return []
  const { contents, counts } = yield* ScanTotals.ofScan({ location: reader.location }, last)
  return [
    ...valueFacts(contents),
    ...stepFacts(contents),
    ...fieldFacts(contents),
    idFact(counts),
    ...yield* rowFacts(reader, list, copy)
  ].map(({ answer, records, ...fact }) => ({
    ...fact,
    answer,
    list: list.name,
    // A later record may show more.
    degree: answer === undefined ? "undecided" : "likely",
    agreeing: records,
    observations: records,
    usedBy: undefined,
    contradicted: undefined,
    acceptance: undefined,
    firstAt: undefined,
    lastAt: last.endedAt
  }))
})

const totalOf = (counts: Contents[string]): number => Object.values(counts).reduce((sum, count) => sum + count, 0)

const valueFacts = (contents: Contents): ReadonlyArray<CopyFact> =>
  Object.entries(contents).filter(([subject]) => !subject.startsWith("(")).map(([field, values]) => ({
    name: `values-${field}`,
    section: "§2",
    question: `Which values has ${field} had?`,
    answer: namesIn(values),
    seen: countsIn(values) ?? "no record had a value",
    records: totalOf(values)
  }))

const stepFacts = (contents: Contents): ReadonlyArray<CopyFact> => {
  const steps = contents[subjects.steps] ?? {}
  const left = new Set(Object.keys(steps).map((step) => step.split(" → ")[0]))
  const last = Object.keys(contents["status"] ?? {}).filter((status) => !left.has(status))
  const isKnown = Object.keys(steps).length > 0
  return [
    {
      name: "steps",
      section: "§3",
      question: "Which ways has the status gone?",
      answer: namesIn(steps),
      seen: countsIn(steps) ?? "no status has changed",
      records: totalOf(steps)
    },
    {
      name: "last-states",
      section: "§3",
      question: "Which states has no record left so far?",
      answer: isKnown ? last.join(", ") || "none" : undefined,
      seen: isKnown ? "a record may still leave them" : "no status has changed",
      records: totalOf(steps)
    }
  ]
}

const fieldFacts = (contents: Contents): ReadonlyArray<CopyFact> => {
  const { changed: updates = 0, written = 0 } = contents[subjects.records] ?? {}
  const [empty, changed] = [contents[subjects.empty] ?? {}, contents[subjects.changed] ?? {}]
  return [
    {
      name: "empty-fields",
      section: "§2.5",
      question: "Which fields can be without a value?",
      answer: written === 0 ? undefined : namesIn(empty) ?? "none so far",
      seen: `${countsIn(empty) ?? "none"}; of ${written} new and changed records`,
      records: written
    },
    {
      name: "changed-fields",
      section: "§3",
      question: "Which fields change after the first sight of a record?",
      answer: updates === 0 ? undefined : namesIn(changed) ?? "none so far",
      seen: `${countsIn(changed) ?? "none"}; of ${updates} changes`,
      records: updates
    }
  ]
}

/** A list that changes while it is read may return a record again, on a later page. */
const idFact = ({ records, repeats }: Pick<Counts, "records" | "repeats">): CopyFact => ({
  name: "unique-id",
  section: "§2",
  question: "Has each record another id?",
  answer: records === 0 ? undefined : repeats === 0 ? "yes" : "no",
  seen: `${repeats} of ${records} records of the last complete scan had an id that it had returned before`,
  records
})

const sorted = (counts: Contents[string]) => Object.entries(counts).toSorted(([, one], [, other]) => other - one)

const namesIn = (counts: Contents[string]): string | undefined =>
  sorted(counts).map(([name]) => name).join(", ") || undefined

const countsIn = (counts: Contents[string]): string | undefined =>
  sorted(counts).map(([name, count]) => `${name} ${count}`).join(", ") || undefined
