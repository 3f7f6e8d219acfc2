/** Starts child processes that import the package's modules. */
import { Effect } from "effect"
import { once } from "node:events"
import { join } from "node:path"
import { spawn } from "./TestProcess.ts"

/** Returns the path of the module as a string literal, for an import in a script. */
export const moduleOf = (name: string): string => JSON.stringify(join(import.meta.dirname, "../../copy/src", name))

/** Waits for the first line of output. The child is killed when the scope closes. */
export const startChild = (script: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        cwd: import.meta.dirname,
        stdio: ["ignore", "pipe", "inherit"]
      })
      const first = await Promise.race([once(child.stdout, "data"), once(child, "exit").then(() => ["ended"])])
      const exited = once(child, "exit")
      const kill = (signal: NodeJS.Signals) => {
        child.kill(signal)
        return exited
      }
      return {
        pid: child.pid,
        firstLine: String(first[0]).trim(),
        kill: (signal: NodeJS.Signals) => Effect.promise(() => kill(signal))
      }
    }),
    ({ kill }) => Effect.timeoutOption(kill("SIGKILL"), "5 seconds")
  )
