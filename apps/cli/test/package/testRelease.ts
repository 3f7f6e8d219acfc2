/**
 * Builds and packs the last commit in two clones, whose files must be the same. Then installs the release from a registry into
 * empty folders, and runs the programs and the application in `application/`, with several versions of Node, TypeScript and
 * Effect. Prints a line for each case. Ends with code 1 if a case fails, or if the versions of Effect that pass are others than
 * the range of the peer dependency. It takes minutes, and needs npm's registry.
 */
import { Sandbox } from "@payments/sandbox"
import { startServer, user } from "@payments/testkit/postgres/PostgresServer"
import { execFile } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, join } from "node:path"
import { promisify } from "node:util"
import { pack, publish } from "../../../../scripts/release.ts"
import { startRegistry } from "./Registry.ts"

const root = join(import.meta.dirname, "../../../..")
const folder = mkdtempSync(join(tmpdir(), "payments-release-"))
const registry = await startRegistry()
const database = await startServer()

/** The environment of the commands: npm's settings, such as its registry, and no key. */
const inherited: Record<string, string | undefined> = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(PAYMENTS_|PG)/.test(name))),
  npm_config_prefer_offline: "true"
}

/** Runs a command. Programs of `path` come first. Returns its output; a failure has it in its message. */
const run = async (cwd: string, command: string, path = "", settings: Record<string, string> = {}): Promise<string> => {
  const [program = "", ...args] = command.split(" ")
  const env = { ...inherited, PATH: `${path}${delimiter}${inherited["PATH"] ?? ""}`, ...settings }
  return promisify(execFile)(program, args, { cwd, env, timeout: 300_000 }).then(
    ({ stdout }) => stdout,
    ({ stderr, stdout }) => {
      throw new Error(`${command}\n${stdout}${stderr}`)
    }
  )
}

const install = "npm install --no-audit --no-fund --loglevel=error"

/** Returns a new folder, outside the workspace, whose npm uses the registry. */
const emptyProject = (name: string) => {
  const project = join(folder, name)
  mkdirSync(project)
  registry.use(project)
  writeFileSync(join(project, "package.json"), `{ "private": true, "type": "module" }`)
  return project
}

const failed: Array<string> = []

/** Runs a case and prints its result. Returns whether it passed. */
const check = async (title: string, test: () => Promise<unknown>): Promise<boolean> => {
  const problem = await test().then(() => undefined, (error: unknown) => String(error))
  console.log(`${problem === undefined ? "pass" : "FAIL"}  ${title}${problem === undefined ? "" : `\n${problem}`}`)
  if (problem !== undefined) failed.push(title)
  return problem === undefined
}

const equal = (actual: string, expected: string) => {
  if (actual.trim() !== expected) throw new Error(`expected ${expected}, got ${actual}`)
}

/** A destination belongs to one service. The sandbox of each case has another port. */
const removeDatabases = (project: string) => {
  for (const file of readdirSync(project)) if (file.includes(".db")) rmSync(join(project, file))
}

/** What the application prints after an export. */
const exported = `{"rows":120,"differences":[]}`

/** A destination in PostgreSQL with a schema of its own. */
const postgresUrlOf = (version: string) =>
  `postgres://${user}@127.0.0.1:${database.port}/postgres?schema=effect_${version.replaceAll(".", "_")}`

/** Runs the application and its tests with the Node in `path`. */
const runApplication = async (project: string, path: string) => {
  equal(await run(project, "node main.ts", path), `{"listed":7,"streamed":120,"isSomeOpen":true}`)
  await run(project, "node --test checks.ts", path)
  removeDatabases(project)
  equal(await run(project, "node exported.ts", path), exported)
}

/** Runs the programs that are installed in a project: list, export, verify. */
const runPrograms = async (project: string, path: string) => {
  removeDatabases(project)
  await Effect.runPromise(
    Effect.gen(function*() {
      const { url } = yield* Sandbox
      const settings = { PAYMENTS_BASE_URL: url, PAYMENTS_API_KEY: "sandbox_key" }
      yield* Effect.promise(async () => {
        const listed = await run(project, "npx payments invoices list --all --format ndjson", path, settings)
        equal(String(listed.trim().split("\n").length), "120")
        await run(project, "npx payments export --to sqlite:programs.db", path, settings)
        await run(project, "npx payments verify --from sqlite:programs.db", path, settings)
        await run(project, "npx payments-worker --version", path)
      })
    }).pipe(Effect.provide(Sandbox.layer({ records: 120 })))
  )
}

const libraries = "@payments/core @payments/sandbox @payments/copy"

/** Copies the application into a project. */
const copyApplication = (project: string) =>
  cpSync(join(root, "apps/cli/test/application"), project, {
    recursive: true,
    filter: (file) => !/\.db/.test(file)
  })

/** Releases the last commit in a new clone, without publishing. Returns the SHA-256 of the files by their names. */
const releaseOf = async (place: string): Promise<string> => {
  await promisify(execFile)("git", ["clone", "--quiet", root, place])
  await run(place, "npm run setup")
  const lines = await run(place, "npm run --silent release -- --dry-run")
  return lines.split("\n").filter((line) => /^[0-9a-f]{64} /.test(line)).map((line) => line.replace(place, ""))
    .join("\n")
}

/** Compares dotted versions of released packages. */
const isAtLeast = (version: string, least: string) => version.localeCompare(least, "en", { numeric: true }) >= 0

/** The released versions of a package, without pre-releases, oldest first. */
const releasesOf = async (name: string): Promise<ReadonlyArray<string>> => {
  const versions: ReadonlyArray<string> = JSON.parse(await run(folder, `npm view ${name} versions --json`))
  return versions.filter((version) => !version.includes("-"))
}

