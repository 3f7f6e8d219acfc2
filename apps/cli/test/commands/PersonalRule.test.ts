/** The built program with a rule for personal data, against the sandbox over a socket. */
import { assert, describe, it } from "@effect/vitest"
import { payments, sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

const canary = "CANARY-5521"
const payout = (index: number, status: string) =>
  `{"id":"por_${index}","amount":${index},"status":"${status}","customerId":"${canary}-${index}",` +
  `"customerDetails":{"name":"${canary}","email":"${canary}@example.com","documentNumber":"${canary}"},"new":{"${canary}":1}}`
const invoice = (index: number, status: string) =>
  `{"id":"inv_${index}","amount":${index},"status":"${status}","customerDocumentNumber":"${canary}"}`
const lists = (status: string) => ({
  payoutRequests: Array.from({ length: 45 }, (_, index) => payout(index, status)),
  payinSources: [`{"id":"pis_1","customerDetails":"${canary}","reference":"kept"}`],
  invoices: Array.from({ length: 45 }, (_, index) => invoice(index, status))
})

const bytesIn = (folder: string): string =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile())
    .map((file) => readFileSync(join(file.parentPath, file.name), "latin1")).join("\n")

describe("an export with a rule for personal data", () => {
  it.live("writes and prints only what the rule leaves, and refuses another rule", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const destinations = [`sqlite:${join(folder, "payments.db")}`, `file:${join(folder, "copy")}?format=csv`]
      const environments = {
        open: yield* sandboxEnv({ lists: lists("open") }),
        paid: yield* sandboxEnv({ lists: lists("paid") })
      }
      const outputs: Array<string> = []
      const run = Effect.fnUntraced(function*(
        status: keyof typeof environments,
        args: ReadonlyArray<string>,
        personal = "omit"
      ) {
        const result = yield* payments(args, { env: { ...environments[status], PAYMENTS_PERSONAL: personal } })
        outputs.push(result.stdout, result.stderr)
        return result
      })
      const printed = yield* run("open", ["export", "payout-requests", "--to", "-"])
      assert.strictEqual(printed.code, 0, printed.stderr)
      assert.strictEqual(
        printed.stdout.split("\n")[3],
        `{"id":"por_3","amount":3,"status":"open","customerDetails":{}}`
      )
      for (const to of destinations) {
        for (const status of ["open", "paid"] as const) {
          const { code, stderr } = yield* run(status, ["export", "--to", to, "--rebind"])
          assert.strictEqual(code, 0, stderr)
        }
        const verified = yield* run("paid", ["verify", "--from", to, "--against-api"])
        assert.strictEqual(verified.code, 0, verified.stdout + verified.stderr)
        assert.match(verified.stdout, /certificate of scan \d+: 45 records under the rule "omit personal data"\n/)
        for (const command of [["export", "--to", to], ["verify", "--from", to, "--against-api"]]) {
          const { code, stderr } = yield* run("paid", command, "keep")
          assert.strictEqual(code, 9)
          assert.include(stderr, "payments rewrite")
        }
      }
      const keeping = `sqlite:${join(yield* temporaryFolder, "keeping.db")}`
      // Without a rule, the payin source is quarantined.
      assert.strictEqual((yield* run("paid", ["export", "--to", keeping], "keep")).code, 10)
      // The outputs of this command contain the canary, because one destination keeps it.
      const different = yield* payments(["diff", destinations[0] ?? "", keeping, "--format", "json"])
      assert.strictEqual(different.code, 11)
      assert.match(
        different.stderr.replaceAll(/\s+/g, " "),
        /different rules for personal data \(A: omit personal data; B: keep every field\), so records may differ/
      )
      const pseudonyms: Array<string> = []
      for (const key of ["a", "b"]) {
        pseudonyms.push(`sqlite:${join(folder, `${key}.db`)}`)
        const env = { ...environments.paid, PAYMENTS_PERSONAL: "pseudonymize", PAYMENTS_PERSONAL_KEY: key.repeat(32) }
        assert.strictEqual((yield* payments(["export", "--to", pseudonyms.at(-1) ?? ""], { env })).code, 0)
      }
      const keys = yield* payments(["diff", ...pseudonyms, "--format", "json"])
      outputs.push(keys.stdout, keys.stderr)
      assert.strictEqual(keys.code, 11)
      assert.include(keys.stderr.replaceAll(/\s+/g, " "), "have pseudonyms of different personal keys")
      assert.notInclude(outputs.join("\n"), canary)
      assert.notInclude(bytesIn(folder), canary)
      assert.include(bytesIn(join(folder, "copy")), "por_44")
    }).pipe(Effect.scoped))
})
