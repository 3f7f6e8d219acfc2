/** Measures how often `payments probe` is right and sure, over services whose hidden rules are known. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { type KnownFact, probe, type Probed } from "@payments/copy/facts"
import { Lists } from "@payments/core"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { canBeDecided, type Disturbance, drawRules, isRight } from "@payments/testkit/HiddenRules"
import { diceOf } from "@payments/testkit/Seed"
import { Duration, Effect, Layer, Redacted } from "effect"
import { join } from "node:path"
import { temporaryFolder } from "../harness/Programs.ts"
import type { Figure } from "../harness/Report.ts"

export interface ProbeSizes {
  /** Services of each kind. */
  readonly services: number
  /** The most requests of a probe. */
  readonly budget: number
  readonly seed: number
}

/** The sizes for which the targets are defined. */
export const fullProbeSizes: ProbeSizes = { services: 100, budget: 200, seed: 20_261_127 }

const disturbances: ReadonlyArray<Disturbance> = ["quiet", "moving", "failing"]

/** What became of the facts that can be decided. */
interface Outcome {
  certain: number
  decidable: number
  /** The facts without a certain or likely answer. */
  undecided: number
  readonly wrong: Array<string>
  /** The facts that were not certain, with how often. */
  readonly open: Map<string, number>
}

/** `log` receives a line after each step. */
export const measureProbe = async (
  { budget, seed, services }: ProbeSizes,
  log: (line: string) => void
): Promise<ReadonlyArray<Figure>> => {
  const { costs } = await probeSandbox({}, 1000)
  for (const [fact, requests] of costs) log(`requests of the last observation: ${fact}: ${requests}`)
  const figures: Array<Figure> = []
  for (const disturbance of disturbances) {
    const outcome: Outcome = { certain: 0, decidable: 0, undecided: 0, wrong: [], open: new Map() }
    for (let service = 0; service < services; service++) {
      const rules = drawRules(diceOf(seed, disturbance, service), disturbance, { oddities: true })
      for (const fact of (await probeSandbox(rules.options, budget, rules.hasOtherKey)).facts) {
        const list = Lists.byName[fact.list]
        const isWrong = fact.degree === "certain" && isRight(rules.truth, list, fact.name, fact.answer) === false
        if (isWrong) {
          outcome.wrong.push(`service ${service}: ${fact.list} ${fact.name}: ${fact.answer} (${fact.seen})`)
        }
        if (canBeDecided(rules, list, fact.name)) note(outcome, fact)
      }
      if ((service + 1) % 10 === 0) log(`${disturbance}: ${service + 1} of ${services}: ${outcome.wrong.length} wrong`)
    }
    for (const wrong of outcome.wrong) log(`${disturbance}: wrong: ${wrong}`)
    const open = [...outcome.open].toSorted(([, one], [, other]) => other - one).slice(0, 8)
    log(`${disturbance}: not certain most often: ${open.map((pair) => pair.join(" ")).join(", ")}`)
    figures.push(
      { name: `wrong certain answers, ${disturbance} services`, value: outcome.wrong.length, unit: "count", atMost: 0 },
      {
        name: `facts that can be decided and are certain after ${budget} requests, ${disturbance} services`,
        value: outcome.certain / outcome.decidable * 100,
        unit: "%",
        ...(disturbance === "quiet" ? { atLeast: 90 } : {})
      },
      {
        name: `facts that can be decided and are undecided, ${disturbance} services`,
        value: outcome.undecided / outcome.decidable * 100,
        unit: "%",
        ...(disturbance === "quiet" ? { atMost: 5 } : {})
      }
    )
  }
  return figures
}

const note = (outcome: Outcome, { degree, name }: KnownFact): void => {
  outcome.decidable++
  if (degree === "undecided") outcome.undecided++
  if (degree === "certain") outcome.certain++
  else outcome.open.set(name, (outcome.open.get(name) ?? 0) + 1)
}

/** The faults of these services depend on no rate, so a slower probe would only take longer. */
const slowDown = { factor: 1, recoveryPerSecond: 1, slowestPerSecond: 1000 }

const probeSandbox = async (options: SandboxOptions, budget: number, hasOtherKey = false): Promise<Probed> => {
  using place = temporaryFolder()
  const file = join(place.folder, "facts.json")
  const probing = Effect.gen(function*() {
    const { url } = yield* Sandbox
    const config = { ...(yield* Sandbox.config(url)), slowDown }
    const otherKey = hasOtherKey ? Redacted.make("sandbox_other") : undefined
    return yield* probe(config, { to: file, budget, otherKey, pause: Duration.zero })
  })
  return await Effect.runPromise(
    probing.pipe(
      Effect.provide(Layer.mergeAll(NodeServices.layer, layerHttpClient, Sandbox.layer(options)))
    )
  )
}
