/**
 * How sure a fact is, from its observations. Nothing that was observed once is certain: a first answer needs two
 * observations in a row, and each observation of another answer among the last ones raises that number by one. Three
 * observations in a row replace an accepted answer.
 */

import { Option, Schema } from "effect"

/** An observation that is stored. It has no part of a record, cursor or key. */
const Observation = Schema.Struct({
  answer: Schema.String,
  /** What was seen, as a sentence. */
  seen: Schema.String,
  /** What this observation alone has shown, if the answer rests on several. */
  bound: Schema.optionalKey(Schema.String),
  /** When, as an ISO 8601 date-time. */
  at: Schema.String
})
export interface Observation extends Schema.Schema.Type<typeof Observation> {}

/** A person's decision that an answer is the right one from now on. */
const Acceptance = Schema.Struct({
  by: Schema.String,
  at: Schema.String,
  before: Schema.optionalKey(Schema.String),
  after: Schema.String
})
export interface Acceptance extends Schema.Schema.Type<typeof Acceptance> {}

/** What is stored of a fact. */
export const Evidence = Schema.Struct({
  /** The answer that was certain last, or that was accepted. */
  accepted: Schema.optional(Schema.String),
  /** Why the last attempt observed nothing. */
  problem: Schema.optional(Schema.String),
  /** The last observations, oldest first. */
  observations: Schema.Array(Observation),
  /** What later runs need to observe the fact, encrypted. */
  kept: Schema.optionalKey(Schema.String),
  /** The last decisions, oldest first. */
  acceptances: Schema.optionalKey(Schema.Array(Acceptance))
})
export interface Evidence extends Schema.Schema.Type<typeof Evidence> {}

export const noEvidence: Evidence = { observations: [] }

const Text = Schema.fromJsonString(Evidence)
export const evidenceToText: (evidence: Evidence) => string = Schema.encodeSync(Text)
/** Without a stored text, there is no evidence. */
export const evidenceFromText = (text: string | undefined): Option.Option<Evidence> =>
  text === undefined ? Option.some(noEvidence) : Schema.decodeOption(Text)(text)

/** What an answer may be used for: `certain` to change behaviour, `likely` to be shown, `undecided` for nothing. */
export type Degree = "certain" | "likely" | "undecided"

export interface Judgement {
  readonly degree: Degree
  /** The last answer. */
  readonly answer: string | undefined
  /** How many of the stored observations have that answer. */
  readonly agreeing: number
  readonly observations: number
}

/** How many observations are stored. Older ones no longer contradict. */
export const maxObservations = 20

const toAppear = 2
const toReplace = 3

/** The answer to `count` of a service that counts more records than it returns. Only a person makes it certain. */
export const tooMany = "more records than the list has"

export const add = ({ problem: _observed, ...before }: Evidence, next: Observation): Evidence => {
  const { accepted } = before
  const observations = [...before.observations, next].slice(-maxObservations)
  if (next.answer === tooMany) return { ...before, observations }
  const inARow = lastInARow(observations)
  if (accepted !== undefined && accepted !== next.answer && inARow >= toReplace) {
    // What was observed before is about the earlier behaviour.
    return { ...before, accepted: next.answer, observations: observations.slice(-inARow) }
  }
  return isEnough(observations) && accepted === undefined
    ? { ...before, accepted: next.answer, observations }
    : { ...before, observations }
}

/** Makes the last answer the accepted one, if it is not. What was observed before is about the earlier behaviour. */
export const accept = (evidence: Evidence, by: string, at: string): Evidence => {
  const { accepted, acceptances = [], observations, problem: _observed, ...others } = evidence
  const last = observations.at(-1)
  if (last === undefined || last.answer === accepted) return evidence
  const acceptance = { by, at, after: last.answer, ...(accepted === undefined ? {} : { before: accepted }) }
  return {
    ...others,
    accepted: last.answer,
    observations: observations.slice(-lastInARow(observations)),
    acceptances: [...acceptances, acceptance].slice(-maxObservations)
  }
}

/** Whether the last observation contradicts the accepted answer. */
export const isContradicted = ({ accepted, observations }: Evidence): boolean =>
  accepted !== undefined && observations.length > 0 && observations.at(-1)?.answer !== accepted

export const judge = ({ accepted, observations }: Evidence): Judgement => {
  const answer = observations.at(-1)?.answer
  const agreeing = observations.filter((one) => one.answer === answer).length
  const degree = answer !== undefined && accepted === answer && isEnough(observations)
    ? "certain"
    : observations.length === 1 && (accepted ?? answer) === answer
    ? "likely"
    : "undecided"
  return { degree, answer, agreeing, observations: observations.length }
}

const lastInARow = (observations: ReadonlyArray<Observation>): number => {
  const answer = observations.at(-1)?.answer
  const other = observations.findLastIndex((one) => one.answer !== answer)
  return observations.length - 1 - other
}

const isEnough = (observations: ReadonlyArray<Observation>): boolean => {
  const inARow = lastInARow(observations)
  const answer = observations.at(-1)?.answer
  const contradictions = observations.filter((one) => one.answer !== answer).length
  return inARow >= toAppear + contradictions
}
