import { assert, describe, it } from "@effect/vitest"
import { records as generated, type SandboxOptions } from "@payments/sandbox"
import { Console, Effect, Random } from "effect"
import { createHash } from "node:crypto"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { payments, rowsOf, sandboxEnv, temporaryFolder } from "./Program.ts"

const size = 20_000
const kills = 10

const served = (seed: number): ReadonlyArray<string> => {
  const { length, textAt } = generated("payoutRequests", size, seed)
  return Array.from({ length }, (_, index) => textAt(index)).toSorted()
}

/** What a reader of the files finds: through the manifest, sizes and digests checked. */
const readFiles = (folder: string): ReadonlyArray<string> => {
  const manifest = JSON.parse(readFileSync(join(folder, "manifest.json"), "utf8")) as {
    readonly lists: Record<
      string,
      { readonly files: ReadonlyArray<{ readonly file: string; readonly sha256: string; readonly records: number }> }
    >
  } // held against its schema in packages/export
  return (manifest.lists["payout-requests"]?.files ?? []).flatMap(({ file, records, sha256 }) => {
    const content = readFileSync(join(folder, file))
    assert.strictEqual(createHash("sha256").update(content).digest("hex"), sha256)
    const lines = content.toString("utf8").split("\n").slice(0, -1)
    assert.strictEqual(lines.length, records)
    return lines
  })
}

const destinations = [
  [
    "sqlite",
    (folder: string) => `sqlite:${folder}/payments.db`,
    (folder: string) => join(folder, "payments.db"),
    (folder: string) =>
      rowsOf(join(folder, "payments.db"), "SELECT raw FROM payout_requests").map(({ raw }) => String(raw))
  ],
  [
    "file",
    (folder: string) => `file:${folder}/files?format=ndjson`,
    (folder: string) => join(folder, "files/copy.db"),
    (folder: string) => readFiles(join(folder, "files"))
  ]
] as const

describe("SIGKILL at ten random moments of an export of 20,000 records", () => {
  it.live.each(destinations)(
    "%s ends equal to what the API returned",
    ([, to, database, read]) =>
      Effect.gen(function*() {
        const seed = yield* Random.nextIntBetween(1, 1_000_000)
        yield* Console.log(`seed ${seed}`)
        yield* Effect.gen(function*() {
          const folder = yield* temporaryFolder
          const options: SandboxOptions = {
            records: size,
            seed,
            faults: [{ fault: "reset", rate: 0.01 }, { fault: "status", status: 500, rate: 0.01 }]
          }
          const env = yield* sandboxEnv(options)
          const args = ["export", "payout-requests", "--to", to(folder)]
          const midway = new Set<unknown>()
          let latestMs = 420
          for (let run = 0; run < kills || (midway.size < 3 && run < 4 * kills); run++) {
            const killAfterMs = yield* Random.nextIntBetween(120, Math.ceil(latestMs))
            const { signal } = yield* payments(args, { env, killAfterMs })
            const [scan] = existsSync(database(folder))
              ? rowsOf(database(folder), "SELECT scan, pages FROM scans WHERE state = 'running' AND pages > 0")
              : []
            if (signal === "SIGKILL" && scan !== undefined) midway.add(`${scan["scan"]}:${scan["pages"]}`)
            // A slow machine needs longer to get anywhere.
            else latestMs *= 1.3
          }
          yield* Console.log(`cut at scan:page ${[...midway].join(" ")}`)
          assert.isAtLeast(midway.size, 3, "too few kills hit a scan between its first and its last page")
          const last = yield* payments(args, { env })
          assert.strictEqual(last.code, 0, last.stderr)
          const [held, expected] = [read(folder).toSorted(), served(seed)]
          const differing = expected.findIndex((text, index) => held[index] !== text)
          assert.deepStrictEqual([held.length, differing], [expected.length, -1], `first difference at ${differing}`)
        }).pipe(Effect.scoped, Random.withSeed(seed))
      }),
    120_000
  )
})

describe("Ctrl-C", () => {
  it.live("ends an export with code 130 and a word on how to go on, which the next run does", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const env = yield* sandboxEnv({ records: 5000 })
      const args = ["export", "--to", `sqlite:${folder}/payments.db`]
      const file = join(folder, "payments.db")
      const cut = yield* payments(args, { env, interruptWhen: () => hasRows(file) })
      assert.deepStrictEqual([cut.code, cut.stdout], [130, ""])
      assert.strictEqual(cut.stderr, "payments: interrupted. What was committed is kept: run again to go on.\n")
      assert.strictEqual((yield* payments(args, { env })).code, 0)
      assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n FROM invoices"), [{ n: 5000 }])
    }).pipe(Effect.scoped))
})

const hasRows = (file: string): boolean => {
  try {
    return rowsOf(file, "SELECT 1 FROM invoices LIMIT 1").length > 0
  } catch {
    // Not there yet, or not yet ours.
    return false
  }
}
