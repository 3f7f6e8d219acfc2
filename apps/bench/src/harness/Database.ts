/** The PostgreSQL server of a measurement. */
import { startServer } from "@payments/testkit/postgres/PostgresServer"
import { temporaryFolder } from "./Programs.ts"

export { user } from "@payments/testkit/postgres/PostgresServer"

/** Starts a server, and makes a folder for other files. Disposing `stack` removes both. */
export const startDatabase = async (stack: AsyncDisposableStack, settings: ReadonlyArray<string> = []) => {
  const { folder } = stack.use(temporaryFolder())
  const server = await startServer(settings)
  stack.defer(() => server.stop())
  return { folder, server }
}
