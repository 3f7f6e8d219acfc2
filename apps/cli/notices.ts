/**
 * Writes `dist/THIRD_PARTY_NOTICES.txt`: the packages whose code is in the bundles of a program, with their licences. A build
 * with a package that has no licence text fails.
 */
import type { Plugin } from "rolldown"
import licensePlugin, { type Dependency } from "rollup-plugin-license"

/** The packages in the bundles that this process has built. One process builds all bundles of one program. */
const packages = new Map<string, Dependency>()

// Its types declare a default export, but the module itself is the function.
const collect = licensePlugin as unknown as typeof licensePlugin.default

const collector = collect({
  sourcemap: false,
  thirdParty: Object.assign((found: ReadonlyArray<Dependency>) => {
    for (const each of found) {
      // The packages of this workspace are no third parties.
      if (each.name?.startsWith("@payments/") !== true) packages.set(`${each.name} ${each.version}`, each)
    }
  }, { multipleVersions: true })
})

/** Parts of packages that have other authors, whom the package's licence text does not name. */
const parts: Readonly<Record<string, string>> = {
  undici:
    "lib/llhttp is built from llhttp (MIT): Copyright Fedor Indutny, 2018. The permission notice above applies to it too."
}

const sectionOf = ({ license, licenseText, name, noticeText, version }: Dependency): string => {
  if (license === null || licenseText === null) throw new Error(`${name} ${version} has no licence text`)
  const source = `Source: https://www.npmjs.com/package/${name}/v/${version}`
  return [`${name} ${version} (${license})`, source, licenseText, noticeText ?? "", parts[name ?? ""] ?? ""]
    .map((text) => text.trim()).filter(Boolean).join("\n\n")
}

/** {@inheritDoc notices.ts} */
export const notices: Array<Plugin> = [collector, {
  name: "notices",
  // Each build replaces the file with one that names the packages of all builds so far.
  generateBundle() {
    const sections = [...packages].toSorted(([a], [b]) => a < b ? -1 : 1).map(([, found]) => sectionOf(found))
    const line = "-".repeat(100)
    this.emitFile({
      type: "asset",
      fileName: "THIRD_PARTY_NOTICES.txt",
      source: `This program contains code of these packages.\n${
        sections.map((text) => `\n${line}\n${text}\n`).join("")
      }`
    })
  }
}]
