import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { binary, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect, Fiber } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { runInProcess } from "../program/InProcess.ts"

const emptyApi = layerTest({})

/** Exports this many invoices with this amount. */
const exporting = (to: string, count: number, amount: number, ...more: ReadonlyArray<string>) =>
  runInProcess(
    layerTest({ invoices: Array.from({ length: count }, (_, index) => ({ id: `inv_${index}`, amount })) }),
    ["export", "invoices", "--to", to, ...more]
  )

/** Creates a destination with changes: every invoice has changed once. */
const withChanges = Effect.fnUntraced(function*(count: number) {
  const folder = yield* temporaryFolder
  const to = `sqlite:${join(folder, "payments.db")}`
  yield* exporting(to, count, 1)
  yield* exporting(to, count, 2)
  return { folder, to }
})

/** Runs `payments` on a destination. Returns its code, its lines on stderr, and the numbers of the printed changes. */
const run = Effect.fnUntraced(function*(from: string, ...args: ReadonlyArray<string>) {
  const { code, err, out } = yield* runInProcess(emptyApi, [...args, "--from", from])
  const seqs = out.split("\n").filter((line) => line.startsWith("{\"seq\"")).map((line) => Number(JSON.parse(line).seq))
  return { code, err, out, seqs }
})

const positionsIn = (from: string) =>
  Effect.map(
    run(from, "changes", "consumers"),
    ({ out }) =>
      out.trimEnd().split("\n").filter((line) => line !== "").map((line) => {
        const { consumer, lag, position } = JSON.parse(line)
        return [consumer, position, lag]
      })
  )

describe("payments changes --consumer", () => {
  it.live("continues after the acknowledged change, and without --ack moves nothing", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(3)
      for (let times = 0; times < 2; times++) {
        assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a")).seqs, [1, 2, 3])
      }
      assert.deepStrictEqual(yield* positionsIn(to), [])
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a", "--ack")).seqs, [1, 2, 3])
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 3, 0]])
      yield* exporting(to, 2, 3)
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 3, 2]])
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a", "--ack")).seqs, [4, 5])
      const nothing = yield* run(to, "changes", "--consumer", "a", "--ack")
      assert.deepStrictEqual([nothing.code, nothing.out, nothing.err], [0, "", "No changes.\n"])
    }).pipe(Effect.scoped))

  it.live("starts a new consumer where --after says", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(3)
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a", "--after", "1", "--ack")).seqs, [2, 3])
      const again = yield* run(to, "changes", "--consumer", "a", "--after", "1", "--ack")
      assert.deepStrictEqual([again.code, again.seqs], [0, []])
      assert.include(again.err, "payments: a continues after change 3. --after is only for a new consumer.\n")
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "b", "--after", "last", "--ack")).seqs, [])
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 3, 0], ["b", 3, 0]])
      const beyond = yield* run(to, "changes", "--consumer", "c", "--after", "4", "--ack")
      assert.deepStrictEqual([beyond.code, beyond.err], [2, "payments: there is no change 4 yet: the last one is 3.\n"])
    }).pipe(Effect.scoped))

  it.live("moves past the changes of lists that it does not print", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(3)
      const none = yield* run(to, "changes", "--consumer", "a", "--resource", "payin-sources", "--ack")
      assert.deepStrictEqual([none.code, none.seqs], [0, []])
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 3, 0]])
    }).pipe(Effect.scoped))

  it.live("with --follow, moves after each batch", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(2500)
      const moved: Array<unknown> = []
      const following = yield* Effect.forkChild(
        runInProcess(
          emptyApi,
          ["changes", "--from", to, "--consumer", "a", "--follow", "--ack"],
          false,
          0,
          () => Effect.asVoid(Effect.map(positionsIn(to), ([consumer]) => moved.push(consumer?.[1])))
        )
      )
      yield* Effect.repeat(Effect.delay(positionsIn(to), "20 millis"), {
        until: ([consumer]) => consumer?.[1] === 2500
      })
      yield* Fiber.interrupt(following)
      // Before each batch was written, the position was that of the batch before it.
      assert.deepStrictEqual(moved.filter((position) => position !== undefined), [0, 0, 1000, 2000])
    }).pipe(Effect.scoped))

  it.live("does not move if the reader of the output ends before the output is complete", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(3000)
      const { status, stdout } = spawnSync(
        "bash",
        [
          "-c",
          `"$0" "$1" changes --from "$2" --consumer a --ack | head -1; exit \${PIPESTATUS[0]}`,
          process.execPath,
          binary,
          to
        ],
        { encoding: "utf8" }
      )
      assert.deepStrictEqual([status, stdout.split("\n").length], [0, 2])
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 0, 3000]])
    }).pipe(Effect.scoped))

  it.live("moves after the output is in a file", () =>
    Effect.gen(function*() {
      const { folder, to } = yield* withChanges(1500)
      const file = join(folder, "changes.json")
      const { status } = spawnSync(
        "bash",
        [
          "-c",
          `"$0" "$1" changes --from "$2" --consumer a --ack --format json > "$3"`,
          process.execPath,
          binary,
          to,
          file
        ],
        { encoding: "utf8" }
      )
      assert.strictEqual(status, 0)
      assert.strictEqual(JSON.parse(readFileSync(file, "utf8")).length, 1500)
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 1500, 0]])
      // Nothing can be written to /dev/full.
      const full = spawnSync(
        "bash",
        ["-c", `"$0" "$1" changes --from "$2" --consumer b --ack > /dev/full`, process.execPath, binary, to],
        { encoding: "utf8" }
      )
      assert.strictEqual(full.status, 9)
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 1500, 0], ["b", 0, 1500]])
    }).pipe(Effect.scoped))

  it.live.each(
    [
      [["--ack"], "--ack needs --consumer NAME"],
      [["--consumer", "a", "--since", "24h"], "--since and --consumer exclude each other"],
      [["--consumer", "Mine"], "Invalid value for --consumer. Expected: a name of 1 to 40 characters"],
      [["--consumer", "a'; DROP TABLE changes"], "Invalid value for --consumer."],
      [["--consumer", "a".repeat(41)], "Invalid value for --consumer."],
      [["--after", "-1"], "Invalid value for --after. Expected: a whole number, 0 or more, or last"]
    ] as const
  )("refuses %s", ([args, problem]) =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(1)
      const { code, err, out } = yield* run(to, "changes", ...args)
      assert.deepStrictEqual([code, out], [2, ""])
      assert.include(err, problem)
    }).pipe(Effect.scoped))
})

