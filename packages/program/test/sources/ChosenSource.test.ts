/** Which source a command of `payments` uses. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { ConfigProvider, Effect, Layer, Logger } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { ChosenSource, ConfigFlag, SourceFlag } from "../../src/sources/ChosenSource.ts"

const source = (name: string) =>
  `[sources.${name}]\nbase_url = "https://api.example.com"\napi_key_env = "KEY"\nto = "sqlite:${name}.db"\n`

/** The flags and variables of a run. */
interface Given {
  readonly source?: string
  readonly config?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Returns the name of the source, `environment`, or the error, for a command that needs the service and for one that does not. */
const chosen = Effect.fnUntraced(function*(given: Given) {
  const warnings: Array<string> = []
  const layer = ChosenSource.layer.pipe(
    Layer.provide([
      Layer.succeed(SourceFlag, given.source),
      Layer.succeed(ConfigFlag, given.config),
      NodeFileSystem.layer
    ])
  )
  const names = yield* Effect.gen(function*() {
    const { forDestination, forService } = yield* ChosenSource
    return yield* Effect.forEach(
      [forService, forDestination],
      Effect.match({ onSuccess: (found) => found?.name ?? "environment", onFailure: ({ message }) => message })
    )
  }).pipe(
    Effect.provide(layer, { local: true }),
    Effect.provide([
      ConfigProvider.layer(ConfigProvider.fromEnvRecord({ XDG_CONFIG_HOME: "/dev/null", ...given.env })),
      Logger.layer([Logger.make(({ message }) => void warnings.push(String(message)))])
    ])
  )
  return [...names, ...warnings]
})

const url = { PAYMENTS_BASE_URL: "https://other.example.com" }
const to = { PAYMENTS_TO: "sqlite:other.db" }

describe("the source of a command", () => {
  it.effect("is the named one, else the environment, else the only one of the file", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const [one, two] = [join(folder, "one.toml"), join(folder, "two.toml")]
      const own = join(folder, "own.toml")
      writeFileSync(own, source("north").replace(/api_key_env = .*/, `api_key_env = "PAYMENTS_API_KEY"`))
      writeFileSync(one, source("north"))
      writeFileSync(two, source("north") + source("south"))
      mkdirSync(join(folder, "payments"))
      writeFileSync(join(folder, "payments/payments.toml"), source("usual"))
      const usual = { XDG_CONFIG_HOME: folder }
      const several = `${two} has several sources. Choose one with --source or PAYMENTS_SOURCE: north and south.`
      const unknown = (from: string) =>
        `${from}: ${two} has no source of that name. The nearest one is north; its sources are north and south.`
      const ignored = (names: string, file: string) => `${names}: ignored, because the sources come from ${file}.`
      const cases: ReadonlyArray<readonly [Given, ...ReadonlyArray<string>]> = [
        [{}, "environment", "environment"],
        [{ env: url }, "environment", "environment"],
        [{ env: { ...url, ...usual } }, "environment", "environment"],
        [{ env: { ...url, PAYMENTS_CONFIG: one } }, "environment", "environment"],
        [{ env: usual }, "usual", "usual"],
        [{ env: { PAYMENTS_CONFIG: one } }, "north", "north"],
        [{ env: { ...usual, PAYMENTS_CONFIG: one } }, "north", "north"],
        // Only a command that needs no service can use PAYMENTS_TO alone.
        [{ env: { ...to, PAYMENTS_CONFIG: one } }, "north", "environment", ignored("PAYMENTS_TO", one)],
        [
          { env: { ...to, ...usual, PAYMENTS_SOURCE: "usual" } },
          "usual",
          "usual",
          ignored("PAYMENTS_TO", join(folder, "payments/payments.toml"))
        ],
        [{ config: one, env: url }, "north", "north", ignored("PAYMENTS_BASE_URL", one)],
        // The source reads its key from this variable.
        [{ config: own, env: { PAYMENTS_API_KEY: "key" } }, "north", "north"],
        [{ config: one, env: { PAYMENTS_API_KEY: "key" } }, "north", "north", ignored("PAYMENTS_API_KEY", one)],
        [{ source: "south", config: two }, "south", "south"],
        [{ source: "south", env: { PAYMENTS_SOURCE: "north", PAYMENTS_CONFIG: two } }, "south", "south"],
        [{ config: two }, several, several],
        [{ source: "nort", config: two }, unknown("--source"), unknown("--source")],
        [{ config: two, env: { PAYMENTS_SOURCE: "nort" } }, unknown("PAYMENTS_SOURCE"), unknown("PAYMENTS_SOURCE")],
        [{ source: "default" }, "environment", "environment"],
        [
          { source: "north" },
          ...Array(2).fill(
            "--source: there is no sources file. Write /dev/null/payments/payments.toml, or name one with --config or PAYMENTS_CONFIG."
          )
        ],
        [
          { config: "/missing.toml" },
          ...Array(2).fill(
            "/missing.toml: The sources file does not exist. Name another one with --config or PAYMENTS_CONFIG, or create it: payments source add."
          )
        ]
      ]
      for (const [given, ...expected] of cases) {
        assert.deepStrictEqual(yield* chosen(given), expected, JSON.stringify(given))
      }
    }).pipe(Effect.scoped))

  it.effect("is named by the message if it is one of many", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "many.toml")
      writeFileSync(file, Array.from({ length: 100 }, (_, index) => source(`s${index}`)).join(""))
      const [message = ""] = yield* chosen({ source: "s100", config: file })
      assert.include(message, "The nearest one is s10;")
      assert.include(message, "s19, and 80 more.")
    }).pipe(Effect.scoped))
})
