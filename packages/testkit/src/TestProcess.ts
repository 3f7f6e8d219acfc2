/**
 * Starts the processes of tests. A process inherits nothing of the machine that changes what it does: no terminal, no
 * home folder with settings, no locale. It gets {@link environment} with the variables that the test gives. Tests start
 * processes only with these functions; `TestProcess.test.ts` checks that.
 */
import * as processes from "node:child_process"
import { promisify } from "node:util"

/** Returns the environment of a process: `PATH`, a home folder that does not exist, and the given variables. */
export const environment = (variables: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  ...variables
})

/** The variables of a machine that change what the programs do. Those of {@link isOfTests} change what the tests do. */
const ofMachine =
  /^(TERM|COLUMNS|LINES|COLORTERM|NO_COLOR|FORCE_COLOR|CLICOLOR.*|LANG|LC_.*|XDG_.*|PG.*|OTEL_.*|NODE_DEBUG.*|PAYMENTS_.*)$/

const isOfTests = /^PAYMENTS_(SEED|CRASH|POSTGRES)$/

/** Removes the variables of the machine from this process, for programs that a test runs in its own process. */
export const removeMachineVariables = (): void => {
  for (const name of Object.keys(process.env)) {
    if (ofMachine.test(name) && !isOfTests.test(name)) delete process.env[name]
  }
}

interface Options {
  readonly env?: NodeJS.ProcessEnv | undefined
}

const isOptions = (argument: unknown): argument is Options =>
  typeof argument === "object" && argument !== null && !Array.isArray(argument)

/** Adds {@link environment} to the options in the arguments of a function of `node:child_process`. */
const withEnvironment = (args: ReadonlyArray<unknown>): Array<unknown> => {
  const index = args.findIndex(isOptions)
  const given = args[index]
  // A script without variables of its own compiles each module once.
  const cache = { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] }
  const options = isOptions(given)
    ? { ...given, env: environment(given.env ?? cache) }
    : { env: environment(cache) }
  if (index >= 0) return args.with(index, options)
  const callback = args.findIndex((argument) => typeof argument === "function")
  return args.toSpliced(callback < 0 ? args.length : callback, 0, options)
}

/** Returns the function with the same types, which gives its process {@link environment}. */
const isolated = <Start extends (...args: never) => unknown>(start: Start): Start =>
  // The overloads of a function keep their types: only the value of an option changes.
  ((...args: ReadonlyArray<unknown>) => start(...withEnvironment(args) as never)) as unknown as Start

export const spawn = isolated(processes.spawn)
export const spawnSync = isolated(processes.spawnSync)
export const fork = isolated(processes.fork)
export const execFileSync = isolated(processes.execFileSync)
export const execFile: typeof processes.execFile = Object.assign(isolated(processes.execFile), {
  [promisify.custom]: isolated(promisify(processes.execFile)),
  __promisify__: isolated(processes.execFile.__promisify__)
})