describe("payments changes ack", () => {
  it.live("moves a consumer forward, and back only with --back", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(5)
      assert.strictEqual((yield* run(to, "changes", "ack", "a", "4")).code, 0)
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a")).seqs, [5])
      const stays = yield* run(to, "changes", "ack", "a", "2")
      assert.deepStrictEqual([stays.code, stays.err], [
        0,
        "payments: a stays after change 4. To move it back, use --back.\n"
      ])
      assert.strictEqual((yield* run(to, "changes", "ack", "a", "2", "--back")).code, 0)
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a")).seqs, [3, 4, 5])
      for (const args of [["a", "6", "--back"], ["b", "6"]]) {
        const beyond = yield* run(to, "changes", "ack", ...args)
        assert.deepStrictEqual([beyond.code, beyond.err], [
          2,
          "payments: there is no change 6 yet: the last one is 5.\n"
        ])
      }
      for (const [name, seq] of [["a", "1.5"], ["a", "x"], ["A", "1"]] as const) {
        assert.strictEqual((yield* run(to, "changes", "ack", name, seq)).code, 2)
      }
    }).pipe(Effect.scoped))
})

describe("payments changes consumers", () => {
  it.live("lists consumers, and removes one that is named", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(2)
      assert.deepStrictEqual((yield* run(to, "changes", "consumers")).err, "No consumers.\n")
      yield* run(to, "changes", "ack", "b", "1")
      yield* run(to, "changes", "ack", "a", "2")
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 2, 0], ["b", 1, 1]])
      assert.strictEqual((yield* run(to, "changes", "consumers", "--remove", "b")).out, "b: removed\n")
      assert.deepStrictEqual(yield* positionsIn(to), [["a", 2, 0]])
      const unknown = yield* run(to, "changes", "consumers", "--remove", "b")
      assert.deepStrictEqual([unknown.code, unknown.err], [2, "payments: There is no consumer b.\n"])
    }).pipe(Effect.scoped))
})

