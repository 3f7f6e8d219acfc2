import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { defineConfig } from "vitest/config"

/** The packages, each with an absolute path: tests run in the folder of their package. */
const packages = ["packages", "apps"].flatMap((group) =>
  readdirSync(join(import.meta.dirname, group)).map((name) => ({ name, root: join(import.meta.dirname, group, name) }))
).filter(({ root }) => existsSync(join(root, "package.json")))

/** One configuration for all packages; `vitest run --project @payments/core` runs one of them. */
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: packages.map(({ name, root }) => ({ extends: true, root, test: { name: `@payments/${name}` } }))
  }
})
