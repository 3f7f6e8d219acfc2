/** A question that the document leaves open or answers, and how it is observed. */
import type { Effect } from "effect"
import type { Evidence, Observation } from "../port/Judgement.ts"
import type { Ask, NotObserved, Observed } from "./Ask.ts"
import type { Keeper } from "./KeptCursor.ts"

/**
 * `keys`: after two rounds of the other facts, because a service may lock a key out after several wrong ones. `rates`: at the end,
 * because it slows other programs down. Such a fact is not observed again if that shows nothing.
 */
export type Phase = "keys" | "rates"

/** A fact about one list. */
export interface Fact {
  /** Stored with the observations, so it never changes. */
  readonly name: string
  /** The section of the document that answers the question, or leaves it open. */
  readonly section: string
  readonly question: string
  /** What the document states, if it does. */
  readonly rule?: Rule
  readonly observe: (ask: Ask) => Effect.Effect<Observed, NotObserved>
  /** Whether a round observes it after all other facts. */
  readonly isLast?: boolean
  /** When it is observed, if not with the other facts. */
  readonly phase?: Phase
  /** Whether a run can show more than a certain answer says, although that was observed a short time ago. */
  readonly isDue?: (keeper: Keeper, evidence: Evidence, nowMs: number) => boolean
  /** Adds an observation, if different answers do not contradict each other. */
  readonly add?: (evidence: Evidence, next: Observation) => Evidence
}

export interface Rule {
  /** The rule as a sentence. */
  readonly text: string
  readonly allows: (answer: string) => boolean
}

/** A rule that allows these answers. */
export const rule = (text: string, ...answers: ReadonlyArray<string>): Rule => ({
  text,
  allows: (answer) => answers.includes(answer)
})

export const observed = (answer: string, seen: string): Observed => ({ answer, seen })

export const records = (count: number): string => `${count} ${count === 1 ? "record" : "records"}`
