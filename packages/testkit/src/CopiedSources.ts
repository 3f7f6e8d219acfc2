/** A copy of the sources of this repository, which a test may change. */
import { cpSync, existsSync, symlinkSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../../..")

/**
 * Copies packages, such as `packages/core`, into a folder. The copies import each other, so all that one of them
 * imports must be among them. Their other dependencies are those of this repository.
 */
export const copySources = (folder: string, packages: ReadonlyArray<string>): void => {
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"))
  cpSync(join(root, "tsconfig.base.json"), join(folder, "tsconfig.base.json"))
  for (const name of packages) {
    for (const part of ["src", "package.json", "tsconfig.json", "node_modules"]) {
      const from = join(root, name, part)
      // The links between packages are relative, so those of the copies lead to copies.
      if (existsSync(from)) cpSync(from, join(folder, name, part), { recursive: true, verbatimSymlinks: true })
    }
  }
}