describe("payments prune", () => {
  it.live("prints what it removes, and which consumer holds the rest back", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(5)
      yield* run(to, "changes", "ack", "slow", "3")
      yield* run(to, "changes", "ack", "fast", "5")
      yield* Effect.sleep("5 millis")
      const dry = yield* run(to, "prune", "--keep-changes", "1ms", "--keep-scans", "1ms", "--dry-run")
      assert.deepStrictEqual(dry.out.split("\n"), [
        "changes: 3 would be removed, up to 3",
        "changes: older ones after 3 are kept for the consumer slow, which has read up to change 3",
        "scans: 1 would be removed",
        ""
      ])
      const pruned = yield* run(to, "prune", "--keep-changes", "1ms", "--keep-scans", "1ms")
      assert.strictEqual(pruned.out, dry.out.replaceAll("would be removed", "removed"))
      const again = yield* run(to, "prune", "--keep-changes", "90d")
      assert.deepStrictEqual([again.code, again.out], [0, "changes: 0 removed\n"])
      assert.strictEqual((yield* runInProcess(emptyApi, ["verify", "--from", to])).code, 0)
    }).pipe(Effect.scoped))

  it.live("makes a reader of removed changes fail instead of skipping them", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(5)
      yield* run(to, "changes", "ack", "a", "3")
      yield* Effect.sleep("5 millis")
      yield* run(to, "prune", "--keep-changes", "1ms")
      const gap = yield* run(to, "changes", "--after", "1")
      assert.deepStrictEqual([gap.code, gap.out, gap.err], [
        10,
        "",
        "payments: changes 2 to 3 were removed and cannot be read any more. Copy the rows again, then continue with --after 3.\n"
      ])
      for (const more of [[], ["--ack"]]) {
        const late = yield* run(to, "changes", "--consumer", "late", ...more)
        assert.deepStrictEqual([late.code, late.out], [10, ""])
        assert.include(late.err, "then continue with payments changes ack late 3.")
      }
      assert.deepStrictEqual((yield* run(to, "changes", "--after", "3")).seqs, [4, 5])
      assert.deepStrictEqual((yield* run(to, "changes", "--consumer", "a")).seqs, [4, 5])
      const ahead = yield* run(to, "changes", "--after", "6")
      assert.deepStrictEqual([ahead.code, ahead.err], [
        0,
        "payments: there is no change 6 yet: the last one is 5.\nNo changes.\n"
      ])
      // Without a position, what is left is printed.
      const rest = yield* run(to, "changes")
      assert.deepStrictEqual([rest.code, rest.seqs, rest.err], [0, [4, 5], "payments: changes up to 3 were removed.\n"])
      assert.include((yield* run(to, "changes", "--since", "1d")).err, "changes up to 3 were removed.")
      assert.strictEqual((yield* run(to, "changes", "--since", "1ms")).err, "No changes.\n")
    }).pipe(Effect.scoped))

  it.live("removes rows that have been missing for long, and old files, and renders the rest again", () =>
    Effect.gen(function*() {
      const to = `file:${join(yield* temporaryFolder, "out")}?format=csv`
      for (const count of [6, 3, 3]) yield* exporting(to, count, 1, "--missing-limit", "100%")
      yield* run(to, "changes", "ack", "slow", "0")
      yield* Effect.sleep("5 millis")
      const kept = yield* run(to, "prune", "--keep-missing", "1ms", "--keep-snapshots", "0", "--dry-run")
      assert.deepStrictEqual(kept.out.split("\n"), [
        "missing rows: 0 would be removed",
        "missing rows: others are kept for the consumer slow, which has read up to change 0",
        "files of old snapshots: 1 would be removed",
        ""
      ])
      yield* run(to, "changes", "consumers", "--remove", "slow")
      const { out } = yield* run(to, "prune", "--keep-missing", "1ms", "--keep-snapshots", "0", "--format", "json")
      assert.deepStrictEqual(JSON.parse(out), {
        dryRun: false,
        changes: null,
        scans: null,
        // The third missing row has the highest number.
        rows: { removed: 2, heldBack: [] },
        snapshots: { removedFiles: 1 },
        schemaVersion: 1
      })
      const files = readdirSync(to.slice("file:".length).split("?")[0] ?? "").filter((file) => file.endsWith(".csv"))
      assert.lengthOf(files, 1)
      const verified = yield* run(to, "verify")
      assert.strictEqual(verified.code, 0, verified.err)
    }).pipe(Effect.scoped))

  it.live("asks what to keep", () =>
    Effect.gen(function*() {
      const { to } = yield* withChanges(1)
      const { code, err } = yield* run(to, "prune")
      assert.deepStrictEqual([code, err], [
        2,
        "payments: There is nothing to remove: give --keep-changes, --keep-scans, --keep-missing or --keep-snapshots.\n"
      ])
      const none = yield* run(to, "prune", "--keep-snapshots", "0")
      assert.deepStrictEqual([none.code, none.err], [
        2,
        "payments: --keep-snapshots is for a folder of files (file:FOLDER). Other destinations have no snapshots.\n"
      ])
      assert.include((yield* run(to, "prune", "--keep-changes", "90")).err, "Invalid value for --keep-changes.")
    }).pipe(Effect.scoped))
})
