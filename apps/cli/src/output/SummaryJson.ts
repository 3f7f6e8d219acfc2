/** The result of an export for programs. */
import type { ScanOutcome, ScanSummary } from "@payments/copy"
import { Lists } from "@payments/core"
import { factsOf, type Next, nextMembers } from "@payments/program"
import { Duration, Result } from "effect"
import { sumOf, undocumentedIn } from "./Summary.ts"

/** Returns the document. A list without an outcome was interrupted. Without a `destination`, the records went to stdout. */
export const summaryDocument = (
  names: ReadonlyArray<Lists.ListName>,
  outcomes: ReadonlyArray<ScanOutcome>,
  destination: string | undefined,
  next: Next
) => {
  const lists = names.map((name) =>
    listMembers(name, outcomes.find(({ list }) => list === name), destination !== undefined)
  )
  const complete = lists.every((list) => list.complete)
  return { complete, destination: destination ?? null, lists, ...(complete ? {} : nextMembers(next)) }
}

const listMembers = (name: Lists.ListName, outcome: ScanOutcome | undefined, isStored: boolean) => {
  const { label: list } = Lists.byName[name]
  if (outcome === undefined) {
    return { list, complete: false, error: { reason: "Interrupted", message: "interrupted" } }
  }
  if (Result.isSuccess(outcome.result)) return { list, complete: true, ...figuresOf(outcome.result.success, isStored) }
  const { message, reason, retryable, retryAfterMs } = factsOf(outcome.result.failure)
  return { list, complete: false, error: { reason, message, retryable, retryAfterMs } }
}

/**
 * Adds the figures of all parts. The time is that of the part that took longest: parts run at the same time. Only a stored
 * destination can count new, changed and missing rows.
 */
const figuresOf = (scans: ReadonlyArray<ScanSummary>, isStored: boolean) => {
  const total = (of: (scan: ScanSummary) => number) => sumOf(scans, of)
  const parts = scans.filter(({ part }) => part !== undefined).length
  const stored = {
    // Parts are scans of their own.
    ...(parts === 0 ? { scan: scans[0]?.scan, start: scans[0]?.start } : { parts }),
    new: total(({ inserted }) => inserted),
    changed: total(({ updated }) => updated),
    unchanged: total(({ unchanged }) => unchanged),
    missing: total(({ missing }) => missing),
    heldBack: total(({ heldBack }) => heldBack),
    // 0 if --accept-missing had no effect.
    ...scans.some(({ accepted }) => accepted !== undefined) ? { accepted: total(({ accepted = 0 }) => accepted) } : {},
    skipped: total(({ skipped }) => skipped),
    unchecked: total(({ unchecked }) => unchecked),
    reappeared: total(({ returned }) => returned),
    repeated: total(({ repeats }) => repeats)
  }
  return {
    records: total(({ records }) => records),
    ...(isStored ? stored : {}),
    quarantined: total(({ quarantined }) => quarantined),
    pages: total(({ pages }) => pages),
    retries: total(({ retries }) => retries),
    seconds: Math.max(0, ...scans.map(({ elapsed }) => Duration.toSeconds(elapsed))),
    drift: scans.flatMap(({ drift }) => drift),
    undocumented: Object.fromEntries(undocumentedIn(scans))
  }
}
