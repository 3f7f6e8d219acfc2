/**
 * Observes facts until they are certain, within a number of requests. It only reads, one request after the other, and stores
 * each observation before it sends the next request.
 */
import { Lists, makePaces, type PaymentsConfig } from "@payments/core"
import { DateTime, Duration, Effect, type FileSystem, type Path, type Redacted } from "effect"
import { HttpClient } from "effect/http"
import { type Acceptance, add, type Evidence, isContradicted, judge, type Judgement } from "../port/Judgement.ts"
import type { SinkError } from "../port/Sink.ts"
import {
  type Ask,
  type AskOptions,
  type HttpVersionOf,
  makeAsk,
  mustWait,
  type NotObserved,
  notObserved
} from "./Ask.ts"
import { keepCursor } from "./CursorFacts.ts"
import { exportFacts } from "./ExportFacts.ts"
import type { Fact, Phase } from "./Fact.ts"
import { evidenceIn, type Evidences, type FactsFileError } from "./FactsFile.ts"
import { type FactPlace, openFacts } from "./FactStore.ts"
import { type Keeper, keepersOf } from "./KeptCursor.ts"
import { listChanged } from "./Movement.ts"
import { factsOf } from "./Registry.ts"
import { usedBy } from "./Uses.ts"

export interface ProbeOptions {
  /** Where the observations are stored: a file, or an open destination that belongs to the service. */
  readonly to: FactPlace
  /** The most requests. */
  readonly budget: number
  /** Another key of the service, to see what a cursor gives with it. */
  readonly otherKey?: Redacted.Redacted<string> | undefined
  /** Sees which version of HTTP an address chooses, without a request. */
  readonly httpVersionOf?: HttpVersionOf | undefined
  /** Whether it may slow other programs down: it sends requests at rising rates until the service answers 429. */
  readonly mayThrottle?: boolean | undefined
  /** The pause after each request; default 500 ms. */
  readonly pause?: Duration.Duration | undefined
  /** Gets the facts known so far after each observation. */
  readonly onObserved?: (facts: ReadonlyArray<KnownFact>) => Effect.Effect<void>
}

/** A fact of one list, and how sure it is. */
export interface KnownFact extends Judgement {
  readonly list: Lists.ListName
  readonly name: string
  readonly section: string
  readonly question: string
  /** The last observation, or why there is none. */
  readonly seen: string
  /** Who uses the answer once it is certain. */
  readonly usedBy: string | undefined
  /** The answer that a contradicting observation has not replaced yet, if there is one. */
  readonly contradicted: string | undefined
  /** The last decision of a person. */
  readonly acceptance: Acceptance | undefined
  /** The times of the first and the last observation. */
  readonly firstAt: string | undefined
  readonly lastAt: string | undefined
}

/** How many pages are read in search of the end of a list. A filtered list, which is read next, is usually shorter. */
const pagesToEnd = 1

interface Round {
  readonly phase?: Phase
  /** The earlier round whose answers it shares. */
  readonly sharesWith?: number
}

/** The first rounds leave so many requests for two observations of the facts about keys. */
const keyRequests = 4 * Lists.all.length

/** The rounds of a run. A round observes each fact of its phase that is not certain. */
const rounds: ReadonlyArray<Round> = [
  {},
  {},
  { phase: "keys", sharesWith: 0 },
  { phase: "keys", sharesWith: 1 },
  {},
  {},
  { phase: "rates" },
  { phase: "rates" }
]

/** What a run has learned, and the requests that it has sent. */
export interface Probed {
  readonly facts: ReadonlyArray<KnownFact>
  readonly requests: number
  /** Why it ended before its requests were used up, if the service wants no further ones for now. */
  readonly stopped: string | undefined
  /** The requests that the last observation of each fact has sent, by list label and name. Facts share requests. */
  readonly costs: ReadonlyMap<string, number>
}

export const probe: (config: PaymentsConfig["Service"], options: ProbeOptions) => Effect.Effect<
  Probed,
  FactsFileError | SinkError,
  FileSystem.FileSystem | Path.Path | HttpClient.HttpClient
