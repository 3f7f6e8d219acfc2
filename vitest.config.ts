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
    // All test files of a package share one process and its modules, which saves half a second of processor time per file.
    // `export` loads them anew for each file: its test that ends a sink's thread hangs after other files have used the thread.
    projects: packages.map(({ name, root }) => ({
      extends: true,
      root,
      test: { name: `@payments/${name}`, isolate: name === "export" }
    }))
  }
})
