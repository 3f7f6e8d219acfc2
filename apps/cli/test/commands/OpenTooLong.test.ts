/** Records that have been open for too long: questions by age, `final_states`, and `payments status --max-open`. */
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { execute } from "@payments/testkit/Folder"
import { type PostgresServer, startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { connect } from "@payments/testkit/programs/McpClient"
import { temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { ConfigProvider, Effect } from "effect"
import { randomUUID } from "node:crypto"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { runInProcess } from "../program/InProcess.ts"

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const kinds = ["sqlite", "files", "postgres"] as const

const ago = (days: number) => new Date(Date.now() - days * 86_400_000 - 60_000).toISOString().replace(/\.\d+/, "")

const payout = (id: string, status: string, days: number) =>
  `{"id":"${id}","status":"${status}","amount":10,"createdAt":"${ago(days)}"}`

const first = [payout("a", "processing", 80), payout("b", "processing", 2), payout("c", "sent", 90)]

type Variables = { readonly [name: string]: string }

const runWith = (variables: Variables, ...args: ReadonlyArray<string>) =>
  Effect.map(
    Effect.provide(
      runInProcess(layerTest(), args),
      ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...variables }))
    ),
    ({ code, err, out }) => ({ code, out: out.replaceAll("\r\n", "\n"), err: err.replaceAll(/\s+/g, " ") })
  )

const exportTo = (to: string, payoutRequests: ReadonlyArray<string>, variables: Variables = {}) =>
  Effect.provide(
    runInProcess(layerTest({ payoutRequests }), ["export", "payout-requests", "--to", to]),
    ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...variables }))
  )

const destinationOf = (kind: typeof kinds[number], folder: string) =>
  kind === "sqlite"
    ? `sqlite:${folder}/p.db`
    : kind === "files"
    ? `file:${folder}/files`
    : `postgres://${user}@127.0.0.1:${server.port}/postgres?schema=t_${randomUUID()}`

const copied = (kind: typeof kinds[number], variables: Variables = {}) =>
  Effect.gen(function*() {
    const folder = yield* temporaryFolder
    const to = destinationOf(kind, folder)
    yield* exportTo(to, first, variables)
    return { folder, to }
  })

const columns = "age,counted_from,records,amount,amount_null,amount_sent,amount_sent_null,fee,fee_null\n"
const question = ["query", "open-payouts-by-age", "--format", "csv"]

