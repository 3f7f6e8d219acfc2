/** The built programs, and folders for their files. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The root of the repository. The tests run the sources, and a benchmark its bundle in `dist`. */
const root = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "../../../.." : "../../..")

/** Returns the absolute path of a file of the repository. */
export const atRoot = (path: string): string => join(root, path)

export const programs = {
  worker: atRoot("apps/worker/dist/payments-worker.js"),
  cli: atRoot("apps/cli/dist/payments.js")
}

/** The flags with which `bin` starts commands that run long. Without them V8 lets its young generation grow with time. */
export const memoryFlags = ["--max-semi-space-size=4", "--heap-growing-percent=60"]

/** The environment of all measured processes: as `bin` sets it, malloc keeps one heap for all threads. */
export const memoryEnvironment = { MALLOC_ARENA_MAX: "1" }

/** Makes a temporary folder. Disposing it removes it. */
export const temporaryFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  return { folder, [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) }
}
