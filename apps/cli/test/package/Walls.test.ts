/** Breaks each rule about imports once, in a scratch copy of the folders, and expects the checker to report it. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join, relative } from "node:path"

const root = join(import.meta.dirname, "../../../..")
const config = ".dependency-cruiser.mjs"

interface Rule {
  readonly name: string
  readonly from: { readonly path?: string }
  readonly to: { readonly path?: string }
}

interface Report {
  readonly summary: {
    readonly violations: ReadonlyArray<{ readonly from: string; readonly rule: { readonly name: string } }>
    readonly ruleSetUsed: { readonly forbidden: ReadonlyArray<Rule> }
  }
}

/** Runs the checker in a folder, with the rules of this repository. */
const check = (folder: string): Report["summary"] => {
  const { stderr, stdout } = spawnSync(
    process.execPath,
    [
      join(root, "node_modules/dependency-cruiser/bin/dependency-cruiser.mjs"),
      "--config",
      config,
      "--output-type",
      "json",
      "packages",
      "apps"
    ],
    { cwd: folder, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 }
  )
  assert.strictEqual(stderr, "")
  const report: Report = JSON.parse(stdout)
  return report.summary
}

/** An import that is forbidden: the file that imports, and the imported file. */
type Violation = readonly [from: string, to: string]

/** The violations of the rules that are not about the order of rooms. */
const violations: { readonly [rule: string]: Violation } = {
  "core-imports-only-itself": ["packages/core/src/model/A.ts", "packages/copy/src/index.ts"],
  "copy-imports-only-core": ["packages/copy/src/port/A.ts", "packages/program/src/index.ts"],
  "program-imports-only-core-copy": ["packages/program/src/run/A.ts", "packages/sandbox/src/index.ts"],
  "sandbox-imports-only-core": ["packages/sandbox/src/serve/A.ts", "packages/copy/src/index.ts"],
  "testkit-imports-only-core-copy-program-sandbox": ["packages/testkit/src/A.ts", "apps/cli/src/cli.ts"],
  "cli-imports-only-core-copy-program-sandbox": ["apps/cli/src/commands/A.ts", "packages/testkit/src/B.ts"],
  "worker-imports-only-core-copy-program": ["apps/worker/src/loop/A.ts", "packages/sandbox/src/index.ts"],
  "bench-imports-only-core-copy-program-sandbox-testkit": ["apps/bench/src/fleet/A.ts", "apps/cli/src/cli.ts"],
  "no-cycle": ["packages/core/src/page/Cycle.ts", "packages/core/src/page/CycleBack.ts"],
  "sources-import-no-tests": ["packages/core/src/page/A.ts", "packages/core/test/B.ts"],
  "the-port-imports-only-texts": ["packages/copy/src/port/B.ts", "packages/copy/src/filesystem/B.ts"],
  "databases-do-not-know-each-other": ["packages/copy/src/postgres/B.ts", "packages/copy/src/sqlite/B.ts"],
  "core-needs-no-platform": ["packages/core/src/page/B.ts", "node:fs"]
}

/** Returns an import that breaks a rule about rooms, from the folders in the rule. */
const roomViolation = ({ from, name, to }: Rule): Violation | undefined => {
  const [, folder, room] = /^\^(\w+\/\w+)\/src\/(?:(\w+)\/|)/.exec(from.path ?? "") ?? []
  if (folder === undefined) return undefined
  if (name.endsWith("-rooms-import-no-entry")) {
    return [`${folder}/src/${firstRoom(folder)}/C.ts`, `${folder}/src/index.ts`]
  }
  if (name.endsWith("-has-no-other-room")) return [`${folder}/src/another/A.ts`, `${folder}/src/another/B.ts`]
  const [, above] = /\(\?:(\w+)/.exec(to.path ?? "") ?? []
  return room === undefined || above === undefined
    ? undefined
    : [`${folder}/src/${room}/D.ts`, `${folder}/src/${above}/E.ts`]
}

const firstRooms: { readonly [folder: string]: string } = {
  "packages/core": "model",
  "packages/copy": "text",
  "packages/program": "text",
  "packages/sandbox": "generate",
  "apps/cli": "completions",
  "apps/worker": "state",
  "apps/bench": "harness"
}
const firstRoom = (folder: string): string => firstRooms[folder] ?? assert.fail(folder)

const put = (file: string, text: string) => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text, { flag: "a" })
}

const importOf = ([from, to]: Violation): string => {
  const path = to.includes("/") ? relative(dirname(from), to) : to
  return `import ${JSON.stringify(/^\.|:/.test(path) ? path : `./${path}`)}\n`
}

describe("the rooms of a package", () => {
  it("are the folders of its sources, and each has a page of at most ten lines", async () => {
    const { rooms }: { readonly rooms: Readonly<Record<string, ReadonlyArray<string>>> } = await import(
      join(root, config)
    )
    for (const [folder, list] of Object.entries(rooms)) {
      const found = readdirSync(join(root, folder, "src"), { withFileTypes: true }).filter((entry) =>
        entry.isDirectory() && readdirSync(join(root, folder, "src", entry.name)).length > 0
      )
      assert.deepStrictEqual(found.map(({ name }) => name).toSorted(), list.toSorted(), folder)
      for (const room of list) {
        const lines = readFileSync(join(root, folder, "src", room, "README.md"), "utf8").trimEnd().split("\n")
        assert.isAtMost(lines.length, 10, `${folder}/src/${room}`)
      }
    }
  })
})

describe("the rules about imports", () => {
  it.effect("report a violation of each of them", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      copyFileSync(join(root, config), join(folder, config))
      put(join(folder, "packages/core/src/Nothing.ts"), "export {}\n")
      put(join(folder, "apps/cli/src/Nothing.ts"), "export {}\n")
      const rules = check(folder).ruleSetUsed.forbidden
      const expected = new Map(rules.map((rule) => {
        const violation = violations[rule.name] ?? roomViolation(rule)
        return [rule.name, violation ?? assert.fail(`no violation of ${rule.name}`)] as const
      }))
      for (const violation of expected.values()) {
        put(join(folder, violation[0]), importOf(violation))
        if (violation[1].includes("/")) put(join(folder, violation[1]), "export {}\n")
      }
      put(
        join(folder, "packages/core/src/page/CycleBack.ts"),
        importOf(["packages/core/src/page/CycleBack.ts", "packages/core/src/page/Cycle.ts"])
      )
      const found = check(folder).violations
      for (const [name, [from]] of expected) {
        assert.isTrue(found.some((one) => one.rule.name === name && one.from === from), `${name}: ${from}`)
      }
    }).pipe(Effect.scoped))
})