describe.each(kinds)("open records: %s", (kind) => {
  it.live(
    "count as open until a status is known to be final, and the answer says what is known",
    () =>
      Effect.gen(function*() {
        const { folder, to } = yield* copied(kind)
        const all = yield* runWith({}, ...question, "--from", to)
        const [young, old] = ["up to 3 days,createdAt,1,10,0,,1,,1\n", "older,createdAt,2,20,0,,2,,2\n"]
        assert.deepInclude(all, { code: 0, out: columns + young + old })
        assert.include(all.err, "no final status is known, so records of every status count as open")
        assert.match(all.err, /Ages count from createdAt to \d{4}-\d{2}-\d{2}T[\d:.]+Z\./)
        const configured = { PAYMENTS_FINAL_STATES: "payout-requests=sent" }
        const open = yield* runWith(configured, ...question, "--from", to)
        assert.deepInclude(open, { code: 0, out: `${columns}${young}older,createdAt,1,10,0,,1,,1\n` })
        assert.include(open.err, "final, by the setting final_states: sent.")
        assert.notInclude(open.err, "compare the spelling")
        const misspelled = { PAYMENTS_FINAL_STATES: "payout-requests=sent,payout-requests=procesing" }
        const hint =
          "final, by the setting final_states: sent, procesing. No record is known to have had procesing: compare the spelling"
        assert.include((yield* runWith(misspelled, ...question, "--from", to)).err, `${hint}.`)
        const status = ["status", "--from", to, "--resource", "payout-requests"]
        assert.include((yield* runWith(misspelled, ...status, "--format", "table")).out.replaceAll(/\s+/g, " "), hint)
        assert.include((yield* runWith(misspelled, ...status, "--format", "json")).out, `"unseen":["procesing"]`)
        const where = yield* runWith(configured, ...question, "--where", "amount>10", "--from", to)
        assert.deepInclude(where, { code: 0, out: columns })
        // The sandbox, CSV, JSON and pages have the field from which the age counts.
        const json = yield* runWith(configured, "query", "open-payouts-by-age", "--format", "json", "--from", to)
        assert.deepInclude(JSON.parse(json.out)[1], { age: "older", counted_from: "createdAt", records: 1, amount: 10 })
        const page = join(folder, "page.html")
        yield* runWith(configured, "query", "open-payouts-by-age", "--html", page, "--from", to)
        const html = readFileSync(page, "utf8")
        for (const text of ["createdAt", "final, by the setting final_states: sent."]) assert.include(html, text)
        const chart = yield* runWith(configured, "query", "open-payouts-by-age", "--chart", "--from", to)
        assert.match(chart.out, /older\s+10/)
      }),
    300_000
  )

  it.live(
    "are learned from what records have entered and never left, and --at counts from its point",
    () =>
      Effect.gen(function*() {
        const { to } = yield* copied(kind)
        const before = new Date().toISOString()
        yield* Effect.sleep("2 millis")
        yield* exportTo(to, [payout("a", "sent", 80), ...first.slice(1)])
        const learned = yield* runWith({}, ...question, "--from", to)
        assert.deepInclude(learned, { code: 0, out: `${columns}up to 3 days,createdAt,1,10,0,,1,,1\n` })
        assert.include(learned.err, "final, as learned, because records have entered but none has left it: sent.")
        // Whether a record has had the state is not known if the copy hides what looks like no state.
        const configured = { PAYMENTS_FINAL_STATES: "payout-requests=sent,payout-requests=other" }
        assert.include((yield* runWith(configured, ...question, "--from", to)).err, "to have had other: compare")
        yield* exportTo(to, [payout("a", "sent", 80), ...first.slice(1), payout("d", "Sent on 2024-05-01", 1)])
        assert.notInclude((yield* runWith(configured, ...question, "--from", to)).err, "compare")
        yield* exportTo(to, [payout("a", "sent", 80), ...first.slice(1)])
        const ahead = new Date(new Date(before).getTime() + 5.5 * 3_600_000).toISOString().replace("Z", "+05:30")
        for (const point of [before, ahead, "0"]) {
          const then = yield* runWith({}, ...question, "--at", point, "--from", to)
          assert.deepInclude(then, {
            code: 0,
            out: `${columns}up to 3 days,createdAt,1,10,0,,1,,1\nolder,createdAt,1,10,0,,1,,1\n`
          })
          if (point !== "0") assert.include(then.err, `Ages count from createdAt to ${before}.`)
        }
        const refused = yield* Effect.forEach(
          [ago(1), "2999-12-31", "2999-01-01T00:00Z", "Europe/Madrid", "9"],
          (point) => runWith({}, ...question, "--at", point, "--from", to)
        )
        assert.deepStrictEqual(refused.map(({ code, out }) => [code, out]), [[10, ""], [2, ""], [2, ""], [2, ""], [
          2,
          ""
        ]])
      }),
    300_000
  )

  it.live("end with code 12 in status --max-open, with a command that prints them", () =>
    Effect.gen(function*() {
      const { to } = yield* copied(kind)
      const status = ["status", "--resource", "payout-requests", "--from", to]
      const variables = { PAYMENTS_FINAL_STATES: "payout-requests=sent" }
      const late = yield* runWith(variables, ...status, "--format", "table", "--max-open", "48h")
      assert.strictEqual(late.code, 12)
      assert.include(
        late.err,
        "payout-requests has a record that has been open for 80d, but 2d is allowed (status processing)"
      )
      const text = late.out.replaceAll(/\s+/g, " ")
      assert.include(text, "payout-requests: 2 records are open, the oldest for 80d (status processing)")
      assert.include(text, "final, by the setting final_states: sent")
      const [, sql = ""] = /to print them: payments query --from \S+ '((?:[^']|'\\'')*)' /.exec(text) ?? []
      const printed = yield* runWith({}, "query", sql.replaceAll("'\\''", "'"), "--format", "csv", "--from", to)
      assert.match(printed.out, /^id,status,created_at\na,processing,.*\nb,processing,.*\n$/)
      const [row] = (yield* runWith(variables, ...status, "--max-open", "81d")).out.trimEnd().split("\n").map((line) =>
        JSON.parse(line)
      )
      assert.deepInclude(row, { maxOpenSeconds: 81 * 86_400, isOpenTooLong: false })
      assert.isAtLeast(row.oldestOpenSeconds, 80 * 86_400)
      assert.deepInclude(row.open, { finalStates: { states: ["sent"], from: "configured" } })
      // Without a limit and without a final status, the rows are not read.
      const plain = yield* runWith({}, ...status)
      assert.strictEqual(plain.code, 0)
      assert.deepInclude(JSON.parse(plain.out), { open: null, oldestOpenSeconds: null, isOpenTooLong: null })
      const every = yield* runWith({}, ...status, "--max-open", "48h")
      assert.strictEqual(every.code, 12)
      assert.include(every.err, "No final status is known, so every record counts as open")
    }), 300_000)
})