const newest = (versions: ReadonlyArray<string>, start: string) =>
  versions.findLast((version) => version.startsWith(start)) ?? ""

/** Tests the versions of Node: the oldest supported, and the newest of each line. */
const testNode = async (project: string) => {
  const versions = await releasesOf("node")
  const newer = versions.filter((version) => isAtLeast(version, "25.0.0")).map((version) => version.split(".")[0])
  const lines = Array.from(new Set(["22", "24", ...newer]))
  for (const version of ["22.20.0", ...lines.map((line) => newest(versions, `${line}.`))]) {
    const place = emptyProject(`node-${version}`)
    const path = join(place, "node_modules/.bin")
    // oxlint-disable-next-line no-await-in-loop -- the versions run one after the other: they use the same files
    await check(`Node ${version}: application, tests, export, programs`, async () => {
      await run(place, `${install} node@${version}`)
      equal(await run(place, "node --version", path), `v${version}`)
      await runApplication(project, path)
      await runPrograms(project, path)
      // npm reads no `.npmrc` of a project for a global installation.
      const settings = { npm_config_userconfig: join(place, ".npmrc") }
      await run(place, "npm install --global --prefix global @payments/cli @payments/worker", path, settings)
      await run(place, "global/bin/payments --version", path)
      await run(folder, "npx --yes @payments/cli --version", path)
    })
  }
}

/** Tests TypeScript 5.9, and the newest 6 and 7, with the checks of the declarations of all packages. */
const testTypeScript = async (project: string) => {
  const versions = await releasesOf("typescript")
  for (const version of ["5.9.", "6.", "7."].map((start) => newest(versions, start))) {
    const place = emptyProject(`typescript-${version}`)
    for (const resolution of [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]]) {
      // oxlint-disable-next-line no-await-in-loop -- one compiler at a time
      await check(`TypeScript ${version}, ${resolution.at(-1)}, without skipLibCheck`, async () => {
        await run(place, `${install} typescript@${version}`)
        await compile(project, join(place, "node_modules/typescript/bin/tsc"), resolution)
      })
    }
  }
}

const compile = (project: string, compiler: string, resolution: ReadonlyArray<string>) =>
  run(
    project,
    `node ${compiler} --noEmit --strict --exactOptionalPropertyTypes --allowImportingTsExtensions --target es2024 ` +
      `--lib es2024,esnext.disposable,dom --types node ${resolution.join(" ")} main.ts checks.ts exported.ts`,
    join(root, "node_modules/.bin")
  )

interface Manifest {
  readonly peerDependencies: Readonly<Record<string, string>>
}

/** Tests all released versions of Effect 4, each with the newest `@effect/platform-node` that is not newer. */
const testEffect = async () => {
  const platforms = await releasesOf("@effect/platform-node")
  const passed: Array<string> = []
  const versions = (await releasesOf("effect")).filter((version) => isAtLeast(version, "4.0.0"))
  for (const version of versions) {
    const platform = platforms.findLast((candidate) => isAtLeast(version, candidate)) ?? version
    const project = emptyProject(`effect-${version}`)
    const packages =
      `effect@${version} @effect/platform-node@${platform} @effect/platform-node-shared@${platform} @types/node@24 ${libraries}`
    // oxlint-disable-next-line no-await-in-loop -- the versions run one after the other: the machine may be small
    const isPassed = await check(
      `Effect ${version} with @effect/platform-node ${platform}, SQLite, PostgreSQL`,
      async () => {
        await run(project, `${install} --legacy-peer-deps ${packages}`)
        copyApplication(project)
        const path = join(root, "node_modules/.bin")
        equal(JSON.parse(readFileSync(join(project, "node_modules/effect/package.json"), "utf8")).version, version)
        await runApplication(project, path)
        equal(await run(project, `node exported.ts ${postgresUrlOf(version)}`, path), exported)
        await compile(project, join(root, "node_modules/typescript/bin/tsc"), ["--module", "nodenext"])
      }
    )
    if (isPassed) passed.push(version)
  }
  const { peerDependencies }: Manifest = JSON.parse(readFileSync(join(root, "packages/core/package.json"), "utf8"))
  const [, least = "", below = ""] = /^>=(\S+) <(\S+)$/.exec(peerDependencies["effect"] ?? "") ?? []
  const expected = versions.filter((version) => isAtLeast(version, least) && !isAtLeast(version, below))
  await check(
    `the peer range ${peerDependencies["effect"]} has the versions that pass: ${passed.join(", ")}`,
    () => Promise.resolve(equal(passed.join(), expected.join()))
  )
}

try {
  // The second folder has a space, and is deeper.
  await check(
    "the last commit, built in two clones, gives the same bytes",
    async () => equal(await releaseOf(join(folder, "clone")), await releaseOf(join(folder, "another place/clone")))
  )
  const tarballs = await pack(join(folder, "tarballs"))
  registry.use(folder)
  await publish(tarballs, folder)
  const project = emptyProject("project")
  await run(
    project,
    `${install} ${libraries} effect @effect/platform-node @types/node@24 @payments/cli @payments/worker`
  )
  copyApplication(project)
  await testNode(project)
  await testTypeScript(project)
  await testEffect()
} finally {
  registry.close()
  await database.stop()
  rmSync(folder, { recursive: true, force: true })
}
console.log(failed.length === 0 ? "All pass." : `${failed.length} failed.`)
process.exitCode = failed.length === 0 ? 0 : 1
