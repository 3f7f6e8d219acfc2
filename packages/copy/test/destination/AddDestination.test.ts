import { assert, describe, it } from "@effect/vitest"
import { copySources } from "@payments/testkit/CopiedSources"
import { execute, rowsOf, temporaryFolder } from "@payments/testkit/Folder"
import type { StoredRow } from "@payments/testkit/postgres/StoredRow"
import { runProgram, sandboxEnv } from "@payments/testkit/programs/RunProgram"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { cpSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { tableOf } from "../../src/plan/Columns.ts"
import { suite } from "../session/SinkTest.ts"
import { drawer } from "./DrawerDriver.ts"

const root = join(import.meta.dirname, "../../../..")

const nameIn = (folder: string) => join(folder, "payments")
const fileIn = (folder: string) => `${nameIn(folder)}.drawer`

suite("drawer:NAME", {
  layer: (folder) => drawer.operations({ _tag: "Drawer", name: nameIn(folder) }).layer,
  read: (folder, list): ReadonlyArray<StoredRow> =>
    rowsOf(fileIn(folder), `SELECT id, raw FROM ${tableOf(list)}`).map(({ id, raw }) => ({
      id: String(id),
      raw: String(raw)
    })),
  snapshots: false,
  execute: (folder, statement) => execute(fileIn(folder), statement(""))
})

/** Adds the driver to copied sources: its file, and its entry in the file that AGENTS.md names. */
const addDriver = (folder: string) => {
  const [, own = "", entries = ""] =
    /\*\*a destination:\*\*.*?\sothers\s+in\s+`([^`]+)\/`,\s+and\s+add\s+it\s+to\s+`all`\s+in\s+its\s+`([^`]+)`/s.exec(
      readFileSync(join(root, "AGENTS.md"), "utf8")
    ) ?? []
  const all = join(own, entries)
  assert.notStrictEqual(entries, "", "AGENTS.md names no file")
  const driver = readFileSync(join(import.meta.dirname, "DrawerDriver.ts"), "utf8")
  writeFileSync(
    join(folder, own, "DrawerDriver.ts"),
    driver.replaceAll("../../src/destination/", "./").replaceAll("../../src/", "../")
  )
  const registry = readFileSync(join(root, all), "utf8")
  const added = registry.replace("import { files }", `import { drawer } from "./DrawerDriver.ts"\nimport { files }`)
    .replace("[sqlite, postgres, files]", "[sqlite, postgres, files, drawer]")
  assert.lengthOf(added.match(/\bdrawer\b/g) ?? [], 2)
  writeFileSync(join(folder, all), added)
}

/** A copy of the sources of `payments` with the driver. */
const extended = Effect.map(temporaryFolder, (folder) => {
  copySources(folder, [
    "packages/core",
    "packages/copy",
    "packages/program",
    "packages/sandbox",
    "packages/testkit",
    "apps/cli"
  ])
  addDriver(folder)
  return join(folder, "apps/cli")
})

/** Runs commands, and prints the exit code and the output of each. */
const script = (program: string, commands: ReadonlyArray<string>) => {
  const inProcess = join(program, "test/program/InProcess.ts")
  for (const file of ["test/program/InProcess.ts", "test/contract/CheckedRun.ts"]) {
    cpSync(join(root, "apps/cli", file), join(program, file))
  }
  return `
    import { PaymentsApi } from "@payments/core"
    import { layerHttpClient } from "@payments/core/node"
    import { chosenConfig } from "@payments/program"
    import { Effect, Layer } from "effect"
    import { runInProcess } from ${JSON.stringify(inProcess)}
    const api = PaymentsApi.layer.pipe(Layer.provide(layerHttpClient), Layer.provide(chosenConfig))
    const results = []
    for (const command of ${JSON.stringify(commands)}) {
      const { code, err, out } = await Effect.runPromise(runInProcess(api, command.split(" ")))
      results.push([command, code, out, err])
    }
    process.stdout.write(JSON.stringify(results), () => process.exit())`
}

describe("AGENTS.md describes how to add a destination: its driver and its entry", () => {
  it.live("compile", () =>
    Effect.map(extended, (program) => {
      execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", "tsconfig.json"], { cwd: program, encoding: "utf8" })
    }).pipe(Effect.scoped))

  it.live("are all that the commands need", () =>
    Effect.gen(function*() {
      const program = yield* extended
      const commands = [
        "export --to drawer:mine",
        "query --from drawer:mine --format csv settled-by-month",
        "verify --from drawer:mine",
        "find --from drawer:mine --contains 20 --limit 1",
        "status --from drawer:mine --format ndjson",
        "doctor --to drawer:mine --format ndjson",
        "migrate --to drawer:mine",
        "prune --from drawer:mine --keep-changes 1d"
      ]
      const { stderr, stdout } = yield* runProgram(
        process.execPath,
        ["--no-warnings", "--input-type=module", "-e", script(program, commands)],
        {
          cwd: program,
          env: {
            ...yield* sandboxEnv({ records: 20, hostileText: 0 }),
            XDG_CONFIG_HOME: "/dev/null",
            PATH: process.env["PATH"] ?? ""
          }
        }
      )
      assert.isNotEmpty(stdout, stderr)
      const results: ReadonlyArray<readonly [string, number, string, string]> = JSON.parse(stdout)
      for (const [command, code, out, err] of results) assert.strictEqual(code, 0, `${command}: ${out}${err}`)
      const [, query, verify, find, status, doctor, migrate, prune] = results.map(([, , out]) => out)
      const invoices = rowsOf(join(program, "mine.drawer"), "SELECT id FROM invoices").length
      assert.strictEqual(invoices, 20)
      assert.match(query ?? "", /^settlement_date_month,records,/)
      assert.match(verify ?? "", /^invoices: .*20 records/m)
      assert.include(find, "invoices")
      assert.match(status ?? "", /"list":"invoices".*"rows":20/)
      assert.include(doctor, "drawer:mine: belongs to this source; payout-requests 20 rows")
      assert.include(doctor, "the user has the privileges")
      assert.include(doctor, "the cabinet does not report the space of its disk")
      assert.include(migrate, "drawer:mine: the tables have version")
      assert.include(prune, "changes: 0 removed")
    }).pipe(Effect.scoped))
})