describe("open records", () => {
  it.live("are those of a list that was read, and need their date", () =>
    Effect.gen(function*() {
      const { to } = yield* copied("sqlite", { PAYMENTS_OMIT: "createdAt" })
      const status = ["status", "--from", to, "--max-open", "48h"]
      const omitted = yield* runWith({}, ...status, "--resource", "payout-requests")
      assert.strictEqual(omitted.code, 12)
      assert.include(
        omitted.err,
        "the copy leaves out or replaces createdAt, so it does not know which records are open"
      )
      const asked = yield* runWith({}, ...question, "--from", to)
      assert.deepInclude(asked, { code: 2, out: "" })
      assert.include(asked.err, "open-payouts-by-age needs createdAt, which the copy leaves out")
      const unread = yield* runWith({}, ...status, "--resource", "invoices")
      assert.strictEqual(unread.code, 12)
      assert.include(
        unread.err,
        "invoices was never read completely, so its records may have been open for more than 2d"
      )
    }))

  it.live("are told to agents with what counts as final", () =>
    Effect.scoped(Effect.gen(function*() {
      const { to } = yield* copied("sqlite")
      const { call } = yield* connect(["--from", to], { PAYMENTS_FINAL_STATES: "payout-requests=sent" })
      const { data, notes } = yield* Effect.promise(() => call("ask", { question: "open-payouts-by-age" }))
      assert.deepStrictEqual(data.map((row) => Array.isArray(row) ? row.slice(0, 3) : row), [
        ["up to 3 days", "createdAt", 1],
        ["older", "createdAt", 1]
      ])
      assert.include(notes.join(" "), "final, by the setting final_states: sent.")
      const calendar = yield* Effect.promise(() => call("ask", { question: "settlement-calendar" }))
      assert.deepInclude(calendar, { total: 0 })
      assert.include([...calendar.columns ?? []], "lag_of_weekday")
    })))

  it.live("have the final states and the limit of their source", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.toml")
      writeFileSync(join(folder, "key"), "k")
      const write = (more: string) =>
        writeFileSync(
          file,
          `[sources.acme]\nbase_url = "https://api.acme.test"\napi_key_file = "key"\nto = "sqlite:p.db"\n` +
            `lists = ["payout-requests"]\n${more}\n`
        )
      write("")
      yield* exportTo(`sqlite:${folder}/p.db`, first)
      execute(`${folder}/p.db`, "UPDATE destination SET source = 'https://api.acme.test/'")
      const run = (...args: ReadonlyArray<string>) => runWith({}, ...args, "--config", file)
      write(`final_states = { payout-requests = ["sent"] }\nmax_open = { payout-requests = "81d", invoices = "1h" }`)
      assert.strictEqual((yield* run("status")).code, 0)
      assert.include((yield* run(...question)).err, "final, by the setting final_states: sent.")
      write(`final_states = { payout-requests = [] }\nmax_open = { payout-requests = "81d" }`)
      const late = yield* run("status")
      assert.strictEqual(late.code, 12)
      assert.include(
        late.err,
        "payout-requests has a record that has been open for 90d, but 81d is allowed (status sent)"
      )
      assert.include((yield* run(...question)).err, "no status is final, as the setting final_states says.")
      for (
        const wrong of [
          `final_states = { payouts = ["sent"] }`,
          `final_states = { invoices = ["sent", "sent"] }`,
          `final_states = ["sent"]`,
          `max_open = { invoices = "soon" }`,
          `max_open = "48h"`
        ]
      ) {
        write(wrong)
        const refused = yield* run("status")
        assert.strictEqual(refused.code, 3, wrong)
        assert.match(refused.err, /payments\.toml:\d+/, wrong)
      }
      for (const text of ["sent", "payouts=sent", "invoices=", "invoices=paid,invoices=paid", ","]) {
        const refused = yield* runWith({ PAYMENTS_FINAL_STATES: text }, ...question, "--from", `sqlite:${folder}/p.db`)
        assert.strictEqual(refused.code, 2, text)
        assert.include(refused.err, "Invalid value for PAYMENTS_FINAL_STATES. Expected: LIST=VALUE")
      }
    }))
})
