/**
 * How sure a fact is, from its observations. Nothing that was observed once is certain: a first answer needs two
 * observations in a row, and each observation of another answer among the last ones raises that number by one. Three
 * observations in a row replace an accepted answer.
 */

/** An observation that is stored. It has no part of a record, cursor or key. */
export interface Observation {
  readonly answer: string
  /** What was seen, as a sentence. */
  readonly seen: string
  /** When, as an ISO 8601 date-time. */
  readonly at: string
}

/** What is stored of a fact. */
export interface Evidence {
  /** The answer that was certain last. */
  readonly accepted?: string | undefined
  /** Why the last attempt observed nothing. */
  readonly problem?: string | undefined
  /** The last observations, oldest first. */
  readonly observations: ReadonlyArray<Observation>
}

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
const maxObservations = 20

const toAppear = 2
const toReplace = 3

export const add = ({ accepted, observations }: Evidence, next: Observation): Evidence => {
  const all = [...observations, next].slice(-maxObservations)
  const inARow = lastInARow(all)
  if (accepted !== undefined && accepted !== next.answer && inARow >= toReplace) {
    // What was observed before is about the earlier behaviour.
    return { accepted: next.answer, observations: all.slice(-inARow) }
  }
  return isEnough(all) && accepted === undefined
    ? { accepted: next.answer, observations: all }
    : { accepted, observations: all }
}

export const judge = ({ accepted, observations }: Evidence): Judgement => {
  const answer = observations.at(-1)?.answer
  const agreeing = observations.filter((one) => one.answer === answer).length
  const degree = answer !== undefined && accepted === answer && isEnough(observations)
    ? "certain"
    : observations.length === 1 && accepted === undefined
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
