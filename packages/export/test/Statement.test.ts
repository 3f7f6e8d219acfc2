import { assert, describe, it } from "@effect/vitest"
import { isEmpty, maskMessage, statementProblem, trimStatementEnd } from "../src/query/Statement.ts"

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
  it("is shown without possible values, control characters and line breaks", () => {
    for (
      const [message, masked] of [
        [`near "FORM": syntax error`, `near "FORM": syntax error`],
        [`near ")": syntax error`, `near ")": syntax error`],
        ["no such column: amout", "no such column: amout"],
        ["no such column: inv.amout", "no such column: inv.amout"],
        [
          `no such column: "John Doe" - should this be a string literal?`,
          `no such column: "…" - should this be a string literal?`
        ],
        ["no such table: 44 33", "no such table: …"],
        [`unrecognized token: "'John"`, `unrecognized token: "…"`],
        [`unrecognized token: "'John`, `unrecognized token: "…"`],
        [`syntax error at or near "4433221100"`, `syntax error at or near "…"`],
        [`column "a ""b""" does not exist`, `column "…" does not exist`],
        ["bad JSON path: '$x[44'", "bad JSON path: '…'"],
        ["a\u001b[2J\nHINT: b", String.raw`a\u001b[2J`]
      ] as const
    ) assert.strictEqual(maskMessage(message), masked)
  })
})