> = Effect.fnUntraced(function*(config, options) {
  const { budget, onObserved = () => Effect.void, pause = Duration.millis(500), to } = options
  const client = yield* HttpClient.HttpClient
  const paces = yield* makePaces(config)
  const store = yield* openFacts(to, config)
  let facts = yield* store.read
  const problems = makeProblems()
  const requests = makeBudget(budget)
  const costs = new Map<string, number>()
  /** Observes a fact. Returns whether it waits for a later answer, which other facts may need too. */
  const observe = Effect.fnUntraced(function*({ fact }: Subject, ask: Ask) {
    const now = yield* DateTime.now
    const { label } = ask.list
    const name = `${label} ${fact.name}`
    if (problems.isLasting(name)) return false
    const spentBefore = requests.spent()
    let isWaiting = false
    const change = yield* fact.observe(ask).pipe(
      Effect.match({
        onFailure: (failure): ((evidence: Evidence) => Evidence) | undefined => {
          if (failure.mustStop === true) requests.stop(failure.reason)
          const { reason } = failure
          isWaiting = reason === mustWait
          if (isWaiting || reason === noneLeft) return undefined
          problems.note(name, failure)
          return (evidence) => ({ ...evidence, problem: reason })
        },
        onSuccess: ({ answer, seen }) => (evidence: Evidence) =>
          (fact.add ?? add)(evidence, { answer, seen, at: DateTime.formatIso(now) })
      })
    )
    const isFirst = ask.ifUnclear === "wait"
    costs.set(name, (isFirst ? 0 : costs.get(name) ?? 0) + requests.spent() - spentBefore)
    // Without further requests, some facts can still be observed from the answers to those before.
    if (change === undefined) return isWaiting
    const changed = (evidence: (name: string) => Evidence) => new Map([[fact.name, change(evidence(fact.name))]])
    yield* Effect.uninterruptible(store.change(ask.list, changed))
    facts = yield* store.read
    yield* onObserved(knownFacts(facts))
    return false
  })
  // Observe every fact once before any fact a second time, so that the observations of a fact lie apart.
  const shared = { ...options, client, config, paces, pause, take: requests.take }
  const makeAsks = asksWith(shared, facts, yield* keepersOf(config, store))
  const asksOf: Array<ReadonlyArray<Ask>> = []
  for (const [round, { phase, sharesWith = round }] of rounds.entries()) {
    const now = yield* DateTime.now
    if (phase !== undefined) requests.release()
    const isFirst = rounds.findIndex((one) => one.phase === phase) === round
    // The facts of one round share their requests.
    const asks = asksOf[sharesWith] ?? makeAsks()
    asksOf.push(asks)
    for (const group of groupsOf({ asks, facts, costs, phase, now: isFirst ? now : undefined })) {
      const waiting = yield* Effect.filter(
        group,
        (subject) => observe(subject, { ...subject.ask.waiting, other: subject.other?.waiting })
      )
      // The first round saves the requests that it takes to observe a fact while the list changes.
      const ifUnclear = round === 0 ? "fail" : "send"
      for (const subject of waiting) yield* observe(subject, { ...subject.ask, ifUnclear, other: subject.other })
    }
  }
  // Without a request left, a later run keeps one.
  for (const ask of makeAsks()) yield* Effect.ignore(keepCursor(ask))
  return { facts: knownFacts(facts), requests: requests.spent(), stopped: requests.stopped(), costs }
}, Effect.scoped)

/** Returns a function that makes a client for each list. Those of one list know the sizes and names that it has shown. */
const asksWith = (
  shared: Omit<AskOptions, "list" | "sizes" | "names" | "keeper">,
  facts: Evidences,
  keeperOf: (list: Lists.AnyList) => Keeper
) => {
  const ofAll = {
    ...shared,
    throttled: { count: 0 },
    refusals: { areRandom: false },
    keyStatuses: new Map<string, number>()
  }
  const known = Lists.all.map((list) => ({
    list,
    sizes: new Map<string, Set<number>>(),
    names: namesIn(facts, list),
    keeper: keeperOf(list)
  }))
  return (): ReadonlyArray<Ask> => known.map((one) => makeAsk({ ...ofAll, ...one }))
}

/** Counts requests. Some are reserved until they are released. */
const makeBudget = (budget: number) => {
  let [spent, reserved] = [0, Math.min(keyRequests, Math.floor(budget / 10))]
  let stopped: string | undefined
  return {
    spent: () => spent,
    stop: (reason: string) => void (stopped ??= reason),
    stopped: () => stopped,
    release: () => void (reserved = 0),
    take: Effect.suspend(() => {
      if (stopped !== undefined || spent >= budget - reserved) return Effect.fail(notObserved(noneLeft))
      spent++
      return Effect.void
    })
  }
}

