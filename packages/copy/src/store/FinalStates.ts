/**
 * Which states of a list are final: no record leaves them. The API's document has no list of states and gives none of them a
 * meaning, so no state is final unless the source says so, or the copy has learned it.
 */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { type Contents, otherValue, subjects } from "../plan/Contents.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import type { SinkError } from "../port/Sink.ts"
import type { ScanReader } from "./Store.ts"

export interface FinalStates {
  readonly states: ReadonlyArray<string>
  /** `unknown`: nothing is known, so that every record counts as open. */
  readonly from: "configured" | "learned" | "unknown"
}

/** Returns the states that the source names, or without them those that the copy has learned. */
export const finalStatesIn = (
  reader: Pick<ScanReader, "scans">,
  list: Lists.AnyList,
  configured: ReadonlyArray<string> | undefined
): Effect.Effect<FinalStates, SinkError> =>
  configured !== undefined
    ? Effect.succeed({ states: configured, from: "configured" })
    : Effect.map(reader.scans(list, ""), (scans) => {
      const states = learnedStates(ScanTotals.contentsOf(scans.find(({ state }) => state === "complete")))
      return { states, from: states.length === 0 ? "unknown" : "learned" }
    })

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
export const finalStatesText = (list: Lists.AnyList, { from, states }: FinalStates): string => {
  const names = states.join(", ")
  switch (from) {
    case "configured":
      return states.length === 0
        ? `${list.label}: no status is final, as the setting final_states says.`
        : `${list.label}: final, by the setting final_states: ${names}.`
    case "learned":
      return `${list.label}: final, as learned, because records have entered but none has left it: ${names}. The setting final_states decides otherwise.`
    case "unknown":
      return `${list.label}: no final status is known, so records of every status count as open. The setting final_states names those that are final.`
  }
}
