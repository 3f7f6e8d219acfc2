import { assert, describe, it } from "@effect/vitest"
import { isEmpty, statementProblem, trimStatementEnd } from "../../src/statement/Statement.ts"
import { shownMessage } from "../../src/statement/StatementMessage.ts"
import { suggestion } from "../../src/statement/Suggestion.ts"
import { tables } from "../../src/statement/Tables.ts"

describe("a statement", () => {
  it("may start with comments and parentheses, and must be one that reads", () => {
    for (const sql of ["select 1", "-- a\n/* b */ (SELECT 1)", "WITH x AS (SELECT 1) SELECT 2", " VALUES (1)"]) {
      assert.isUndefined(statementProblem(sql), sql)
    }
    for (const sql of ["", " -- a", "/* select */ insert", "selection", "PRAGMA x", "; SELECT 1", "EXPLAIN SELECT 1"]) {
      assert.isDefined(statementProblem(sql), sql)
    }
  })

  it("of PostgreSQL loses the semicolons and comments after it", () => {
    for (
      const sql of [
        "SELECT 1",
        "SELECT ';', \";\", $a$;$$ --$a$, E'\\';'",
        "SELECT 1 -- a\n + 2",
        "SELECT /* a /* b */ c */ 1"
      ]
    ) {
      for (const end of ["", ";", " ; ;\n", "-- ;", " /* ; /* ' */ */ ;-- '", "\n-- a\n;"]) {
        assert.strictEqual(trimStatementEnd(sql + end), sql, sql + end)
      }
    }
  })

  it("of SQLite may be followed only by comments and semicolons", () => {
    for (const rest of ["", " ;\n;", "-- a", "/* a */ ; -- b", "/* not closed"]) assert.isTrue(isEmpty(rest), rest)
    for (const rest of ["SELECT 2", "-- a\nSELECT 2", "/* a */ x"]) assert.isFalse(isEmpty(rest), rest)
  })
})

describe("a database's message about a statement", () => {
  it("is shown without the words that may be values, control characters and line breaks", () => {
    for (
      const [message, sql, shown] of [
        [`near "FORM": syntax error`, "SELECT 1 FORM x", `near "FORM": syntax error`],
        [`near ")": syntax error`, "SELECT )", `near ")": syntax error`],
        ["no such column: amout", "SELECT amout FROM invoices", "no such column: amout"],
        ["no such column: inv.amout", "SELECT Inv.Amout", "no such column: inv.amout"],
        ["no such column: amout", "SELECT * FROM a_view", "no such column: …"],
        ["ambiguous column name: customer_id", "SELECT * FROM a JOIN b", "ambiguous column name: customer_id"],
        [
          `no such column: "John Doe" - should this be a string literal?`,
          `SELECT "John Doe"`,
          `no such column: "…" - should this be a string literal?`
        ],
        [`syntax error at or near "4433221100"`, "SELECT 1 4433221100 2", `syntax error at or near "…"`],
        // A pragma that is called with a value looks for a table of this name.
        ["no such table: cus_3", "SELECT * FROM invoices, pragma_table_list(customer_id)", "no such table: …"],
        ["bad JSON path: 'cus_3'", "SELECT json_extract('{}', customer_id) FROM payout_requests", "bad JSON path: '…'"],
        ["bad JSON path: 'failed'", "SELECT json_extract('{}', status) FROM payout_requests", "bad JSON path: '…'"],
        ["bad JSON path: 'cus'", "SELECT '$.cus_3'", "bad JSON path: '…'"],
        [`unrecognized token: "'John`, "SELECT 1 'Jo", `unrecognized token: "'…`],
        [`relation "a"b" does not exist`, "SELECT 1", `relation "…`],
        [`relation "does" c "exist" does not exist`, "SELECT 1", `relation "…" does not exist`],
        ["string or blob too big", "SELECT zeroblob(amount) FROM invoices", "string or blob too big"],
        [
          `text search configuration "cus_3" does not exist`,
          "SELECT customer_id::regconfig",
          `text search configuration "…" does not exist`
        ],
        ["large object 4242 does not exist", "SELECT lo_get(amount) FROM invoices", "large object … does not exist"],
        [
          "requested character too large for encoding: 99",
          "SELECT chr(n)",
          "requested character too large for encoding: …"
        ],
        ["la relation « cus_3 » n’existe pas", "SELECT customer_id::regclass", "… relation …"],
        ["отношение \"cus_3\" не существует", "SELECT customer_id::regclass", "…"],
        ["a\u001b[2J\nHINT: b", "SELECT 1", "…"],
        ["x".repeat(1000), "x".repeat(1000), "x".repeat(300)]
      ] as const
    ) assert.strictEqual(shownMessage(message, sql), shown)
  })
})

describe("a wrong statement", () => {
  const known = tables.map(({ columns, name }) => ({ name, columns: columns.map((column) => column.name) }))

  it("gets the name that it probably means, in SQLite and in PostgreSQL", () => {
    for (
      const [message, sql, meant] of [
        ["no such column: amout.", "SELECT amout FROM invoices", "amount"],
        [`column "amout" does not exist.`, "SELECT amout FROM invoices", "amount"],
        ["column i.amout does not exist.", "SELECT i.amout FROM invoices i", "amount"],
        ["no such column: settlementDate.", "SELECT settlementDate FROM invoices", "settlement_date"],
        [
          "no such column: customerDetails.name.",
          "SELECT customerDetails.name FROM payin_sources",
          "customer_details_name"
        ],
        ["no such column: fee.", "SELECT fee FROM invoices", "fee of payout_requests"],
        ["no such column: paid.", "SELECT 1 FROM invoices WHERE status = paid", "'paid' or id"],
        [`column "pse" does not exist.`, `SELECT 1 FROM invoices WHERE payment_method <> "pse"`, "'pse'"],
        ["no such table: payoutRequests.", "SELECT 1 FROM payoutRequests", "payout_requests"],
        [`relation "invoces" does not exist.`, "SELECT 1 FROM invoces", "invoices"],
        ["no such function: cuont.", "SELECT cuont(*) FROM invoices", "count"],
        ["function exact_sum(bigint) does not exist.", "SELECT exact_sum(amount) FROM invoices", "sum"],
        ["function sum(text) does not exist.", "SELECT sum(status) FROM invoices", undefined],
        [`near "FORM": syntax error.`, "SELECT 'wehre' FORM invoices", "FROM"],
        [`syntax error at or near "x".`, "SELECT 1 x x", undefined],
        ["no such column: …", "SELECT 4433221100x", undefined]
      ] as const
    ) {
      assert.strictEqual(
        suggestion(message, sql, known),
        meant === undefined ? undefined : `Did you mean ${meant}?`,
        message
      )
    }
  })

  it("that begins with another word gets the word that it resembles", () => {
    assert.include(statementProblem("SELEC 1"), "Did you mean SELECT?")
    assert.include(statementProblem("-- a\nwiht x AS (SELECT 1) SELECT 2"), "Did you mean WITH?")
    assert.include(statementProblem("DELETE FROM invoices"), "Use SELECT, WITH or VALUES.")
  })
})
