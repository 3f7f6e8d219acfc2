import { defineConfig } from "vitest/config"

/** One configuration for all packages; `vitest run --project @payments/core` runs one of them. */
export default defineConfig({
  test: {
    projects: ["packages/*", "apps/*"],
    testTimeout: 60_000,
    hookTimeout: 60_000
  }
})
