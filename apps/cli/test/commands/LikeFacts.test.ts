/** A sandbox that serves as a service was observed gives a probe the same answers as that service. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { type KnownFact, probe } from "@payments/copy/facts"
import { layerHttpClient } from "@payments/core/node"
import { Sandbox, type SandboxOptions } from "@payments/sandbox"
import { drawRules } from "@payments/testkit/HiddenRules"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { Duration, Effect, Layer } from "effect"
import { join } from "node:path"
import { likeFacts } from "../../src/commands/LikeFacts.ts"

const factsOf = (options: SandboxOptions): Effect.Effect<ReadonlyArray<KnownFact>, unknown> =>
  Effect.gen(function*() {
    const file = join(yield* temporaryFolder, "facts.json")
    const { url } = yield* Sandbox
    const config = yield* Sandbox.config(url)
    return (yield* probe(config, { to: file, budget: 260, pause: Duration.zero })).facts
  }).pipe(
    Effect.scoped,
    Effect.provide(Layer.mergeAll(NodeServices.layer, layerHttpClient, Sandbox.layer(options)))
  )

describe("a sandbox like the facts of another service", () => {
  it.live(`gives the same certain answers (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      for (let run = 0; run < (isLongRun ? 30 : 1); run++) {
        const { options } = drawRules(diceOf(seed, "like", run), "quiet")
        const facts = yield* factsOf(options)
        const { records, seed: ofRecords } = options
        const again = yield* factsOf({ records, seed: ofRecords, ...likeFacts(facts) })
        const differing = facts.flatMap((fact, index) => {
          const other = again[index]
          return fact.degree === "certain" && other?.degree === "certain" && fact.answer !== other.answer
            ? [`${fact.list} ${fact.name}: ${fact.answer}, then ${other.answer}`]
            : []
        })
        assert.deepStrictEqual(differing, [], JSON.stringify(options))
        assert.isAbove(facts.filter(({ degree }) => degree === "certain").length, 100)
      }
    }))
})
