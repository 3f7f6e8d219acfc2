/** A setting is one row: a row that is added to a copy of the sources reaches everything that shows or reads settings. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const packages = join(import.meta.dirname, "../../..")

/** Copies the packages. The copied ones import each other. */
const copyOfPackages = (folder: string): void => {
  const names = ["core", "copy", "program"]
  for (const name of names) {
    const [from, to] = [join(packages, name), join(folder, name)]
    mkdirSync(join(to, "node_modules/@payments"), { recursive: true })
    for (const part of ["src", "package.json"]) cpSync(join(from, part), join(to, part), { recursive: true })
    for (const entry of readdirSync(join(from, "node_modules")).filter((one) => one !== "@payments")) {
      symlinkSync(join(from, "node_modules", entry), join(to, "node_modules", entry))
    }
    for (const other of names.filter((one) => one !== name)) {
      symlinkSync(join(folder, other), join(to, "node_modules/@payments", other))
    }
  }
  cpSync(join(packages, "program/docs.ts"), join(folder, "program/docs.ts"))
}

const row = `  keep_refused: row(Type.duration, {
    variable: "PAYMENTS_KEEP_REFUSED",
    flag: ["keep-refused", "DURATION"],
    unset: "for ever"
  }, ["how long refused records are kept; default: for ever"]),`

/** Prints what has the new setting. */
const script = (folder: string, file: string) => `
  import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
  import { allSettings, scanFlags, settingFlags } from "${folder}/program/src/index.ts"
  import { effectiveSettings, loadSources } from "${folder}/program/src/sources.ts"
  import { jsonSchema } from "${folder}/program/src/sources/SourceSchema.ts"
  import { unknownVariables } from "${folder}/program/src/settings/Variables.ts"
  import { generatedFiles } from "${folder}/program/docs.ts"
  import { ConfigProvider, Duration, Effect } from "effect"
  const load = (flags, variables) => Effect.runPromise(loadSources({ config: "${file}", flags }).pipe(
    Effect.provide(NodeFileSystem.layer),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables))
  ))
  const shown = ({ sources: [source] }) => {
    const { from, value } = effectiveSettings(source.settings).find(({ name }) => name === "keep_refused")
    return [source.keepRefused === undefined ? null : Duration.toMillis(source.keepRefused), value, from]
  }
  const variable = { PAYMENTS_KEEP_REFUSED: "2h" }
  const refused = await load({ keepRefused: "soon" }, {}).catch((error) => error.message)
  console.log(JSON.stringify({
    schema: jsonSchema().$defs.Source.properties.keep_refused.allOf?.[0].description ??
      jsonSchema().$defs.Source.properties.keep_refused.description,
    docs: generatedFiles().flatMap(({ text }) => text.split("\\n")).filter((line) => /^\\| .keep_refused|KEEP_REFUSED/.test(line)),
    unknown: unknownVariables(Object.keys(variable)),
    flags: ["payments", "payments-worker"].map((program) => "keepRefused" in settingFlags(allSettings.source, program)),
    isInCommands: "keepRefused" in scanFlags,
    sources: [shown(await load({}, {})), shown(await load({}, variable)), shown(await load({ keepRefused: "3h" }, variable))],
    refused
  }))`

/** What a source of a file without the setting has. */
const print = (folder: string, text: string): unknown => {
  const file = join(folder, "payments.toml")
  writeFileSync(file, text, { mode: 0o600 })
  const printed = execFileSync(process.execPath, ["--input-type=module", "-e", script(folder, file)], {
    cwd: join(folder, "program"),
    encoding: "utf8"
  })
  return JSON.parse(printed)
}

const source = `[sources.north]
base_url = "https://payments.example.com"
api_key_env = "KEY"
to = "sqlite:north.db"
`

describe("a new setting", () => {
  it.live("is one row: the file, the variable, the flag, the docs and what is shown derive from it", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      copyOfPackages(folder)
      const table = join(folder, "program/src/settings/SettingTable.ts")
      const before = readFileSync(table, "utf8")
      const after = before.replace("\n  keep_changes:", `\n${row}\n  keep_changes:`)
      assert.notStrictEqual(after, before)
      writeFileSync(table, after)
      const expected = {
        schema: "how long refused records are kept; default: for ever",
        docs: [
          "| `keep_refused` | how long refused records are kept; default: for ever |",
          "| `PAYMENTS_KEEP_REFUSED` | `--keep-refused` of both programs: how long refused records are kept; default: for ever |"
        ],
        unknown: [],
        flags: [true, true],
        isInCommands: true,
        refused: "Invalid value for --keep-refused. Expected: a duration such as 90s, 5m or 2h"
      }
      const overridden = [[7_200_000, "2h", "PAYMENTS_KEEP_REFUSED"], [10_800_000, "3h", "--keep-refused"]]
      assert.deepStrictEqual(print(folder, source), {
        ...expected,
        sources: [[null, "for ever", "default"], ...overridden]
      })
      assert.deepStrictEqual(print(folder, `${source}keep_refused = "1h"\n`), {
        ...expected,
        sources: [[3_600_000, "1h", `${join(folder, "payments.toml")}:5`], ...overridden]
      })
    }).pipe(Effect.scoped))
})
