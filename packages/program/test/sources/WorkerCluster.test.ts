/** The settings of a cluster, from flags, the environment and the sources file, and the sources that it refuses. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { ConfigProvider, Effect, Layer, Logger, Redacted } from "effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { type ClusterFlags, clusterOf, loadSources } from "../../src/sources.ts"

const source = (name: string, more: string) =>
  `[sources.${name}]\nbase_url = "https://api.example.com"\napi_key_env = "KEY"\n${more}\n`
const shared = source("shared", `to = "postgres://db.example.com/payments"`)

/** Returns the cluster of a sources file with this content. */
const load = Effect.fnUntraced(function*(
  content: string,
  env: Readonly<Record<string, string>> = {},
  flags: ClusterFlags = {}
) {
  const file = join(yield* temporaryFolder, "payments.toml")
  writeFileSync(file, content)
  return yield* Effect.flatMap(loadSources({ config: file }), (set) => clusterOf(set, flags)).pipe(
    Effect.provide(Layer.mergeAll(
      NodeFileSystem.layer,
      ConfigProvider.layer(ConfigProvider.fromEnvRecord(env)),
      Logger.layer([])
    ))
  )
})

describe("the settings of a cluster", () => {
  it.effect("come from flags, then the environment, then the file", () =>
    Effect.gen(function*() {
      assert.isUndefined(yield* load(shared))
      const file = `[cluster]\nurl = "postgres://file.example.com:5433/work?sslrootcert=ca.pem"\n${shared}`
      const inFile = yield* load(file)
      assert.deepStrictEqual([inFile?.url.host, inFile?.url.port, inFile?.prefix], [
        "file.example.com",
        5433,
        "payments"
      ])
      assert.match(inFile?.url.sslRootCert ?? "", /^\/.*\/ca\.pem$/)
      assert.match(inFile?.runner ?? "", new RegExp(`^[A-Za-z0-9._-]+-${process.pid}$`))
      const env = {
        PAYMENTS_CLUSTER: "postgres://user:s3cret@env.example.com/work",
        PAYMENTS_CLUSTER_PREFIX: "env",
        PAYMENTS_RUNNER: "from-env"
      }
      const inEnv = yield* load(file, env)
      assert.deepStrictEqual([inEnv?.url.host, inEnv?.prefix, inEnv?.runner], ["env.example.com", "env", "from-env"])
      assert.strictEqual(Redacted.value(inEnv?.url.password ?? assert.fail("it has one")), "s3cret")
      const flagged = yield* load(file, env, {
        cluster: "postgres://flag.example.com/work",
        clusterPrefix: "flag",
        runner: "from.flag"
      })
      assert.deepStrictEqual([flagged?.url.host, flagged?.prefix, flagged?.runner], [
        "flag.example.com",
        "flag",
        "from.flag"
      ])
    }).pipe(Effect.scoped))

  it.effect("are refused without repeating a value", () =>
    Effect.gen(function*() {
      const inFile = (line: string) => Effect.flip(load(`[cluster]\n${line}\n${shared}`))
      for (
        const [line, expected] of [
          [`url = "postgres://u:canary@db/work"`, ":2: cluster.url is no database. No password stands in this file."],
          [`url = "mysql://canary/work"`, ":2: cluster.url is no database. It must be postgres://HOST/DATABASE."],
          [
            `url = "postgres://canary/work?schema=x"`,
            ":2: cluster.url is no database. postgres: the URL of a cluster has no"
          ],
          [`url = "postgres://db/work"\nprefix = "Canary-"`, ":3: cluster.prefix must be 1 to 30 small letters"],
          [`prefix = "canary"`, ":1: cluster.url is not set."]
        ] as const
      ) {
        const { message } = yield* inFile(line)
        assert.include(message, expected)
        assert.notInclude(message.toLowerCase(), "canary")
      }
      const flags = yield* Effect.flip(load(shared, { PAYMENTS_RUNNER: "no name", PAYMENTS_CLUSTER_PREFIX: "1" }, {
        cluster: "sqlite:canary.db"
      }))
      assert.deepStrictEqual(flags.message.split("\n").map((line) => line.split(". ")[0]), [
        "Invalid value for --cluster",
        "Invalid value for PAYMENTS_CLUSTER_PREFIX",
        "Invalid value for PAYMENTS_RUNNER"
      ])
      const password = yield* Effect.flip(load(shared, {}, { cluster: "postgres://u:canary@db/work" }))
      assert.match(password.message, /^--cluster: Other users .* PAYMENTS_CLUSTER instead\.$/)
    }).pipe(Effect.scoped))

  it.effect("refuse destinations of one machine, unless a runner is named", () =>
    Effect.gen(function*() {
      const flags = { cluster: "postgres://db.example.com/work" }
      const wrong = source("one", `to = "sqlite:one.db"`) + source("two", `to = "file:two"`)
      assert.isUndefined(yield* load(wrong + shared))
      const refused = yield* Effect.flip(load(wrong + shared, {}, flags))
      assert.match(refused.message, /^sources\.one: .*PostgreSQL.*runner = "NAME".*\nsources\.two: .*$/)
      assert.strictEqual(refused._tag === "CommandExit" && refused.exitCode, 2)
      const pinned = source("one", `to = "sqlite:one.db"\nrunner = "worker-1"`)
      assert.isDefined(yield* load(pinned + shared, {}, flags))
    }).pipe(Effect.scoped))
})
