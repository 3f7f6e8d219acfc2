import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { binary, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { type Dice, diceOf, isLongRun, seed } from "@payments/testkit/Seed"
import { spawn } from "@payments/testkit/TestProcess"
import { Console, Effect, type Scope } from "effect"
import { once } from "node:events"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { runInProcess } from "../program/InProcess.ts"

const kills = isLongRun ? 200 : 6

/** Makes a batch larger than a pipe and the buffers of its ends, so that kills hit writes that are not complete. */
const description = "x".repeat(300)

interface Target {
  readonly name: string
  /** A new, empty destination. */
  readonly open: Effect.Effect<string, never, Scope.Scope>
}

const targets: ReadonlyArray<Target> = [
  { name: "sqlite", open: Effect.map(temporaryFolder, (folder) => `sqlite:${join(folder, "payments.db")}`) },
  {
    name: "postgres",
    open: Effect.map(
      Effect.acquireRelease(Effect.promise(() => startServer()), (server) => Effect.promise(() => server.stop())),
      ({ port }) => `postgres://${user}@127.0.0.1:${port}/postgres`
    )
  }
]

/** Runs `payments changes` over a pipe and kills it. Returns the complete lines that the reader of the pipe gets. */
const killed = async (from: string, dice: Dice): Promise<ReadonlyArray<string>> => {
  const args = ["changes", "--from", from, "--consumer", "reader", "--ack", ...(dice.chance(0.7) ? ["--follow"] : [])]
  const child = spawn(process.execPath, [binary, ...args], {
    env: {},
    stdio: ["ignore", "pipe", "ignore"]
  })
  const chunks: Array<Buffer> = []
  const ended = once(child, "close")
  // A reader that pauses fills the pipe, so that the program is killed while it writes.
  let pauses = dice.chance(0.4)
  child.stdout.on("data", (chunk: Buffer) => {
    chunks.push(chunk)
    if (pauses) child.stdout.pause()
  })
  // Some kills hit the start of the program; the others hit its output and its acknowledgements. Another reader may have
  // acknowledged everything meanwhile, so the wait is limited.
  if (dice.chance(0.8)) await Promise.race([once(child.stdout, "data"), ended, setTimeout(3000)])
  await setTimeout(dice.below(60))
  child.kill("SIGKILL")
  pauses = false
  child.stdout.resume()
  await ended
  return Buffer.concat(chunks).toString("utf8").split("\n").slice(0, -1)
}

describe(`SIGKILL at ${kills} random moments of readers that acknowledge (seed ${seed})`, () => {
  it.live.each(targets.map((target) => [target.name, target] as const))(
    "loses no change of %s, and repeats a change only with its number and text",
    ([name, { open }]) =>
      Effect.gen(function*() {
        const dice = diceOf(seed, "killed readers", name)
        const from = yield* open
        const run = (...args: ReadonlyArray<string>) => runInProcess(layerTest({}), [...args, "--from", from])
        const amounts = Array.from({ length: 3000 }, () => 0)
        /** Exports the list after the first `count` invoices have changed. */
        const exporting = (count: number) => {
          for (let index = 0; index < count; index++) amounts[index] = (amounts[index] ?? 0) + 1
          const invoices = amounts.map((amount, index) => ({ id: `inv_${index}`, amount, description }))
          return Effect.map(
            runInProcess(layerTest({ invoices }), ["export", "invoices", "--to", from]),
            ({ code, err }) => assert.deepStrictEqual([code, err], [0, ""])
          )
        }
        const state = Effect.map(
          run("changes", "consumers"),
          ({ out }): { readonly position: number; readonly lag: number } => JSON.parse(out)
        )
        const seqOf = (line: string): number => JSON.parse(line).seq
        /** Every line that a reader got, by the number of its change. */
        const delivered = new Map<number, string>()
        const deliver = (lines: ReadonlyArray<string>) => {
          for (const [index, line] of lines.entries()) {
            const seq = seqOf(line)
            if (index > 0) assert.strictEqual(seq, seqOf(lines[index - 1] ?? "") + 1, "in order, without a gap")
            assert.strictEqual(delivered.get(seq) ?? line, line, "a repeated change is the same")
            delivered.set(seq, line)
          }
        }
        yield* exporting(0)
        // Changes after the position of a consumer are not removed.
        yield* run("changes", "ack", "reader", "0")
        yield* exporting(amounts.length)
        const counts = { moved: 0, repeated: 0, silent: 0 }
        for (let left = kills; left > 0; left--) {
          const { lag, position: before } = yield* state
          if (lag === 0 || dice.chance(0.2)) yield* exporting(1 + dice.below(2000))
          if (dice.chance(0.1)) yield* run("prune", "--keep-changes", "1ms")
          const readers = dice.chance(0.2) ? 2 : 1
          const outputs = yield* Effect.promise(() =>
            Promise.all(Array.from({ length: readers }, () => killed(from, dice)))
          )
          for (const lines of outputs) {
            const [first] = lines
            if (first === undefined) counts.silent++
            else if (delivered.has(seqOf(first))) counts.repeated++
            deliver(lines)
          }
          const { position: after } = yield* state
          assert.isAtLeast(after, before, "a position only moves forward")
          if (after > before) counts.moved++
          for (let seq = before + 1; seq <= after; seq++) assert.isTrue(delivered.has(seq), `${seq} was delivered`)
        }
        deliver((yield* run("changes", "--consumer", "reader", "--ack")).out.split("\n").slice(0, -1))
        const { position: last } = yield* state
        assert.isAtLeast(last, amounts.length)
        assert.deepStrictEqual([...delivered.keys()].toSorted((left, right) => left - right), seqsTo(last))
        const { out } = yield* run("changes")
        for (const line of out.split("\n").slice(0, -1)) assert.strictEqual(delivered.get(seqOf(line)), line)
        yield* Console.log(`killed readers of ${name}: ${JSON.stringify({ ...counts, changes: last })}`)
        if (isLongRun) { for (const count of Object.values(counts)) assert.isAbove(count, 0) }
      }).pipe(Effect.scoped),
    isLongRun ? 600_000 : 300_000
  )
})

const seqsTo = (last: number): ReadonlyArray<number> => Array.from({ length: last }, (_, index) => index + 1)
