/** Two merchants at one address: with another key, or with another sandbox at the same port. */
import { assert, describe, it } from "@effect/vitest"
import { Sandbox } from "@payments/sandbox"
import { freePort } from "@payments/testkit/FreePort"
import { payments, rowsOf, tables, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

/** Runs an effect while a sandbox listens at the port. */
const withSandbox = <A, E, R>(port: number, seed: number, use: Effect.Effect<A, E, R>) =>
  Effect.scoped(Effect.andThen(Layer.build(Sandbox.layer({ port, seed, records: 1234 })), use))

const contentOf = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).filter((file) => file.isFile()).map((file) => [
    file.name,
    createHash("sha256").update(readFileSync(join(file.parentPath, file.name))).digest("hex")
  ])

const counts = (file: string) => tables.map((table) => rowsOf(file, `SELECT count(*) AS n FROM ${table}`)[0]?.["n"])

/** The message about invoices of another merchant, which says what was written. */
const refusal = (written: string) =>
  new RegExp(
    `^payments: sqlite:p\\.db: its records belong to another merchant than those that this key reads\\. ${written}\\. .*its own destination.*PAYMENTS_ACCOUNT.*--rebind\\.\\n$`
  )

describe("an export of another merchant into the same file", () => {
  it.live.each([["another key", "sandbox_two"], ["the same key", "sandbox_one"]] as const)(
    "from the same address with %s: exits with code 9, prints one line and changes no byte",
    ([, key]) =>
      Effect.gen(function*() {
        const cwd = yield* temporaryFolder
        const port = yield* Effect.promise(freePort)
        const run = (given: string, args: ReadonlyArray<string> = []) =>
          payments(["export", "--to", "sqlite:p.db", ...args], {
            cwd,
            env: { PAYMENTS_BASE_URL: `http://127.0.0.1:${port}`, PAYMENTS_API_KEY: given }
          })
        assert.strictEqual((yield* withSandbox(port, 1, run("sandbox_one"))).code, 0)
        const before = contentOf(cwd)
        const refused = yield* withSandbox(port, 2, run(key))
        assert.strictEqual(refused.code, 9)
        assert.match(refused.stderr, refusal("Nothing was written"))
        assert.deepStrictEqual(contentOf(cwd), before)
        const verified = yield* payments(["verify", "--from", "sqlite:p.db"], { cwd })
        assert.strictEqual(verified.code, 0)
        // A new key of the same merchant is accepted.
        assert.strictEqual((yield* withSandbox(port, 1, run("sandbox_rotated"))).code, 0)
        const rebound = yield* withSandbox(port, 2, run(key, ["--rebind", "--missing-limit", "100%"]))
        assert.strictEqual(rebound.code, 0, rebound.stderr)
        assert.deepStrictEqual(counts(join(cwd, "p.db")), [2468, 2468, 2468])
      }).pipe(Effect.scoped)
  )

  it.live("is detected by the name in PAYMENTS_ACCOUNT", () =>
    Effect.gen(function*() {
      const cwd = yield* temporaryFolder
      const port = yield* Effect.promise(freePort)
      const run = (account: Readonly<Record<string, string>>) =>
        payments(["export", "invoices", "--to", "sqlite:p.db"], {
          cwd,
          env: { PAYMENTS_BASE_URL: `http://127.0.0.1:${port}`, PAYMENTS_API_KEY: "sandbox_one", ...account }
        })
      yield* withSandbox(
        port,
        1,
        Effect.gen(function*() {
          assert.strictEqual((yield* run({})).code, 0)
          const before = contentOf(cwd)
          const refused = yield* run({ PAYMENTS_ACCOUNT: "shopB" })
          assert.strictEqual(refused.code, 9)
          assert.include(refused.stderr, `not of http://127.0.0.1:${port}/, account shopB. `)
          assert.deepStrictEqual(contentOf(cwd), before)
        })
      )
    }).pipe(Effect.scoped))
})

describe("a key file that changes during an export", () => {
  /** A service that accepts the first key for two pages, and then only the second key, which belongs to this merchant. */
  const service = (keyFile: string, merchant: string) => {
    let pages = 0
    return scriptedServer((request, response) => {
      const isFirst = request.headers.authorization === "Bearer first"
      if (isFirst && pages === 2) {
        writeFileSync(keyFile, "second")
        response.writeHead(401).end()
        return
      }
      const page = Number(new URL(request.url ?? "", "http://a").searchParams.get("cursor") ?? 0)
      const [of, records] = [isFirst ? "a" : merchant, Array.from({ length: 10 }, (_, index) => page * 10 + index)]
      pages++
      const urlOf = (id: string) => `"id":"${id}","paymentUrl":"https://pay.example.com/pay/mer_${of}/${id}"`
      pageOf(response, records.map((index) => `{${urlOf(`inv_${of}_${index}`)}}`), page === 5 ? null : String(page + 1))
    })
  }
  const exported = Effect.fnUntraced(function*(merchant: string) {
    const cwd = yield* temporaryFolder
    const keyFile = join(cwd, "key")
    writeFileSync(keyFile, "first", { mode: 0o600 })
    const { url } = yield* service(keyFile, merchant)
    const ended = yield* payments(["export", "invoices", "--to", "sqlite:p.db"], {
      cwd,
      env: { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY_FILE: keyFile }
    })
    return { ...ended, ids: rowsOf(join(cwd, "p.db"), "SELECT id FROM invoices").map(({ id }) => String(id)) }
  })

  it.live("to a key of another merchant: exits with code 9 and stores none of that merchant's records", () =>
    Effect.gen(function*() {
      const { code, ids, stderr } = yield* exported("b")
      assert.strictEqual(code, 9)
      const written = "None of its pages was written. This run has committed pages before it: 20 records of invoices"
      assert.match(stderr, refusal(written))
      assert.strictEqual(ids.length, 20)
      assert.isTrue(ids.every((id) => id.startsWith("inv_a_")))
    }).pipe(Effect.scoped))

  it.live("to a new key of the same merchant: completes the export", () =>
    Effect.gen(function*() {
      const { code, ids, stderr } = yield* exported("a")
      assert.deepStrictEqual([code, ids.length], [0, 60], stderr)
    }).pipe(Effect.scoped))
})
