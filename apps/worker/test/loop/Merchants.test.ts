/** A worker whose API key is replaced by another key of the same merchant, or by a key of another merchant. */
import { assert, describe, it } from "@effect/vitest"
import { Lists } from "@payments/core"
import { rowsOf, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect } from "effect"
import { renameSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { startWorker } from "./RunningWorker.ts"

/** A service that returns the records of a key's merchant; a key is `key_of_MERCHANT`. It refuses the keys in `refused`. */
const service = (refused: Set<string>) =>
  scriptedServer((request, response) => {
    const key = request.headers.authorization?.slice("Bearer ".length) ?? ""
    if (refused.has(key)) return void response.writeHead(401).end()
    const [, merchant = ""] = /^key\d*_of_(.*)$/.exec(key) ?? []
    const records = Array.from({ length: 5 }, (_, index) => {
      const id = `${merchant}_${key}_${index}`
      return JSON.stringify({ id, paymentUrl: `https://pay.example.com/pay/${merchant}/${id}` })
    })
    const isInvoices = request.url?.startsWith("/v1/") === true
    pageOf(response, isInvoices ? records : records.map((text) => text.replace(/,"paymentUrl":"[^"]*"/, "")), null)
  })

const workerAt = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const [file, keyFile] = [join(folder, "p.db"), join(folder, "key")]
  const refused = new Set<string>()
  const { url } = yield* service(refused)
  const rotate = (from: string, to: string) => {
    // The worker may read the file at any moment.
    writeFileSync(`${keyFile}.new`, to, { mode: 0o600 })
    renameSync(`${keyFile}.new`, keyFile)
    refused.add(from)
  }
  rotate("", "key1_of_a")
  const running = yield* startWorker(["--to", `sqlite:${file}`, "--every", "1s", "--missing-limit", "100%"], {
    PAYMENTS_BASE_URL: url,
    PAYMENTS_API_KEY_FILE: keyFile
  })
  yield* running.untilLogged("scan complete", Lists.all.length)
  return { file, rotate, running }
})

describe("a worker", () => {
  it.live("continues with a new key of the same merchant, although all records are new", () =>
    Effect.gen(function*() {
      const { file, rotate, running } = yield* workerAt
      rotate("key1_of_a", "key2_of_a")
      const counts = () => tables.map((table) => rowsOf(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"])
      while (counts().some((count) => count !== 10)) {
        running.assertRuns()
        yield* Effect.sleep("50 millis")
      }
      assert.deepStrictEqual(running.log("scan failed"), [])
      assert.deepStrictEqual(yield* running.end("SIGTERM"), [0, null])
    }).pipe(Effect.scoped))

  it.live("exits with code 9 and writes nothing if the new key belongs to another merchant", () =>
    Effect.gen(function*() {
      const { file, rotate, running } = yield* workerAt
      rotate("key1_of_a", "key_of_b")
      assert.deepStrictEqual(yield* running.ended, [9, null])
      const [failed] = running.log("scan failed")
      assert.deepInclude(failed?.annotations, { reason: "OtherMerchant", exitCode: 9 })
      assert.notInclude(running.out(), "key_of_b")
      for (const table of tables) {
        assert.deepStrictEqual(rowsOf(file, `SELECT 1 FROM ${table} WHERE id LIKE 'b_%'`), [], table)
      }
    }).pipe(Effect.scoped))
})
