import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { defineConfig } from "vitest/config"

/** The packages, each with an absolute path: tests run in the folder of their package. */
const packages = ["packages", "apps"].flatMap((group) =>
  readdirSync(join(import.meta.dirname, group)).map((name) => ({ name, root: join(import.meta.dirname, group, name) }))
).filter(({ root }) => existsSync(join(root, "package.json")))

// The processes that tests start compile each module once.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compile")

/** One configuration for all packages; `vitest run --project @payments/core` runs one of them. */
export default defineConfig({
  test: {
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Loading the modules anew for each file takes half a second of processor time. Only these need it: tests of `core` measure
    // memory, and those of `export` replace functions of modules and count the threads that a module has started.
    projects: packages.map(({ name, root }) => ({
      extends: true,
      root,
      test: { name: `@payments/${name}`, isolate: name === "core" || name === "export" }
    }))
  }
})
