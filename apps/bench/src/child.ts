/** The child process of a measurement: a server, or one workload. It receives the names of tasks as messages. */
import "effect/schema/SchemaJITCompiler/enable"
import type { TaskMessage } from "./workloads/Process.ts"
import { tasks } from "./workloads/tasks.ts"

process.on("message", ({ input, name }: TaskMessage) => {
  const task: (input: never) => Promise<unknown> = tasks[name]
  // `Process.run` sends a task with its own input.
  task(input as never).then(
    (value) => process.send?.({ value }),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    }
  )
})
process.on("disconnect", () => process.exit())