/** Keeps why facts were not observed. The same reason twice in a row will not change in this run. */
const makeProblems = () => {
  const problems = new Map<string, { readonly reason: string; readonly times: number }>()
  return {
    isLasting: (name: string): boolean => (problems.get(name)?.times ?? 0) >= 2,
    note: (name: string, { reason, retryAfter }: NotObserved): void => {
      if (retryAfter !== undefined || reason === listChanged) return
      const before = problems.get(name)
      problems.set(name, { reason, times: before?.reason === reason ? before.times + 1 : 1 })
    }
  }
}

/**
 * Returns the facts to observe, in groups of one list. They begin with those that were observed for few requests: what is left
 * when the requests are used up is the least likely to be decided. With a time, certain facts are observed again if their
 * last observation is older than a day.
 */
const groupsOf = ({ asks, costs, facts, now, phase }: {
  readonly asks: ReadonlyArray<Ask>
  readonly facts: Evidences
  readonly costs: ReadonlyMap<string, number>
  readonly phase: Phase | undefined
  readonly now: DateTime.Utc | undefined
}): ReadonlyArray<ReadonlyArray<Subject>> => {
  const open = asks.map((ask, index) =>
    factsOf(ask.list, pagesToEnd).flatMap((fact) => {
      const evidence = evidenceIn(facts, ask.list.label, fact.name)
      if (fact.phase !== phase) return []
      if (phase !== undefined && now === undefined && evidence.problem !== undefined) return []
      if (judge(evidence).degree === "certain" && (now === undefined || !isDue(ask, fact, evidence, now))) return []
      const isCheap = (costs.get(`${ask.list.label} ${fact.name}`) ?? 0) <= fewRequests
      const rank = fact.isLast === true ? 4 : evidence.problem !== undefined ? 3 : isCheap ? 1 : 2
      return [{ ask, other: asks[(index + 1) % asks.length], fact, rank }]
    })
  )
  return [1, 2, 3, 4].flatMap((rank) => open.map((all) => all.filter((subject) => subject.rank === rank)))
}

/** Returns the names of parameters that were observed before. */
const namesIn = (facts: Evidences, { label }: Lists.AnyList): Map<string, string> => {
  const start = "name-"
  return new Map(
    Object.keys(facts[label] ?? {}).flatMap((fact) => {
      const { answer, degree } = judge(evidenceIn(facts, label, fact))
      return fact.startsWith(start) && answer !== undefined && degree !== "undecided"
        ? [[fact.slice(start.length), answer]]
        : []
    })
  )
}

/** A fact that took more is observed after the others. */
const fewRequests = 2

/** After this time, a run observes a certain fact again. */
const recent = Duration.days(1)

/** Whether a run observes a certain fact again. */
const isDue = ({ keeper }: Ask, fact: Fact, evidence: Evidence, now: DateTime.Utc): boolean =>
  !isRecent(evidence, now) ||
  keeper !== undefined && fact.isDue?.(keeper, evidence, DateTime.toEpochMillis(now)) === true

const isRecent = ({ observations }: Evidence, now: DateTime.Utc): boolean =>
  Date.parse(observations.at(-1)?.at ?? "") > DateTime.toEpochMillis(now) - Duration.toMillis(recent)

/** A fact to observe. The next list is the other one. */
interface Subject {
  readonly ask: Ask
  readonly other: Ask | undefined
  readonly fact: Fact
}

const noneLeft = "the requests of this run are used up"

/** Returns all facts, with what is stored about them; those that only exports observe, only if one has. */
export const knownFacts = (facts: Evidences): ReadonlyArray<KnownFact> =>
  Lists.all.flatMap((list) => {
    const observedByExports = exportFacts.filter(({ name }) => facts[list.label]?.[name] !== undefined)
    return [...factsOf(list, pagesToEnd), ...observedByExports].map(({ name, question, section }): KnownFact => {
      const evidence = evidenceIn(facts, list.label, name)
      const last = evidence.observations.at(-1)
      const judged = judge(evidence)
      return {
        list: list.name,
        name,
        section,
        question,
        ...judged,
        seen: (judged.degree === "undecided" ? evidence.problem : undefined) ?? last?.seen ?? "not observed yet",
        firstAt: evidence.observations.at(0)?.at,
        usedBy: usedBy(list, name),
        contradicted: isContradicted(evidence) ? evidence.accepted : undefined,
        acceptance: evidence.acceptances?.at(-1),
        lastAt: last?.at
      }
    })
  })
