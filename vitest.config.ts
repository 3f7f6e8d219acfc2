import { existsSync, readdirSync } from "node:fs"
import { defineConfig } from "vitest/config"

const packages = ["packages", "apps"].flatMap((group) =>
  readdirSync(group).map((name) => `${group}/${name}`).filter((folder) => existsSync(`${folder}/package.json`))
)

/** One configuration for all packages; `vitest run --project @payments/core` runs one of them. */
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    projects: packages.map((root) => ({ extends: true, root, test: { name: `@payments/${root.split("/")[1]}` } }))
  }
})
