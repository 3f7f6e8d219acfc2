/** Where the observations of a service are stored: in a file, or in a destination next to the rows. */
import { Lists, type PaymentsConfig } from "@payments/core"
import { DateTime, Effect, type FileSystem, type Path, type Scope } from "effect"
import { accept } from "../port/Judgement.ts"
import type { SinkError } from "../port/Sink.ts"
import type { FactWriter, Reader } from "../store/Store.ts"
import { type ChangeEvidence, changeEvidence, storedEvidence } from "../store/StoredFacts.ts"
import {
  evidenceIn,
  type Evidences,
  type FactsFileError,
  lockFacts,
  readFacts,
  serviceId,
  withEvidence,
  writeFacts
} from "./FactsFile.ts"

/** A file, or an open destination that belongs to the service. */
export type FactPlace = string | DestinationOfFacts

export interface DestinationOfFacts extends FactWriter, Pick<Reader, "facts" | "location" | "source"> {}

export interface FactStore {
  readonly read: Effect.Effect<Evidences, SinkError>
  /** Changes the evidence about facts of one list in one step. */
  readonly change: (
    list: Lists.AnyList,
    change: ChangeEvidence
  ) => Effect.Effect<void, FactsFileError | SinkError, FileSystem.FileSystem | Path.Path>
}

type Opening<A> = Effect.Effect<
  A,
  FactsFileError | SinkError,
  FileSystem.FileSystem | Path.Path | Scope.Scope
>

/** Opens the place for the facts of a service, until the scope closes. No other program can use a file meanwhile. */
export const openFacts = (place: FactPlace, config: PaymentsConfig["Service"]): Opening<FactStore> =>
  typeof place === "string"
    ? Effect.map(lockedFacts(place, serviceId(config)), ({ facts }) => inFile(place, serviceId(config), facts))
    : Effect.succeed(inDestination(place, config.source))

/** Opens the place for the service whose facts it has, or returns undefined if it has none. */
const openStored = (place: FactPlace): Opening<FactStore | undefined> =>
  typeof place === "string"
    ? Effect.flatMap(readFacts(place, undefined), ({ service }) =>
      service === undefined
        ? Effect.undefined
        : Effect.map(lockedFacts(place, service), ({ facts }) => inFile(place, service, facts)))
    : Effect.map(place.source, (source) => source === undefined ? undefined : inDestination(place, source))

const lockedFacts = (file: string, service: string | undefined) =>
  Effect.andThen(lockFacts(file), readFacts(file, service))

const inFile = (file: string, service: string, stored: Evidences): FactStore => {
  let facts = stored
  return {
    read: Effect.sync(() => facts),
    change: (list, change) =>
      Effect.suspend(() => {
        for (const [fact, evidence] of change((name) => evidenceIn(facts, list.label, name))) {
          facts = withEvidence(facts, list.label, fact, evidence)
        }
        return writeFacts(file, service, facts)
      })
  }
}

const inDestination = (destination: DestinationOfFacts, source: string): FactStore => ({
  read: factsIn(destination, source),
  change: (list, change) => changeEvidence(destination, list, source, change)
})

/** Returns what a destination has stored about a service. */
export const factsIn = (
  destination: Pick<Reader, "facts" | "location">,
  source: string | undefined
): Effect.Effect<Evidences, SinkError> =>
  Effect.map(
    Effect.forEach(Lists.all, (list) =>
      Effect.map(
        storedEvidence(destination, list, source),
        (evidence) => [list.label, Object.fromEntries(evidence)] as const
      )),
    (entries) => Object.fromEntries(entries)
  )

/** What an acceptance has changed. `before` is the answer that was certain, or accepted, before. */
export interface Accepted {
  readonly list: Lists.ListName
  readonly fact: string
  readonly before: string | undefined
  readonly after: string
}

/** Makes the last answers to a fact the accepted ones, for these lists. Lists without an observation stay as they are. */
export const acceptFact = Effect.fnUntraced(function*(
  place: FactPlace,
  { by, fact, lists }: { readonly by: string; readonly fact: string; readonly lists: ReadonlyArray<Lists.AnyList> }
) {
  const store = yield* openStored(place)
  if (store === undefined) return []
  const at = DateTime.formatIso(yield* DateTime.now)
  // A transaction may be repeated, so the last result of a list counts.
  const accepted = new Map<string, Accepted>()
  yield* Effect.forEach(lists, (list) =>
    store.change(list, (evidence) => {
      const before = evidence(fact)
      const after = accept(before, by, at)
      if (after.accepted === undefined) return new Map()
      accepted.set(list.name, { list: list.name, fact, before: before.accepted, after: after.accepted })
      return after === before ? new Map() : new Map([[fact, after]])
    }))
  return [...accepted.values()]
}, Effect.scoped)
