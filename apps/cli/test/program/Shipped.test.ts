/** What is shipped with the programs: notices, the bill of materials, and nothing of the machine that built them. */
import { Spec, Validation } from "@cyclonedx/cyclonedx-library"
import { assert, describe, it } from "@effect/vitest"
import { runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { globSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { homedir } from "node:os"
import { join } from "node:path"
import { noticesIn, securityPage, withFigures } from "../docs/SecurityReview.ts"

const root = join(import.meta.dirname, "../../../..")
const programs = { payments: "apps/cli/dist", "payments-worker": "apps/worker/dist" }

/** Returns the packages that the notices of a program name, as `NAME VERSION`. */
const noticesOf = (folder: string): ReadonlyArray<string> => noticesIn(folder).map(({ name }) => name)

describe("the third-party notices", () => {
  for (
    const [program, inNotices] of [
      // Packages of the program, of its threads, and of the status page.
      ["payments", ["effect", "undici", "hyparquet-writer", "d3-scale", "@jmespath-community/jmespath"]],
      ["payments-worker", ["effect", "undici", "hyparquet-writer", "@effect/sql-pg", "uplot"]]
    ] as const
  ) {
    it(`of ${program} have the licence of each package in its bundles`, () => {
      const text = readFileSync(join(root, programs[program], "THIRD_PARTY_NOTICES.txt"), "utf8")
      const names = noticesOf(programs[program]).map((name) => name.split(" ")[0])
      for (const name of inNotices) assert.include(names, name)
      for (const section of text.split(`\n${"-".repeat(100)}\n`).slice(1)) {
        assert.match(section, /^\S+ \S+ \([\w.-]+\)\n\nSource: https:\/\/www\.npmjs\.com\/package\/\S+\n\n/)
        assert.match(
          section,
          /Permission is hereby granted|Permission to use|Apache License|Mozilla Public License|Blue Oak Model License/
        )
      }
      // Tests, build tools and the workspace itself are not in a bundle.
      for (const name of ["vitest", "rolldown", "typescript", "@payments/core"]) assert.notInclude(names, name)
    })
  }
})

describe("the bill of materials", () => {
  it.live("matches the schema of CycloneDX, has the same bytes each time, and names what is in the programs", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const files = [join(folder, "one.json"), join(folder, "folder/two.json")] as const
      const runs = yield* Effect.forEach(
        files,
        (file) => runProgram(process.execPath, [join(root, "scripts/sbom.mjs"), file]),
        { concurrency: 2 }
      )
      assert.deepStrictEqual(runs.map(({ code, stderr }) => ({ code, stderr })), [
        { code: 0, stderr: "" },
        { code: 0, stderr: "" }
      ])
      const text = readFileSync(files[0], "utf8")
      assert.strictEqual(text, readFileSync(files[1], "utf8"))
      assert.notInclude(text, root)
      const validator = new Validation.JsonStrictValidator(Spec.Version.v1dot6)
      assert.isNull(yield* Effect.promise(() => validator.validate(text)))
      // The validator can fail.
      assert.isNotNull(yield* Effect.promise(() => validator.validate(text.replace(`"version": 1`, `"version": "1"`))))
      const bill: Bill = JSON.parse(text)
      for (const [program, dist] of Object.entries(programs)) {
        assert.deepStrictEqual(
          bill.components.filter(({ properties = [], scope }) =>
            scope === "required" && properties.some(({ value }) => value === program)
          ).map(({ group, name, version }) => `${group === undefined ? "" : `${group}/`}${name} ${version}`).toSorted(),
          noticesOf(dist).toSorted()
        )
      }
    }).pipe(Effect.scoped))
})

describe("docs/security-review.md", () => {
  it("has the current figures; `npm run docs` writes them", () => {
    const page = readFileSync(securityPage, "utf8")
    assert.strictEqual(page, withFigures(page))
  })

  it("fits on a screen, and no npm package has install scripts, nor a program dependencies", () => {
    assert.isAtMost(readFileSync(securityPage, "utf8").split("\n").length, 65)
    const { beforePacking } = createRequire(import.meta.url)(join(root, "scripts/manifest.cjs")).hooks
    for (
      const folder of [
        "apps/cli",
        "apps/worker",
        "packages/core",
        "packages/sandbox",
        "packages/copy",
        "packages/program"
      ]
    ) {
      const packed = beforePacking(JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8")))
      assert.isUndefined(packed.scripts, folder)
      if (folder.startsWith("apps/")) assert.isUndefined(packed.dependencies, folder)
    }
  })
})

interface Bill {
  readonly components: ReadonlyArray<{
    readonly group?: string
    readonly name: string
    readonly version: string
    readonly scope?: string
    readonly properties?: ReadonlyArray<{ readonly value: string }>
  }>
}

/** Texts that show the machine of the build, its keys or its sources. */
const revealing = [
  root,
  homedir() === "/" ? root : `${homedir()}/`,
  "/node_modules/.pnpm/",
  "sourceMappingURL=",
  "-----BEGIN RSA PRIVATE KEY",
  "-----BEGIN PRIVATE KEY",
  ...Object.entries(process.env).flatMap(([name, value = ""]) =>
    /KEY|TOKEN|SECRET|PASSWORD/.test(name) && value.length >= 8 ? [value] : []
  )
]

const revealed = (bytes: Buffer): ReadonlyArray<string> => revealing.filter((text) => bytes.includes(text))

describe("the files of the programs", () => {
  for (const [program, dist] of Object.entries(programs)) {
    it(`of ${program} contain no path of this machine, no secret and no source map`, () => {
      // The compile cache belongs to this machine. No package has it, and the image makes its own.
      const files = globSync("**/*", { cwd: join(root, dist), exclude: ["compile-cache/**"], withFileTypes: true })
        .filter((entry) => entry.isFile())
      assert.isAbove(files.length, 20)
      for (const { name, parentPath } of files) {
        assert.notMatch(name, /\.(map|ts|env|pem|key)$/)
        assert.deepStrictEqual(revealed(readFileSync(join(parentPath, name))), [], name)
      }
      assert.deepStrictEqual(revealed(Buffer.from(`x = "${root}/packages/a.ts"`)), [root])
    })
  }
})
