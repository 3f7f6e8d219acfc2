/** Runs tasks in a child process. */
import { type ChildProcess, fork } from "node:child_process"
import { once } from "node:events"
import { memoryEnvironment } from "../harness/Programs.ts"
import type { Tasks, Timed } from "./tasks.ts"

export interface TaskMessage {
  readonly name: keyof Tasks
  readonly input: unknown
}

type Value<Name extends keyof Tasks> = Awaited<ReturnType<Tasks[Name]>>

/** The tasks that read or copy a list. */
export type TimedTask = { [Name in keyof Tasks]: Value<Name> extends Timed ? Name : never }[keyof Tasks]

/** Runs tasks until it is disposed. */
export class Process implements AsyncDisposable {
  readonly #child: ChildProcess

  constructor(flags: ReadonlyArray<string> = []) {
    // Tests run the source of this file and the built child, which starts in a quarter of the time.
    const file = new URL(import.meta.url.endsWith(".ts") ? "../../dist/child.mjs" : "./child.mjs", import.meta.url)
    this.#child = fork(file, {
      execArgv: [...process.execArgv, ...flags],
      env: { ...process.env, ...memoryEnvironment }
    })
  }

  /** Fails if the child exits first. */
  async run<Name extends keyof Tasks>(name: Name, ...[input]: Parameters<Tasks[Name]>): Promise<Value<Name>> {
    const abort = new AbortController()
    try {
      const response = once(this.#child, "message", { signal: abort.signal })
      const exit = once(this.#child, "exit", { signal: abort.signal }).then(([code]) => {
        throw new Error(`the process exited with code ${String(code)} during the task "${name}"`)
      })
      this.#child.send({ name, input } satisfies TaskMessage)
      const [{ value }] = await Promise.race([response, exit]) as [{ value: Value<Name> }] // child.ts sends only this
      return value
    } finally {
      abort.abort()
    }
  }

  /** Runs a task that ends the child, and waits for its exit. */
  async runLast<Name extends keyof Tasks>(name: Name, ...[input]: Parameters<Tasks[Name]>): Promise<void> {
    const exit = once(this.#child, "exit")
    this.#child.send({ name, input } satisfies TaskMessage)
    await exit
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exit = once(this.#child, "exit")
    this.#child.disconnect()
    await exit
  }
}

/** Fails if a task did not read this number of records. */
export const requireRecords = (measured: Timed, records: number): Timed => {
  if (measured.records !== records) throw new Error(`read ${measured.records} of ${records} records`)
  return measured
}

/** Runs a task in a process of its own. Fails if it does not read this number of records. */
export const runAlone = async <Name extends TimedTask>(
  { flags = [], records }: { readonly flags?: ReadonlyArray<string>; readonly records: number },
  name: Name,
  ...input: Parameters<Tasks[Name]>
): Promise<Timed> => {
  await using process = new Process(flags)
  return requireRecords(await process.run(name, ...input) as Timed, records) // the value of each such task
}
