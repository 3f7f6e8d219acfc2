/** The PostgreSQL server of a measurement. */
import { startServer } from "@payments/testkit/postgres/PostgresServer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export { user } from "@payments/testkit/postgres/PostgresServer"

/** Starts a server, and makes a folder for other files. Both are removed when `stack` is disposed. */
export const startDatabase = async (stack: AsyncDisposableStack, settings: ReadonlyArray<string> = []) => {
  const folder = mkdtempSync(join(tmpdir(), "payments-bench-"))
  stack.defer(() => rmSync(folder, { recursive: true, force: true }))
  const server = await startServer(settings)
  stack.defer(() => server.stop())
  return { folder, server }
}
