/**
 * A preload module for a program whose end must not depend on time: timers of `NO_TIMERS_FROM_MS` milliseconds or more never
 * fire. If `SIGTERM_SEEN` names a file, it exists as soon as the program handles SIGTERM.
 */
import { writeFileSync } from "node:fs"

const fromMs = Number(process.env["NO_TIMERS_FROM_MS"])
const file = process.env["SIGTERM_SEEN"]
const systemTimeout = globalThis.setTimeout
/** Node does not fire a timer within 24 days. */
const neverMs = 2 ** 31 - 1

globalThis.setTimeout = Object.assign(
  (...[run, ms, ...args]: Parameters<typeof systemTimeout>) =>
    systemTimeout(run, ms !== undefined && ms >= fromMs ? neverMs : ms, ...args),
  systemTimeout
)

// The program's own listeners are called in the same turn.
if (file !== undefined) process.prependListener("SIGTERM", () => writeFileSync(file, ""))
