/**
 * The release: the tarballs are the same twice, and npm installs the programs from a registry into an empty folder and runs them.
 * `npm run test:release` installs the libraries too, with other versions of Node, TypeScript and Effect (`testRelease.ts`).
 */
import { assert, describe, it } from "@effect/vitest"
import { Sandbox } from "@payments/sandbox"
import { runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { mkdirSync, readFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { pack, publish } from "../../../../scripts/release.ts"
import { versionedFiles, withVersion } from "../../../../scripts/version.ts"
import { startRegistry } from "./Registry.ts"

const root = join(import.meta.dirname, "../../../..")

/** Runs a command and returns its stdout. npm and the programs run on the Node of the workspace. */
const run = Effect.fnUntraced(function*(cwd: string, words: ReadonlyArray<string>, env: Record<string, string> = {}) {
  const [program = "", ...args] = words
  const { code, stderr, stdout } = yield* runProgram(program, args, {
    cwd,
    env: {
      HOME: cwd,
      PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
      npm_config_cache: join(cwd, "npm-cache"),
      npm_config_update_notifier: "false",
      ...env
    }
  })
  assert.strictEqual(code, 0, `${words.join(" ")}\n${stdout}${stderr}`)
  return stdout
})

describe("a release", () => {
  it("has the version of the packages in all files that contain it", () => {
    const versions = [
      "packages/core",
      "packages/sandbox",
      "packages/copy",
      "packages/program",
      "apps/cli",
      "apps/worker"
    ].map((path) => {
      const { version }: { readonly version: string } = JSON.parse(
        readFileSync(join(root, path, "package.json"), "utf8")
      )
      return version
    })
    const written = versionedFiles.map(({ file, pattern }) => pattern.exec(readFileSync(join(root, file), "utf8"))?.[0])
    const changelog = readFileSync(join(root, "CHANGELOG.md"), "utf8")
    const [newest] = Array.from(changelog.matchAll(/^## (.*)$/gm), ([, version]) => version)
    assert.deepStrictEqual(Array.from(new Set([...versions, ...written, newest])), [versions[0]])
  })

  it("adds its changesets to the changelog, above the earlier versions", () => {
    const first = "---\n\"@payments/cli\": minor\n---\n\nThe first change costs $& less.\n"
    const second = "---\n\"@payments/core\": patch\n\"@payments/cli\": patch\n---\n\nThe second one\nhas two lines.\n"
    assert.strictEqual(
      withVersion("# Changelog\n\nAbout.\n\n## 0.1.0\n\nThe first version.\n", "0.2.0", [first, second]),
      "# Changelog\n\nAbout.\n\n## 0.2.0\n\n- The first change costs $& less.\n- The second one\n  has two lines.\n\n" +
        "## 0.1.0\n\nThe first version.\n"
    )
  })

  it.live(
    "has the same bytes twice; npm and npx install the programs from a registry, and they run",
    () =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        const tarballs = yield* Effect.promise(() => pack(join(folder, "first")))
        const second = join(folder, "second")
        const script = join(root, "scripts/release.ts")
        const lines = (yield* run(root, [process.execPath, script, "--dry-run", "--to", second])).trim().split("\n")
        assert.deepStrictEqual(
          lines.slice(0, tarballs.length),
          tarballs.map(({ file, sha256 }) => `${sha256}  ${join(second, basename(file))}`)
        )
        assert.deepStrictEqual(lines.slice(tarballs.length).map((line) => line.replace(/^[0-9a-f]{64}  /, "")), [
          join(second, "sbom.cdx.json"),
          "Nothing is published: this is a dry run."
        ])
        const { metadata }: { readonly metadata: { readonly component: { readonly version: string } } } = JSON.parse(
          readFileSync(join(second, "sbom.cdx.json"), "utf8")
        )
        assert.strictEqual(metadata.component.version, tarballs[0]?.version)

        const registry = yield* Effect.acquireRelease(
          Effect.promise(startRegistry),
          ({ close }) => Effect.sync(close)
        )
        registry.use(folder)
        const programs = tarballs.filter(({ name }) => /cli|worker/.test(name))
        const version = `${programs[0]?.version}\n`
        assert.deepStrictEqual(yield* Effect.promise(() => publish(programs, folder)), programs)
        assert.deepStrictEqual(yield* Effect.promise(() => publish(programs, folder)), [], "is published already")

        const project = join(folder, "project")
        mkdirSync(project)
        registry.use(project)
        yield* run(project, ["npm", "install", ...programs.map(({ name }) => name)])
        const { url } = yield* Sandbox
        const settings = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" }
        const listed = yield* run(
          project,
          ["npx", "payments", "invoices", "list", "--all", "--format", "ndjson"],
          settings
        )
        assert.strictEqual(listed.trim().split("\n").length, 120)
        assert.strictEqual(yield* run(project, ["node_modules/.bin/payments-worker", "--version"]), version)

        yield* run(folder, ["npm", "install", "--global", "--prefix", "global", "@payments/cli"])
        assert.strictEqual(yield* run(folder, ["global/bin/payments", "--version"]), version)
        assert.strictEqual(yield* run(folder, ["npx", "--yes", "@payments/cli", "--version"]), version)
      }).pipe(Effect.provide(Sandbox.layer({ records: 120 })), Effect.scoped),
    600_000
  )
})
