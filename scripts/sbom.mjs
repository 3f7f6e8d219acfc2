/**
 * `npm run sbom -- FILE` writes a software bill of materials (CycloneDX 1.6, JSON) of the lockfile. `pnpm sbom` lists the packages.
 * They are development dependencies of the programs, so it gives them the scope "excluded". This script marks those that the
 * built programs contain as required, with their licences from the notices. The same commit gives the same bytes.
 */
import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

const root = dirname(import.meta.dirname)

/** Returns what `pnpm sbom` prints. It runs on a copy, because pnpm refuses a workspace of another pnpm version. */
const materials = () => {
  const folder = mkdtempSync(join(tmpdir(), "payments-sbom-"))
  try {
    for (
      const file of [
        "pnpm-lock.yaml",
        "pnpm-workspace.yaml",
        ...globSync("{packages,apps}/*/package.json", { cwd: root })
      ]
    ) {
      cpSync(join(root, file), join(folder, file))
    }
    const { packageManager: _, ...manifest } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest))
    const pnpm = join(root, "apps/cli/node_modules/pnpm-11/bin/pnpm.mjs")
    const options = ["--sbom-format", "cyclonedx", "--sbom-spec-version", "1.6", "--lockfile-only"]
    return JSON.parse(execFileSync(process.execPath, [pnpm, "sbom", ...options, "--filter", "*"], {
      cwd: folder,
      encoding: "utf8",
      maxBuffer: 2 ** 26
    }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** The packages in the built programs: `pkg:npm/NAME@VERSION` to their licence and the programs. */
const bundled = new Map()
for (const [program, app] of [["payments", "cli"], ["payments-worker", "worker"]]) {
  const notices = readFileSync(join(root, `apps/${app}/dist/THIRD_PARTY_NOTICES.txt`), "utf8")
  for (const [, name, version, licence] of notices.matchAll(/^-{100}\n(\S+) (\S+) \((.+)\)$/gm)) {
    const reference = `pkg:npm/${name.replace("@", "%40")}@${version}`
    bundled.set(reference, { licence, programs: [...bundled.get(reference)?.programs ?? [], program] })
  }
}

const shipped = (component) => {
  const found = bundled.get(component["bom-ref"])
  if (found === undefined) return component
  bundled.delete(component["bom-ref"])
  return {
    ...component,
    scope: "required",
    licenses: [{ license: { id: found.licence } }],
    properties: found.programs.map((value) => ({ name: "payments:bundledIn", value }))
  }
}

const { metadata: { timestamp: _, ...metadata }, components, dependencies, ...bill } = materials()
const sorted = (list, key) => list.toSorted((one, other) => one[key] < other[key] ? -1 : 1)
const listed = sorted(components.map(shipped), "bom-ref")
if (bundled.size > 0) throw new Error(`not in the lockfile: ${[...bundled.keys()].join(", ")}`)
const content = { metadata, components: listed, dependencies: sorted(dependencies, "ref") }
const digest = createHash("sha256").update(JSON.stringify(content)).digest("hex")
// A UUID of version 8: it is made from the content.
const id = [
  digest.slice(0, 8),
  digest.slice(8, 12),
  `8${digest.slice(13, 16)}`,
  `8${digest.slice(17, 20)}`,
  digest.slice(20, 32)
]
const file = process.argv[2]
if (file === undefined) throw new Error("name the file to write")
mkdirSync(dirname(file), { recursive: true })
writeFileSync(
  file,
  `${JSON.stringify({ ...bill, serialNumber: `urn:uuid:${id.join("-")}`, ...content }, undefined, 2)}\n`
)
