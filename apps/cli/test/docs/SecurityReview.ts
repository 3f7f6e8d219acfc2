/** The figures of the page for security reviews: `docs/security-review.md`. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../../../..")

/** The page. */
export const securityPage = join(root, "docs/security-review.md")

const text = (file: string) => readFileSync(join(root, file), "utf8")

/** Returns the packages that the notices of a program name, with their licences. */
export const noticesIn = (folder: string): ReadonlyArray<{ readonly name: string; readonly licence: string }> =>
  [...text(`${folder}/THIRD_PARTY_NOTICES.txt`).matchAll(/^-{100}\n(\S+ \S+) \((.+)\)$/gm)]
    .map(([, name = "", licence = ""]) => ({ name, licence }))

const licencesOf = (licences: ReadonlyArray<string>): string =>
  [...Map.groupBy(licences, (licence) => licence)].map(([licence, all]) => `${all.length} ${licence}`)
    .toSorted((one, other) => Number.parseInt(other) - Number.parseInt(one)).join(", ")

const rowOf = (program: string, app: string): string => {
  const notices = noticesIn(`apps/${app}/dist`)
  return `| \`${program}\` | ${notices.length}, in its bundle | ${
    licencesOf(notices.map(({ licence }) => licence))
  } | none |`
}

/** Returns the number of packages in the lockfile. */
const lockedPackages = (): number => {
  const [, packages = ""] = /^packages:\n(.*?)^snapshots:$/ms.exec(text("pnpm-lock.yaml")) ?? []
  return packages.match(/^ {2}\S.*:$/gm)?.length ?? 0
}

const built = (): string => {
  const [, names = ""] = /^onlyBuiltDependencies:\n((?: {2}- .*\n)+)/m.exec(text("pnpm-workspace.yaml")) ?? []
  return Array.from(names.matchAll(/^ {2}- (\S+)/gm), ([, name = ""]) => `\`${name}\``).join(", ")
}

/** A manifest of npm; ours, or one that npm's registry has checked. */
interface Manifest {
  readonly license: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const manifestIn = (folder: string): Manifest => JSON.parse(text(`${folder}/package.json`))

/** Returns the licences of the packages on which the libraries depend, by name, including their peers. */
const licencesOfLibraries = (): ReadonlyMap<string, string> =>
  new Map(
    ["core", "sandbox", "copy", "program"].flatMap((library) => {
      const { dependencies, peerDependencies } = manifestIn(`packages/${library}`)
      return Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !name.startsWith("@payments/")).map(
        (name) => [name, manifestIn(`packages/${library}/node_modules/${name}`).license] as const
      )
    })
  )

const table = () => {
  const libraries = [...licencesOfLibraries().values()]
  return [
    "| what | packages of others | licences | install scripts |",
    "| --- | --- | --- | --- |",
    rowOf("payments", "cli"),
    rowOf("payments-worker", "worker"),
    `| the libraries \`core\`, \`sandbox\`, \`copy\`, \`program\` | ${libraries.length}, named in their manifests | ${
      licencesOf(libraries)
    } | none |`,
    `| this workspace, with tests and tools | ${lockedPackages()}, in the lockfile | not shipped | ${built()} |`
  ].join("\n")
}

const marker = "<!-- The table below is written by `npm run docs`. -->\n"

/** Returns the page with the current figures. */
export const withFigures = (page: string): string => {
  const [before = "", after = ""] = page.split(marker)
  return `${before}${marker}\n${table()}\n\n${after.replace(/^\s*(\|.*\n)*\s*/, "")}`
}
