/** The tools of `payments mcp` read the copy as it was at an earlier point, and leave the same fields out. */
import { assert, describe, it } from "@effect/vitest"
import { Questions } from "@payments/copy"
import { Lists } from "@payments/core"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { connect } from "@payments/testkit/programs/McpClient"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const invoice = (id: string, status: string, amount: number) =>
  `{"id":"${id}","status":"${status}","amount":${amount},"reference":"ref-${id}","customerDocumentNumber":"doc-${id}"}`

const exported = Effect.fnUntraced(function*(kind: string) {
  const folder = yield* temporaryFolder
  const to = kind === "sqlite"
    ? `sqlite:${folder}/p.db`
    : `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=${folder.slice(-6).toLowerCase()}`
  const exportOf = (invoices: ReadonlyArray<string>) => runInProcess(layerTest({ invoices }), ["export", "--to", to])
  yield* exportOf([invoice("a", "paid", 9_007_199_254_740_991), invoice("b", "paid", 20)])
  yield* exportOf([invoice("a", "void", 1), invoice("b", "paid", 300), invoice("c", "paid", 4000)])
  return to
})

const sql = "SELECT id, status, amount FROM invoices ORDER BY id"

describe.each(["sqlite", "postgres"])("payments mcp with at, from %s", (kind) => {
  it.live.each(["omit", "pseudonymize", "include"])(
    "answers as then, with --personal %s",
    (personal) =>
      Effect.gen(function*() {
        const connection = yield* connect(["--from", yield* exported(kind), "--personal", personal])
        const call = (tool: string, given: Readonly<Record<string, unknown>>) =>
          Effect.promise(() => connection.call(tool, given))
        const then = yield* call("query", { sql, at: "0" })
        assert.deepStrictEqual(then.data, [["a", "paid", 9_007_199_254_740_991], ["b", "paid", 20]])
        assert.isTrue(then.complete)
        assert.include(then.notes.join(), "The rows are those after change 0.")
        const sum = yield* call("ask", { question: "invoices-by-status", at: "0" })
        // A number that JSON would round is text.
        assert.deepStrictEqual(sum.data, [["paid", 2, "9007199254741011", 0, null, 2]])
        const { data } = yield* call("query", { sql })
        assert.deepStrictEqual(data, [["a", "void", 1], ["b", "paid", 300], ["c", "paid", 4000]])
        const page = yield* call("query", { sql, at: "0", limit: 1 })
        assert.deepStrictEqual(page.next?.arguments, { sql, at: "0", limit: 1, offset: 1 })
        const found = yield* call("find", { text: "void", at: "0" })
        assert.deepStrictEqual([found.data, found.complete], [[], true])
        assert.strictEqual((yield* call("find", { text: "void" })).returned, 1)
        const { tools } = yield* Effect.promise(() => connection.client.listTools())
        const ask = tools.find(({ name }) => name === "ask")
        const shown = Questions.questions.filter(({ fields, list }) =>
          personal !== "omit" || fields.every((field) => !Lists.personalFields(list).includes(field))
        )
        // A new question is offered without a change here.
        for (const { description, name } of shown) assert.include(ask?.description, `${name}: ${description}`)
        assert.deepStrictEqual(
          ask?.inputSchema.properties?.["question"],
          { type: "string", enum: shown.map(({ name }) => name) }
        )
        const changes = yield* call("query", { sql: "SELECT count(*) FROM changes", at: "1" })
        assert.deepStrictEqual(changes.data, [[1]])
      }).pipe(Effect.scoped)
  )

  it.live("takes the number of a change as a number, too", () =>
    Effect.gen(function*() {
      const { call, client, textOf } = yield* connect(["--from", yield* exported(kind)])
      const { tools } = yield* Effect.promise(() => client.listTools())
      for (
        const [tool, given] of Object.entries({
          query: { sql },
          ask: { question: "invoices-by-status" },
          find: { text: "a" }
        })
      ) {
        const [asNumber, asText] = yield* Effect.promise(() =>
          Promise.all([call(tool, { ...given, at: 0 }), call(tool, { ...given, at: "0" })])
        )
        assert.deepStrictEqual(asNumber.data, asText.data)
        const schema = tools.find(({ name }) => name === tool)?.inputSchema.properties?.["at"] as
          | { readonly anyOf?: ReadonlyArray<{ readonly type: string }> } // the schema of a union
          | undefined
        assert.deepStrictEqual(schema?.anyOf?.map(({ type }) => type), ["string", "integer"])
        for (const at of [-1, 0.5, true]) {
          const refused = yield* Effect.promise(() => textOf(tool, { ...given, at }))
          assert.deepStrictEqual([refused.isError, refused.text.includes("at: ")], [true, true], refused.text)
        }
      }
      const page = yield* Effect.promise(() => call("query", { sql, at: 0, limit: 1 }))
      assert.deepStrictEqual(page.next?.arguments, { sql, at: 0, limit: 1, offset: 1 })
    }).pipe(Effect.scoped))

  it.live("leaves out what it leaves out of the current rows, and says what is no point", () =>
    Effect.gen(function*() {
      const from = yield* exported(kind)
      const { call, textOf } = yield* connect(["--from", from])
      const refusal = (tool: string, given: Readonly<Record<string, unknown>>) =>
        Effect.map(Effect.promise(() => textOf(tool, given)), ({ isError, text }) => {
          assert.isTrue(isError, text)
          return text
        })
      for (
        const [tool, given, words] of [
          ["query", { sql: "SELECT customer_document_number FROM invoices", at: "0" }, "identifies a person"],
          ["query", { sql: "SELECT raw FROM invoices", at: "0" }, "raw is left out"],
          ["ask", { question: "invoices-by-customer", at: "0" }, "identifies a person"],
          ["query", { sql, at: "99" }, "the last one is"],
          ["query", { sql, at: "soon" }, "Invalid value for at"],
          ["query", { sql, at: "2099-01-01" }, "has not ended yet"],
          ["query", { sql, at: "2001-01-01" }, "The first point that can be reconstructed"],
          ["find", { text: "void", at: "0", where: "api" }, "only the copy has a history"]
        ] as const
      ) {
        const text = yield* refusal(tool, given)
        assert.include(text, words)
        assert.notInclude(text, "doc-a")
      }
      const { data } = yield* Effect.promise(() => call("find", { text: "doc-a", at: "0" }))
      assert.deepStrictEqual(data, [])
      const pseudonymizing = yield* connect(["--from", from, "--personal", "pseudonymize"])
      const person = yield* Effect.promise(() =>
        pseudonymizing.call("query", { sql: "SELECT customer_document_number FROM invoices WHERE id = 'a'", at: "0" })
      )
      assert.match(JSON.stringify(person.data), /^\[\["ps1_[0-9a-f]{32}"\]\]$/)
    }).pipe(Effect.scoped))
})
