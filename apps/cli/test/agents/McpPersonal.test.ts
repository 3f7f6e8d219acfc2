/**
 * Attacks on the fields that `payments mcp` leaves out. A value that is left out must not appear in any answer. Nor may an answer
 * depend on it: otherwise an agent could guess it, and see whether the guess is right.
 */
import { assert, describe, it } from "@effect/vitest"
import { pseudonym } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { type Arguments, connect, type Connection } from "@payments/testkit/programs/McpClient"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { pageOf, scriptedServer } from "@payments/testkit/ScriptedServer"
import { smallFileSystem } from "@payments/testkit/SmallFileSystem"
import { execFileSync } from "@payments/testkit/TestProcess"
import { ConfigProvider, Effect, Redacted, Schedule } from "effect"
import { createHash } from "node:crypto"
import { mkdirSync, readdirSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

/** The values that are left out. */
const hidden = {
  document: "4433221100",
  name: "CANARYNAME",
  email: "canary@example.com",
  customer: "cus_canary",
  contract: "con_canary",
  target: "tgt_canary",
  secretUrl: "https://canary.example/auth?token=1",
  undocumented: "CANARYRISK",
  nested: "CANARYNESTED",
  old: "CANARYOLD",
  quarantined: "CANARYBAD"
}
const wrong = "9999999999"

const customerDetails = { name: hidden.name, documentNumber: hidden.document, email: hidden.email, documentType: "cc" }
const invoice = {
  id: "inv_1",
  reference: "ref-1",
  status: "paid",
  amount: 5,
  description: hidden.name,
  contract: hidden.contract,
  customerDocumentNumber: hidden.document,
  // Undocumented fields.
  risk: hidden.undocumented,
  [hidden.nested]: 1
}
const records = {
  payoutRequests: [JSON.stringify({
    id: "out_1",
    reference: "ref-1",
    customerId: hidden.customer,
    customerDetails,
    payoutTargetId: hidden.target,
    payoutTargetDetails: { reference: hidden.target, description: hidden.name, type: "bankAccount" },
    amount: 7,
    fee: hidden.quarantined
  })],
  payinSources: [JSON.stringify({
    id: "src_1",
    customerId: hidden.customer,
    customerDetails: { ...customerDetails, more: { [hidden.nested]: hidden.nested } },
    description: hidden.name,
    authUrl: hidden.secretUrl,
    // A documented field of another type could contain anything.
    status: { [hidden.quarantined]: hidden.quarantined }
  })],
  invoices: [JSON.stringify(invoice), JSON.stringify({ id: "inv_2", reference: "ref-2", amount: 1 })]
}
const before = {
  ...records,
  invoices: [
    JSON.stringify({ ...invoice, contract: hidden.old, status: "pending", [hidden.nested]: 0 }),
    ...records.invoices.slice(1)
  ]
}

/** Fills a copy. The second export finds an update of an invoice: of two documented fields and one with a hidden name. */
const filled = Effect.fnUntraced(function*(to: string) {
  for (const data of [before, records]) yield* runInProcess(layerTest(data), ["export", "--to", to])
  return to
})

const requireHidden = (text: string, what: string) => {
  for (const value of Object.values(hidden)) assert.notInclude(text.toLowerCase(), value.toLowerCase(), what)
}

/** Fails if the answer has a hidden value, or is another one for a wrong guess. */
const attack = async ({ textOf }: Connection, tool: string, withGuess: (guess: string) => Arguments) => {
  const what = JSON.stringify([tool, withGuess("GUESS")])
  const right = await textOf(tool, withGuess(hidden.document))
  // The call repeats its own arguments in \`next\`.
  const masked = right.text.replaceAll(hidden.document, "GUESS")
  requireHidden(masked, what)
  if (JSON.stringify(withGuess(wrong)) === JSON.stringify(withGuess(hidden.document))) return
  const other = await textOf(tool, withGuess(wrong))
  assert.deepStrictEqual([right.isError, masked], [other.isError, other.text.replaceAll(wrong, "GUESS")], what)
}

const hash = createHash("sha256").update(records.invoices[0] ?? "").digest("hex")

/** Statements that reach for hidden values. Those for PostgreSQL would work if they ran in that database. */
const statements: ReadonlyArray<(guess: string) => string> = [
  () => "SELECT * FROM invoices, payout_requests, payin_sources, changes",
  () => "SELECT raw FROM invoices",
  () => "SELECT i.raw FROM main.invoices AS i",
  () => "SELECT * FROM destination.invoices",
  () => "SELECT customer_document_number FROM invoices",
  () => `SELECT "customer_document_number" FROM invoices`,
  () => "SELECT [raw] FROM invoices",
  (guess) => `SELECT count(*) FROM invoices WHERE customer_document_number = '${guess}'`,
  (guess) => `SELECT count(*) FROM invoices NATURAL JOIN (SELECT '${guess}' AS customer_document_number)`,
  (guess) => `SELECT count(*) FROM main.invoices NATURAL JOIN (SELECT '${guess}' AS customer_document_number)`,
  (guess) =>
    `SELECT count(*) FROM invoices JOIN (SELECT '${guess}' AS customer_document_number) USING (customer_document_number)`,
  (guess) => `SELECT id FROM invoices ORDER BY customer_document_number = '${guess}'`,
  (guess) => `SELECT id FROM invoices GROUP BY id HAVING max(customer_document_number) LIKE '${guess.slice(0, 2)}%'`,
  () => `SELECT count(*) FROM invoices WHERE hash = '${hash}'`,
  () => "SELECT json_extract(raw, '$.customerDocumentNumber') FROM invoices",
  () => "SELECT e.value FROM invoices AS i, json_each(i.raw) AS e",
  () => "SELECT before, after FROM changes",
  () => "SELECT fields FROM changes",
  () => "SELECT raw FROM quarantine",
  () => "SELECT * FROM scans",
  () => "SELECT * FROM invoices_seen",
  () => "SELECT * FROM known_merchants",
  () => "SELECT sql FROM sqlite_schema",
  () => "SELECT * FROM pragma_database_list",
  () => "SELECT * FROM dbstat",
  () => "WITH invoices AS (SELECT raw FROM main.invoices) SELECT * FROM invoices",
  () => "SELECT (SELECT raw FROM invoices LIMIT 1)",
  () => "SELECT id FROM invoices UNION SELECT contract FROM invoices",
  () => "SELECT load_extension('x')",
  () => "SELECT readfile('p.db')",
  () => "ATTACH 'p.db' AS other",
  () => "SELECT 1; ATTACH 'p.db' AS other",
  () => "SELECT query_to_xml('SELECT raw FROM invoices', true, true, '')",
  () => "SELECT * FROM pg_stats",
  () => "SELECT $1"
]

const calls: ReadonlyArray<readonly [string, (guess: string) => Arguments]> = [
  ...["copy", "api"].map((where) => ["find", (text: string) => ({ text, where })] as const),
  ...["reference", "customerDocumentNumber", "contract", "customerId"].map((field) =>
    ["list", (guess: string) => ({ list: "invoices", filters: { [field]: guess } })] as const
  ),
  ["list", (guess) => ({ list: "payout-requests", filters: { customerId: guess } })],
  ["list", (guess) => ({ list: "invoices", continue: guess })],
  ["ask", () => ({ question: "invoices-by-customer" })],
  ["ask", () => ({ question: "payouts-by-customer" })],
  ["changes", () => ({})],
  ["status", () => ({})],
  ["list", () => ({ list: "payout-requests" })],
  ["list", () => ({ list: "payin-sources" })],
  ["list", () => ({ list: "invoices" })],
  ["find", () => ({ text: "ref-1" })],
  ["find", () => ({ text: "ref-1", where: "api" })]
]

/** A service with the records that filters by every parameter. */
const served = Effect.map(
  scriptedServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost")
    const list = pathname.endsWith("invoices")
      ? records.invoices
      : pathname.endsWith("payoutRequests")
      ? records.payoutRequests
      : records.payinSources
    const items = list.map((text) => JSON.parse(text) as Readonly<Record<string, unknown>>).filter((record) =>
      // objects
      [...searchParams].every(([name, value]) => name === "limit" || record[name] === value)
    )
    pageOf(response, items.map((item) => JSON.stringify(item)), null)
  }),
  ({ url }) => ({ PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "key" })
)

