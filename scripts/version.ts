/**
 * Applies the changesets: raises the versions, writes the changelogs of the packages and `CHANGELOG.md`, and writes the new version
 * where it stands in other files.
 * `apps/cli/test/package/Release.test.ts` compares these files with the packages.
 */
import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

/** The files that contain the version, and the text around it. */
export const versionedFiles = [
  { file: "package.json", pattern: /(?<="version": ")[^"]*/ },
  { file: "packages/copy/src/store/Migrations.ts", pattern: /(?<=programVersion = ")[^"]*/ },
  { file: "deploy/kubernetes/kustomization.yaml", pattern: /(?<=newTag: ")[^"]*/ }
]

/** Returns `CHANGELOG.md` with a section for the version, which has the texts of these changesets. */
export const withVersion = (changelog: string, version: string, changesets: ReadonlyArray<string>): string => {
  const entries = changesets.map((changeset) => {
    const text = changeset.replace(/^---\n.*?\n---\n/s, "").trim()
    return `- ${text.replaceAll("\n", "\n  ")}\n`
  })
  return changelog.replace(/^## /m, () => `## ${version}\n\n${entries.join("")}\n## `)
}

if (import.meta.main) {
  const folder = join(root, ".changeset")
  // The next command removes them.
  const changesets = readdirSync(folder).filter((name) => name.endsWith(".md")).toSorted().map((name) =>
    readFileSync(join(folder, name), "utf8")
  )
  const { status } = spawnSync(join(root, "node_modules/.bin/changeset"), ["version"], { cwd: root, stdio: "inherit" })
  if (status === 0) {
    const { version }: { readonly version: string } = JSON.parse(
      readFileSync(join(root, "packages/copy/package.json"), "utf8")
    )
    const changelog = join(root, "CHANGELOG.md")
    writeFileSync(changelog, withVersion(readFileSync(changelog, "utf8"), version, changesets))
    for (const { file, pattern } of versionedFiles) {
      const path = join(root, file)
      writeFileSync(path, readFileSync(path, "utf8").replace(pattern, version))
    }
    console.log(`Next:
  npm run setup
  npm run docs
  npm run fixtures -- postgres://USER@HOST:PORT/DATABASE   (apps/cli/test/fixtures/make.ts)
  git add --all && git commit
  npm test
  npm run test:release`)
  } else process.exitCode = 1
}
