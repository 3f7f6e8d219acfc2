import { assert, it } from "@effect/vitest"
import { flagsText, givenFlags } from "../../src/listing/ContinueCommand.ts"

it("a destination in a printed command has no password", () => {
  const cases = [
    ["postgres://me:secret@host/db?schema=a", "postgres://me@host/db?schema=a"],
    ["POSTGRESQL://me:sec%40ret@host:5432/db", "POSTGRESQL://me@host:5432/db"],
    ["postgres://:secret@host/db", "postgres://@host/db"],
    ["postgres://host/db?password=secret", "postgres://host/db"],
    ["postgres://host/db?schema=a&password=secret&user=me", "postgres://host/db?schema=a&user=me"],
    ["postgres://me@host:5432/db", "postgres://me@host:5432/db"],
    ["sqlite:./a:b@c.db?password=x", "sqlite:./a:b@c.db?password=x"]
  ] as const
  for (const [given, expected] of cases) {
    for (const name of ["to", "from"]) {
      assert.deepStrictEqual(givenFlags({ [name]: given }, [name]), [[name, expected]])
    }
  }
  const flags = givenFlags({ to: "postgres://me:secret@host/db", rebind: true, format: undefined }, [
    "to",
    "rebind",
    "format"
  ])
  assert.strictEqual(flagsText(flags), " --to postgres://me@host/db --rebind")
})