/** Calls a tool that fails. */
const failureOf = async ({ client }: Connection, sql: string) => {
  const { content, isError, structuredContent } = await client.callTool({ name: "query", arguments: { sql } })
  assert.isTrue(isError)
  assert.isUndefined(structuredContent)
  const [{ text }] = content as readonly [{ readonly text: string }] // as the server promises
  return JSON.parse(text) as { readonly complete: boolean; readonly error: { readonly message: string } } // by toErrorResult
}

/** The files that a process has open, with their paths. */
const openFilesOf = (pid: number): ReadonlyArray<string> => {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).flatMap((name) => {
    try {
      return [readlinkSync(join(folder, name))]
    } catch {
      return [] // closed meanwhile
    }
  })
}

const killIfRunning = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // It has ended with its parent.
  }
}

const changed = {
  list: "invoices",
  change: "update",
  id: "inv_1",
  // The name of an undocumented field may be text of a customer.
  fields: ["status", "contract", "(undocumented)"],
  before: { status: "pending" },
  after: { status: "paid" }
}

describe("the fields that payments mcp leaves out", () => {
  it.live("cannot be read or guessed with any tool", () =>
    Effect.gen(function*() {
      const to = yield* filled(`sqlite:${yield* temporaryFolder}/p.db`)
      const connection = yield* connect(["--from", to], yield* served)
      yield* Effect.forEach(
        [...calls, ...statements.map((sql) => ["query", (guess: string) => ({ sql: sql(guess) })] as const)],
        ([tool, withGuess]) => Effect.promise(() => attack(connection, tool, withGuess)),
        { concurrency: 4 }
      )
      const { data } = yield* Effect.promise(() => connection.call("changes", {}))
      assert.deepInclude(data[0], changed)
      // A NATURAL JOIN compares columns that it does not name, here those with null. By the id alone, it would find two rows.
      const natural = "SELECT count(*) FROM invoices AS a NATURAL JOIN invoices AS b"
      assert.deepStrictEqual((yield* Effect.promise(() => connection.call("query", { sql: natural }))).data, [[0]])
      assert.include(connection.client.getInstructions(), "are left out")
      const found = yield* Effect.promise(() => connection.call("find", { text: hidden.document }))
      assert.strictEqual(found.total, 0)
      assert.include(found.notes, "Fields that are left out were not searched: there may be more records.")
      const list = yield* Effect.promise(() => connection.call("list", { list: "payout-requests" }))
      assert.deepStrictEqual(list.data, [{
        id: "out_1",
        reference: "ref-1",
        customerDetails: { documentType: "cc" },
        payoutTargetDetails: { type: "bankAccount" },
        amount: 7
      }])
      assert.strictEqual(connection.stderr(), "")
    }).pipe(Effect.scoped))

  it.live("cannot be read or guessed from PostgreSQL", () =>
    Effect.gen(function*() {
      const to = yield* filled(`postgres://${user}@127.0.0.1:${server.port}/postgres?schema=mcp`)
      const connection = yield* connect(["--from", to])
      yield* Effect.forEach(
        [
          ["find", (text: string) => ({ text })] as const,
          ...statements.filter((sql) => /SELECT raw FROM invoices|main.*NATURAL|pg_|query_to_xml|before/.test(sql("")))
            .map((sql) => ["query", (guess: string) => ({ sql: sql(guess) })] as const)
        ],
        ([tool, withGuess]) => Effect.promise(() => attack(connection, tool, withGuess)),
        { concurrency: 4 }
      )
      const { data } = yield* Effect.promise(() =>
        connection.call("query", {
          sql: `SELECT i.id, i.amount, i.missing_since, i.changed_at LIKE '20__-__-__T__:__:__.___Z' AS is_time, c.kind
            FROM invoices AS i LEFT JOIN changes AS c ON c.id = i.id ORDER BY i.id`
        })
      )
      assert.deepStrictEqual(data, [["inv_1", 5, null, 1, "update"], ["inv_2", 1, null, 1, null]])
    }).pipe(Effect.scoped))

  it.live.each(["sqlite", "postgres"])(
    "are pseudonyms with --personal pseudonymize, which confirm no guess, from %s",
    (kind) =>
      Effect.gen(function*() {
        const to = yield* filled(
          kind === "sqlite"
            ? `sqlite:${yield* temporaryFolder}/p.db`
            : `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=pseudonyms`
        )
        const key = "k".repeat(40)
        const connection = yield* connect(["--from", to, "--personal", "pseudonymize"], {
          ...(yield* served),
          PAYMENTS_PERSONAL_KEY: key
        })
        const wanted = kind === "sqlite"
          ? statements
          : statements.filter((sql) => /customer_document|before/.test(sql("")))
        yield* Effect.forEach(
          [
            ...calls,
            ...[
              ...wanted,
              (guess: string) => `SELECT payments_pseudonym('${guess}')`,
              (guess: string) =>
                `SELECT count(*) FROM invoices WHERE customer_document_number = payments_pseudonym('${guess}')`
            ].map((sql) => ["query", (guess: string) => ({ sql: sql(guess) })] as const)
          ],
          ([tool, withGuess]) => Effect.promise(() => attack(connection, tool, withGuess)),
          { concurrency: 4 }
        )
        const ask = (sql: string) =>
          Effect.map(Effect.promise(() => connection.call("query", { sql })), ({ data }) => data)
        const pseudonymed = pseudonym(Redacted.make(Buffer.from(key)), hidden.customer)
        // Equal values have equal pseudonyms in every tool and table: those of the personal key.
        assert.deepStrictEqual(
          yield* ask(
            "SELECT p.customer_id, s.customer_id FROM payout_requests AS p JOIN payin_sources AS s USING (customer_id)"
          ),
          [[pseudonymed, pseudonymed]]
        )
        const { data: [first] } = yield* Effect.promise(() =>
          connection.call("ask", { question: "payouts-by-customer" })
        )
        assert.deepStrictEqual(first, [pseudonymed, 1, 7, 0, null, 1, null, 1])
        const listed = yield* Effect.promise(() => connection.call("list", { list: "payout-requests" }))
        assert.deepInclude(listed.data[0], { customerId: pseudonymed })
        const { data: changes } = yield* Effect.promise(() => connection.call("changes", {}))
        assert.match(JSON.stringify(changes[0]), /"before":\{[^}]*"contract":"ps1_[0-9a-f]{32}"/)
        assert.strictEqual(connection.stderr(), "")
      }).pipe(Effect.scoped)
  )

  it.live(
    "are named as left out, with what shows them, and pseudonyms of a server without a key are its own",
    () =>
      Effect.gen(function*() {
        const to = yield* filled(`sqlite:${yield* temporaryFolder}/p.db`)
        const connection = yield* connect(["--from", to])
        const textOf = (tool: string, given: Arguments) =>
          Effect.map(Effect.promise(() => connection.textOf(tool, given)), ({ text }) => text)
        const offer = "payments mcp --personal pseudonymize"
        for (
          const [sql, ...words] of [
            [
              "SELECT customer_id FROM payout_requests",
              "customer_id is left out because it identifies a person",
              offer
            ],
            [
              "SELECT p.customer_id FROM payout_requests p",
              "customer_id is left out because it identifies a person",
              offer
            ],
            ["SELECT customerId FROM payout_requests", "customer_id is left out because it identifies a person", offer],
            ["SELECT customerDetails.name FROM payout_requests", "customer_details_name is left out", offer],
            ["SELECT CUSTOMER_ID FROM payout_requests", "customer_id is left out", offer],
            ["SELECT raw FROM invoices", "raw is left out because it has every field"],
            ["SELECT * FROM Quarantine", "This tool does not offer quarantine"],
            ["SELECT amout FROM invoices", "Did you mean amount?"],
            ["SELEC 1", "Did you mean SELECT?"]
          ] as const
        ) {
          const text = yield* textOf("query", { sql })
          for (const word of words) assert.include(text, word, sql)
        }
        const question = yield* textOf("ask", { question: "payouts-by-customer" })
        assert.include(question, "payouts-by-customer")
        assert.include(question, "Left out, because they group by a field that identifies a person")
        assert.include(question, offer)
        const { tools } = yield* Effect.promise(() => connection.client.listTools())
        for (const name of ["query", "ask"]) {
          assert.include(tools.find((tool) => tool.name === name)?.description, offer)
        }
        const customers = yield* Effect.forEach([1, 2], () =>
          Effect.flatMap(connect(["--from", to, "--personal", "pseudonymize"]), ({ call }) =>
            Effect.promise(async () => {
              const sql = "SELECT customer_id FROM payout_requests"
              const [{ data: one }, { data: other }] = [await call("query", { sql }), await call("query", { sql })]
              assert.deepStrictEqual(one, other)
              return JSON.stringify(one)
            })))
        assert.match(customers[0] ?? "", /^\[\["ps1_[0-9a-f]{32}"\]\]$/)
        assert.notStrictEqual(customers[0], customers[1])
      }).pipe(Effect.scoped)
  )

  it.live("are not empty values of the service if the copy leaves them out", () =>
    Effect.gen(function*() {
      const to = `sqlite:${yield* temporaryFolder}/p.db`
      yield* runInProcess(layerTest(records), ["export", "--to", to]).pipe(
        Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord({ PAYMENTS_PERSONAL: "omit" })))
      )
      for (const personal of ["include", "pseudonymize"]) {
        const { call, textOf } = yield* connect(["--from", to, "--personal", personal])
        const [byCustomer, byStatus, documents, statuses] = yield* Effect.promise(() =>
          Promise.all([
            textOf("ask", { question: "invoices-by-customer" }),
            call("ask", { question: "invoices-by-status" }),
            call("query", { sql: "SELECT customer_document_number FROM invoices" }),
            call("query", { sql: "SELECT status FROM invoices" })
          ])
        )
        const note = "The copy leaves customer_document_number out, by its rule for personal data: "
        assert.isTrue(documents.notes.some((text) => text.startsWith(note)))
        assert.isTrue(byCustomer.isError)
        assert.include(byCustomer.text, "invoices-by-customer needs customerDocumentNumber, which the copy leaves out")
        for (const { notes } of [byStatus, statuses]) assert.notInclude(notes.join(), "The copy leaves")
      }
    }).pipe(Effect.scoped))

  it.live("leave no file, and a full disk is an error of the call only", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const invoices = Array.from({ length: 400 }, (_, index) =>
        JSON.stringify({ id: `i${index}`, reference: "r".repeat(20_000) }))
      const places = [`sqlite:${folder}/p.db`, `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=full`]
      for (const to of places) {
        yield* runInProcess(layerTest({ invoices }), ["export", "--to", to])
      }
      const small = yield* smallFileSystem(2048)
      for (const to of small === undefined ? [] : places) {
        const connection = yield* connect(["--from", to], { TMPDIR: small?.folder ?? "" })
        const failures = yield* Effect.promise(() =>
          Promise.all([
            // The excerpt does not fit.
            failureOf(connection, "SELECT id, reference FROM invoices"),
            // Sorting does not fit.
            failureOf(
              connection,
              "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT hex(zeroblob(9999)) FROM n ORDER BY 1"
            )
          ])
        )
        for (const { complete, error } of failures) {
          assert.isFalse(complete)
          assert.include(error.message, "the folder for temporary files (TMPDIR): there is no space left.")
        }
        const { data } = yield* Effect.promise(() =>
          connection.call("query", { sql: "SELECT count(*) FROM invoices" })
        )
        assert.deepStrictEqual(data, [[400]])
        assert.deepStrictEqual(readdirSync(small?.folder ?? ""), [])
        assert.strictEqual(connection.stderr(), "")
      }
      // A limit of the size of files.
      const limited = yield* connect(["--from", places[0] ?? ""], { TMPDIR: folder }, "ulimit -f 2000")
      const { error } = yield* Effect.promise(() => failureOf(limited, "SELECT id, reference FROM invoices"))
      assert.include(error.message, "it cannot be read or written")
      // A query that is killed while its database is on the disk.
      const temporary = join(folder, "temporary")
      mkdirSync(temporary)
      const killed = yield* connect(["--from", places[0] ?? ""], { TMPDIR: temporary })
      const query = killed.client.callTool({
        name: "query",
        arguments: {
          sql:
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(reference) FROM n, invoices"
        }
      }).catch(() => undefined)
      const pid = killed.transport.pid ?? 0
      const children = () =>
        execFileSync("ps", ["-A", "-o", "pid=,ppid="], { encoding: "utf8" }).split("\n")
          .flatMap((line) => Number(line.trim().split(/ +/)[1]) === pid ? [Number(line.trim().split(/ +/)[0])] : [])
      yield* Effect.repeat(Effect.sync(children), {
        until: ([child]) => {
          const files = child === undefined ? [] : openFilesOf(child).filter((file) => file.startsWith(temporary))
          // The program removes the name of a file right after it opens it.
          return files.length > 0 && files.every((file) => file.endsWith(" (deleted)"))
        },
        schedule: Schedule.spaced("20 millis")
      })
      for (const child of [pid, ...children()]) killIfRunning(child)
      yield* Effect.promise(() => query)
      assert.deepStrictEqual(readdirSync(temporary), [])
    }).pipe(Effect.scoped))

  it.live.each(["sqlite", "postgres"])(
    "are there with --personal include, with every undocumented field, from %s",
    (kind) =>
      Effect.gen(function*() {
        const to = yield* filled(
          kind === "sqlite"
            ? `sqlite:${yield* temporaryFolder}/p.db`
            : `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=included`
        )
        const { call } = yield* connect(["--from", to, "--personal", "include"], yield* served)
        const [found, listed, queried, changes, asked, updated] = yield* Effect.promise(() =>
          Promise.all([
            call("find", { text: hidden.document }),
            call("list", { list: "invoices", filters: { customerDocumentNumber: hidden.document } }),
            call("query", { sql: "SELECT raw FROM invoices WHERE id = 'inv_1'" }),
            call("changes", {}),
            call("ask", { question: "invoices-by-customer" }),
            call("query", { sql: "SELECT before ->> '$.contract', fields ->> '$[0]' FROM changes" })
          ])
        )
        assert.strictEqual(found.total, 3)
        assert.deepStrictEqual(listed.data, [invoice])
        assert.deepStrictEqual(queried.data, [[records.invoices[0]]])
        assert.include(JSON.stringify(changes.data), hidden.old)
        assert.deepStrictEqual(updated.data, [[hidden.old, "status"]])
        assert.deepInclude(asked.data, [hidden.document, 1, 5, 0, null, 1])
      }).pipe(Effect.scoped)
  )
})
