/**
 * Packs the built packages into tarballs, and writes their bill of materials beside them. Without `--dry-run`, publishes those
 * whose version the registry does not have, and adds a git tag for each. `--to FOLDER` changes the folder of the files; the
 * default is `release`.
 *
 * The same commit gives the same bytes: pnpm sorts the entries and sets their times and modes, and `manifest.cjs` sorts the
 * dependencies. `npm run test:release` compares two clones.
 */
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { join, resolve } from "node:path"
import { parseArgs, promisify } from "node:util"

const root = join(import.meta.dirname, "..")

/** The published packages, each after those that it depends on. */
export const packages = [
  "packages/core",
  "packages/sandbox",
  "packages/copy",
  "packages/program",
  "apps/cli",
  "apps/worker"
]

/** A packed package. */
export interface Tarball {
  readonly name: string
  readonly version: string
  readonly file: string
  readonly sha256: string
}

/** Returns the version of the packages: all have the same. */
export const currentVersion = (): string => {
  const { version }: { readonly version: string } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  return version
}

const sha256Of = (file: string): string => createHash("sha256").update(readFileSync(file)).digest("hex")

/** Runs a program and returns its stdout. Throws with its output if it fails. */
const run = (command: string, args: ReadonlyArray<string>, cwd = root): Promise<string> =>
  promisify(execFile)(command, args, { cwd }).then(({ stdout }) => stdout, (error) => {
    throw new Error(`${error.message}\n${error.stdout}`)
  })

/** Packs all packages into a folder. Removes the tarballs that are in it. */
export const pack = async (folder: string): Promise<ReadonlyArray<Tarball>> => {
  mkdirSync(folder, { recursive: true })
  for (const file of readdirSync(folder)) if (file.endsWith(".tgz")) rmSync(join(folder, file))
  const filters = packages.flatMap((path) => ["--filter", `./${path}`])
  const options = [`--config.pnpmfile=${join(root, "scripts/manifest.cjs")}`, "--json", "--pack-destination", folder]
  await run(join(root, "node_modules/.bin/pnpm"), ["--recursive", ...filters, "pack", ...options])
  const files = readdirSync(folder)
  return packages.map((path) => {
    const { name, version }: { readonly name: string; readonly version: string } = JSON.parse(
      readFileSync(join(root, path, "package.json"), "utf8")
    )
    const tarball = `${name.slice(1).replace("/", "-")}-${version}.tgz`
    if (!files.includes(tarball)) throw new Error(`pnpm did not write ${tarball}`)
    const file = join(folder, tarball)
    return { name, version, file, sha256: sha256Of(file) }
  })
}

/** Whether npm's registry has this version. Throws if the registry cannot answer. */
const isPublished = async ({ name, version }: Tarball, cwd: string): Promise<boolean> =>
  // `npm run --silent` would silence the error that says why.
  run("npm", ["view", `${name}@${version}`, "version", "--loglevel=error"], cwd).then(
    (stdout) => stdout.trim() === version,
    (error) => {
      if (String(error).includes("E404")) return false
      throw error
    }
  )

/** Publishes the tarballs with npm's settings in the folder `cwd`, in order. Returns those that the registry did not have. */
export const publish = async (tarballs: ReadonlyArray<Tarball>, cwd: string): Promise<ReadonlyArray<Tarball>> => {
  const published: Array<Tarball> = []
  for (const tarball of tarballs) {
    // oxlint-disable-next-line no-await-in-loop -- a package is published after those that it depends on
    if (await isPublished(tarball, cwd)) continue
    // oxlint-disable-next-line no-await-in-loop -- see above
    await run("npm", ["publish", tarball.file], cwd)
    published.push(tarball)
  }
  return published
}

/** Returns why this commit cannot be released. */
const problemOf = async (): Promise<string | undefined> => {
  if (await run("git", ["status", "--porcelain"]) !== "") {
    return "There are changes that are not committed. A release is made from a commit."
  }
  if (readdirSync(join(root, ".changeset")).some((file) => file.endsWith(".md") && file !== "README.md")) {
    return "There are changesets without a version. Run `npm run release:version`, and commit the result."
  }
  const fixtures = `apps/cli/test/fixtures/${currentVersion()}`
  return existsSync(join(root, fixtures))
    ? undefined
    : `There is no ${fixtures}, so later versions cannot be tested with the destinations of this one. Run \`npm run fixtures\` ` +
      "(apps/cli/test/fixtures/make.ts), and commit the result."
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { "dry-run": { type: "boolean" }, to: { type: "string", default: "release" } }
  })
  const isDryRun = values["dry-run"] === true
  const problem = isDryRun ? undefined : await problemOf()
  if (problem === undefined) {
    const folder = resolve(root, values.to)
    const tarballs = await pack(folder)
    const bill = join(folder, "sbom.cdx.json")
    await run(process.execPath, [join(root, "scripts/sbom.mjs"), bill])
    for (const file of [...tarballs.map((tarball) => tarball.file), bill]) console.log(`${sha256Of(file)}  ${file}`)
    if (isDryRun) console.log("Nothing is published: this is a dry run.")
    else {
      for (const { name, version } of await publish(tarballs, root)) console.log(`published ${name}@${version}`)
      await run(join(root, "node_modules/.bin/changeset"), ["tag"])
      console.log("Next: git push --tags")
    }
  } else {
    console.error(problem)
    process.exitCode = 1
  }
}
