import { removeMachineVariables } from "@payments/testkit/TestProcess"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { defineConfig } from "vitest/config"

/** The packages, each with an absolute path: tests run in the folder of their package. */
const packages = ["packages", "apps"].flatMap((group) =>
  readdirSync(join(import.meta.dirname, group)).map((name) => ({ name, root: join(import.meta.dirname, group, name) }))
).filter(({ root }) => existsSync(join(root, "package.json")))

// The tests do not depend on the terminal or the settings of the machine.
removeMachineVariables()

// The processes that tests start compile each module once.
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, "node_modules/.cache/compile")

/** The suites of the programs that `npm run test:nodes` runs on other versions of Node, which then run Vitest and the programs. */
const programSuites = ["Query", "Find", "Mcp", "McpTasks", "Changes", "Consumers", "Exactness", "Upgrade", "Diff"]
const programs = {
  extends: true as const,
  root: join(import.meta.dirname, "apps/cli"),
  test: { name: "programs", include: programSuites.map((suite) => `test/**/${suite}.test.ts`), isolate: false }
}

/** One configuration for all packages; `vitest run --project @payments/core` runs one of them. */
export default defineConfig({
  test: {
    // Only a test that hangs takes so long, also on a busy machine.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // All test files of a package share one process and its modules, which saves half a second of processor time per file.
    // `copy` loads them anew for each file: its test that ends a sink's thread hangs after other files have used the thread.
    projects: [
      ...packages.map(({ name, root }) => ({
        extends: true as const,
        root,
        test: { name: `@payments/${name}`, isolate: name === "copy" }
      })),
      programs
    ]
  }
})
