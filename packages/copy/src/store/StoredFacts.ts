/** The evidence about the facts of a service, as a destination stores it. */
import type { Lists } from "@payments/core"
import { Effect, Option } from "effect"
import { createHash } from "node:crypto"
import { type Evidence, evidenceFromText, evidenceToText, judge, noEvidence } from "../port/Judgement.ts"
import { Damaged, SinkError } from "../port/Sink.ts"
import type { FactTexts, FactWriter, Reader } from "./Store.ts"

/** Names a service by the source of its data, without showing its addresses. */
export const serviceOf = (source: string): string => createHash("sha256").update(source).digest("hex")

/** Reads all evidence about a list. Fails if one cannot be read. Without a source, it is that of any service. */
export const storedEvidence = Effect.fnUntraced(function*(
  reader: Pick<Reader, "facts" | "location">,
  list: Lists.AnyList,
  source: string | undefined
): Effect.fn.Return<ReadonlyMap<string, Evidence>, SinkError> {
  const evidence = evidenceIn(yield* reader.facts(list, source === undefined ? undefined : serviceOf(source)))
  if (evidence !== undefined) return evidence
  return yield* new SinkError({ location: reader.location, reason: unreadable(list) })
})

const unreadable = ({ label }: Lists.AnyList) => new Damaged({ problem: `the facts of ${label} cannot be read` })

const evidenceIn = (texts: FactTexts): ReadonlyMap<string, Evidence> | undefined =>
  Option.getOrUndefined(Option.map(
    Option.all([...texts].map(([fact, text]) => Option.map(evidenceFromText(text), (one) => [fact, one] as const))),
    (entries) => new Map(entries)
  ))

/** Returns the new evidence about some facts; `before` is what is stored about a fact. */
export type ChangeEvidence = (before: (fact: string) => Evidence) => ReadonlyMap<string, Evidence>

/** Changes evidence about a list in one transaction. Fails, and changes nothing, if what is stored cannot be read. */
export const changeEvidence = (
  writer: FactWriter,
  list: Lists.AnyList,
  source: string,
  change: ChangeEvidence
): Effect.Effect<void, SinkError> =>
  writer.changeFacts(list, serviceOf(source), (stored) => {
    const before = evidenceIn(stored)
    if (before === undefined) throw unreadable(list)
    const changed = change((fact) => before.get(fact) ?? noEvidence)
    return new Map([...changed].map(([fact, evidence]) => [fact, evidenceToText(evidence)]))
  })

/** Reads the answers about a list that are certain, by fact. Without a source, they are those of any service. */
export const certainIn = (
  reader: Pick<Reader, "facts" | "location">,
  list: Lists.AnyList,
  source: string | undefined
): Effect.Effect<{ readonly [fact: string]: string }, SinkError> =>
  Effect.map(storedEvidence(reader, list, source), certainAnswers)

const certainAnswers = (evidence: ReadonlyMap<string, Evidence>): { readonly [fact: string]: string } =>
  Object.fromEntries([...evidence].flatMap(([fact, one]) => {
    const { answer, degree } = judge(one)
    return degree === "certain" && answer !== undefined ? [[fact, answer]] : []
  }))
