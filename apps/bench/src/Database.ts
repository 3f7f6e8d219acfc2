/** The PostgreSQL server of a measurement. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { startServer } from "../../../packages/export/test/PostgresServer.ts"

export { user } from "../../../packages/export/test/PostgresServer.ts"

/** Starts a server, and makes a folder for other files. Both are removed when `stack` is disposed. */
export const startDatabase = async (stack: AsyncDisposableStack, settings: ReadonlyArray<string> = []) => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const server = await startServer(settings)
  stack.defer(() => server.stop())
  return { folder, server }
}
