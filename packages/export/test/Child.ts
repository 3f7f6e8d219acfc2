/** A process of its own, with the package at hand. */
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"

/** Where the package's modules are, for the imports of a script. */
export const moduleOf = (name: string): string => JSON.stringify(join(import.meta.dirname, "../src", name))

/** Starts a module, and goes on when it has written its first line. It is killed when the scope closes. */
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
        said: String(first[0]).trim(),
        kill: (signal: NodeJS.Signals) => Effect.promise(() => kill(signal))
      }
    }),
    ({ kill }) => Effect.timeoutOption(kill("SIGKILL"), "5 seconds")
  )
