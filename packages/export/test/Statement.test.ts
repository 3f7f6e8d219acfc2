import { assert, describe, it } from "@effect/vitest"
import { isEmpty, refusalOf, shownMessage, withoutEnd } from "../src/query/Statement.ts"

describe("a statement", () => {
  it("may begin with comments and parentheses, and is one that reads", () => {
    for (const sql of ["select 1", "-- a\n/* b */ (SELECT 1)", "WITH x AS (SELECT 1) SELECT 2", " VALUES (1)"]) {
      assert.isUndefined(refusalOf(sql), sql)
    }
    for (const sql of ["", " -- a", "/* select */ insert", "selection", "PRAGMA x", "; SELECT 1", "EXPLAIN SELECT 1"]) {
      assert.isDefined(refusalOf(sql), sql)
    }
  })

  it("of PostgreSQL goes without the semicolons and comments behind it", () => {
    for (
      const sql of [
        "SELECT 1",
        "SELECT ';', \";\", $a$;$$ --$a$, E'\\';'",
        "SELECT 1 -- a\n + 2",
        "SELECT /* a /* b */ c */ 1"
      ]
    ) {
      for (const end of ["", ";", " ; ;\n", "-- ;", " /* ; /* ' */ */ ;-- '", "\n-- a\n;"]) {
        assert.strictEqual(withoutEnd(sql + end), sql, sql + end)
      }
    }
  })

  it("of SQLite is followed by nothing else", () => {
    for (const rest of ["", " ;\n;", "-- a", "/* a */ ; -- b", "/* not closed"]) assert.isTrue(isEmpty(rest), rest)
    for (const rest of ["SELECT 2", "-- a\nSELECT 2", "/* a */ x"]) assert.isFalse(isEmpty(rest), rest)
  })
})

describe("what a database says of a statement", () => {
  it("is shown without what may be a value, a control character or a line break", () => {
    for (
      const [said, shown] of [
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
    ) assert.strictEqual(shownMessage(said), shown)
  })
})
