import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { copySources } from "@payments/testkit/CopiedSources"
import { rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect, Layer } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { scan } from "../../src/index.ts"
import * as SqliteSink from "../../src/sqlite/SqliteSink.ts"

const root = join(import.meta.dirname, "../../../..")

/** Exports the invoices into the file, verifies them, and prints the skipped columns and the differences. */
const script = (folder: string, file: string, invoices: ReadonlyArray<string>) => `
  import { Lists } from "@payments/core"
  import { layerTest } from "@payments/core/testing"
  import { Destination, scan, verify } from "${join(folder, "packages/copy/src/index.ts")}"
  import * as SqliteSink from "${join(folder, "packages/copy/src/sqlite/SqliteSink.ts")}"
  import { Effect, Layer } from "effect"
  const file = ${JSON.stringify(file)}
  const layer = Layer.merge(SqliteSink.layer(file), layerTest({ invoices: ${JSON.stringify(invoices)} }))
  await Effect.runPromise(Effect.provide(scan("invoices"), layer))
  const verified = await Effect.runPromise(Effect.scoped(
    Effect.flatMap(Destination.reader({ _tag: "Sqlite", file }), (reader) => verify(reader, Lists.invoices))
  ))
  console.log(JSON.stringify([verified.differences, verified.skipped]))`

describe("AGENTS.md", () => {
  it.live("describes how to add a field: with that line alone, an existing destination gets the filled column", () =>
    Effect.gen(function*() {
      const [, line = "", source = ""] =
        /\*\*a field:\*\* add a line such as `([^`]+)` to its record in\s+`([^`]+)`/.exec(
          readFileSync(join(root, "AGENTS.md"), "utf8")
        ) ?? []
      const [, field = ""] = /^(\w+): person\(Schema\.String, "[^"]+"\)$/.exec(line) ?? []
      assert.notStrictEqual(field, "", "AGENTS.md names no line")
      const folder = yield* temporaryFolder
      const file = join(folder, "payments.db")
      const invoices = [1, 2, 3].map((index) => JSON.stringify({ id: `inv_${index}`, [field]: `value ${index}` }))
      yield* scan("invoices").pipe(Effect.provide(Layer.merge(SqliteSink.layer(file), layerTest({ invoices }))))
      copySources(folder, ["packages/core", "packages/copy"])
      const copied = join(folder, source)
      const text = readFileSync(copied, "utf8")
      writeFileSync(copied, text.replace("const invoice = fields({\n", `const invoice = fields({\n  ${line},\n`))
      const printed = execFileSync(
        process.execPath,
        ["--input-type=module", "-e", script(folder, file, invoices)],
        { cwd: join(folder, "packages/copy"), encoding: "utf8" }
      )
      assert.deepStrictEqual(JSON.parse(printed), [[], []])
      const column = field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
      assert.deepStrictEqual(
        rowsOf(file, `SELECT ${column} AS value FROM invoices ORDER BY row`).map(({ value }) => value),
        ["value 1", "value 2", "value 3"]
      )
      assert.deepStrictEqual(rowsOf(file, "SELECT * FROM changes"), [])
    }).pipe(Effect.scoped))
})
