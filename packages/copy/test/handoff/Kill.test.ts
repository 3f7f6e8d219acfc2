/** Senders that are killed with SIGKILL at any moment. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { type PostgresServer, startServer } from "@payments/testkit/postgres/PostgresServer"
import { urlOf } from "@payments/testkit/postgres/PostgresTest"
import { diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { spawn } from "@payments/testkit/TestProcess"
import { Deferred, Effect, Option } from "effect"
import { once } from "node:events"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { mostReady } from "../../src/handoff/Delivery.ts"
import { timeoutDetached } from "../../src/port/Timeouts.ts"
import * as PostgresSink from "../../src/postgres/PostgresSink.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"
import { openMaintenance } from "../../src/sqlite/SqliteStore.ts"
import { postTo, receiver, sending } from "./Receiver.ts"
import { consumer, exporting, subscribed } from "./Subscribed.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const fileIn = (folder: string) => join(folder, "payments.db")

const destinations = [
  {
    name: "sqlite:FILE",
    layer: (folder: string) => SqliteSink.layer(fileIn(folder)),
    open: (folder: string) => openMaintenance(fileIn(folder), "here"),
    place: (folder: string) => [fileIn(folder)]
  },
  {
    name: "postgres://HOST",
    layer: (folder: string) => PostgresSink.layer(urlOf(server, basename(folder))),
    open: (folder: string) => PostgresSink.maintenance(urlOf(server, basename(folder))),
    place: (folder: string) => [basename(folder), String(server.port)]
  }
]

const changes = 600

/** The most batches that a sender may have sent since it has stored its position: those in flight and those ready. */
const mostRepeated = 2 * mostReady
const kills = isLongRun ? 40 : 5

/** Starts a sender, and returns it once it begins. */
const started = async (args: ReadonlyArray<string>) => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "HandoffChild.ts"), ...args], {
    stdio: ["ignore", "pipe", "pipe"]
  })
  // All that it has printed was read by then.
  const exited = once(child, "close")
  await Promise.race([once(child.stdout, "data"), exited])
  return { child, exited }
}

/** Starts a sender, and kills it so many milliseconds after it has begun. Returns the signal that ended it. */
const killedAfter = (args: ReadonlyArray<string>, ms: number) =>
  Effect.promise(async () => {
    const { child, exited } = await started(args)
    await new Promise((resolve) => setTimeout(resolve, ms))
    child.kill("SIGKILL")
    const [, signal]: ReadonlyArray<unknown> = await exited
    return signal
  })

describe.each(destinations)(`killed senders of $name (seed ${seed})`, ({ layer, name, open, place }) => {
  it.live(
    "lose, reorder and alter nothing, and repeat only the batches since the stored position",
    () =>
      Effect.gen(function*() {
        const dice = diceOf(seed, "killed", name)
        const folder = yield* temporaryFolder
        for (const amount of [1, 2]) {
          yield* exporting(layer(folder), Array.from({ length: changes }, () => amount))
        }
        const maintenance = yield* open(folder)
        yield* subscribed(maintenance)
        const { received, url } = yield* receiver(() => "ok")
        let killed = 0
        // On a loaded machine, the first senders may send nothing before they are killed.
        for (; killed < kills || received.length === 0; killed++) {
          const ms = dice.below(250 * Math.max(1, killed - kills))
          assert.strictEqual(yield* killedAfter([url, ...place(folder)], ms), "SIGKILL")
        }
        yield* sending(maintenance, yield* postTo(url), { limits: { changes: 2, bytes: 20_000 } })
        const bodies = new Map(received.map(({ body, id }) => [id, body]))
        for (const { body, id } of received) assert.strictEqual(bodies.get(id), body)
        const unique = received.filter(({ id }, index) => received.findIndex((one) => one.id === id) === index)
        assert.isAtMost(received.length - unique.length, killed * mostRepeated)
        assert.deepStrictEqual(
          unique.flatMap(({ numbers }) => numbers),
          Array.from({ length: changes }, (_, index) => index + 1)
        )
        assert.deepInclude((yield* maintenance.consumerStates)[0], { name: consumer, position: changes, lag: 0 })
      }).pipe(Effect.scoped),
    600_000
  )

  it.live(
    "that are suspended and continue after another one has taken over repeat only batches, in their order, and end",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        for (const amount of [1, 2]) {
          yield* exporting(layer(folder), Array.from({ length: changes }, () => amount))
        }
        const maintenance = yield* open(folder)
        yield* subscribed(maintenance)
        const reached = yield* Deferred.make<void>()
        const { promise: suspended, resolve: onSuspended } = Promise.withResolvers<void>()
        let isHeld = false
        const { received, url } = yield* receiver(
          (numbers) => {
            isHeld = numbers.includes(41) && !Deferred.isDoneUnsafe(reached)
            if (isHeld) Deferred.doneUnsafe(reached, Effect.void)
            return "ok"
          },
          () => isHeld ? suspended : 0
        )
        const { child, exited } = yield* Effect.promise(() => started([url, ...place(folder)]))
        yield* Effect.addFinalizer(() => Effect.sync(() => void child.kill("SIGKILL")))
        yield* Deferred.await(reached)
        // It is suspended while it waits for an answer. A transaction, which it may be in, would lock others out.
        const write = Effect.scoped(Effect.flatMap(open(folder), ({ changeHandoff }) =>
          changeHandoff({
            consumer,
            epoch: undefined,
            change: (stored) => stored
          })))
        const suspend = Effect.gen(function*() {
          child.kill("SIGSTOP")
          const written = yield* timeoutDetached("5 seconds")(write)
          if (Option.isNone(written)) {
            child.kill("SIGCONT")
          }
          return Option.isSome(written)
        })
        yield* Effect.repeat(Effect.delay(suspend, "50 millis"), { until: (isDone) => isDone })
        onSuspended()
        yield* sending(maintenance, yield* postTo(url), { limits: { changes: 2, bytes: 20_000 } })
        const before = received.length
        assert.deepInclude((yield* maintenance.consumerStates)[0], { position: changes, lag: 0 })
        let stderr = ""
        child.stderr.on("data", (chunk: Buffer) => void (stderr += chunk.toString()))
        child.kill("SIGCONT")
        const [code]: ReadonlyArray<unknown> = yield* Effect.promise(() => exited)
        assert.strictEqual(code, 1)
        assert.include(stderr, "HandoffTakenOver")
        assert.isAtMost(received.length - before, mostRepeated)
        const unique = received.filter(({ id }, index) => received.findIndex((one) => one.id === id) === index)
        assert.isAtMost(received.length - unique.length, 2 * mostRepeated)
        assert.deepStrictEqual(
          unique.flatMap(({ numbers }) => numbers),
          Array.from({ length: changes }, (_, index) => index + 1)
        )
      }).pipe(Effect.scoped),
    600_000
  )
})
