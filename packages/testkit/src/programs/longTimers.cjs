/**
 * A script for `node --require`: timers of `LONG_TIMERS_FROM_MS` milliseconds or more take `LONG_TIMERS_BY` times as long. A time
 * limit of the program then ends what never comes, but nothing that is late because the machine is busy. If `SIGTERM_SEEN` names
 * a file, it exists as soon as the program handles SIGTERM.
 */
const { writeFileSync } = require("node:fs")

const fromMs = Number(process.env.LONG_TIMERS_FROM_MS)
const by = Number(process.env.LONG_TIMERS_BY)
/** The longest time that Node accepts: 24 days. */
const longestMs = 2 ** 31 - 1

globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
  apply: (start, self, [run, ms, ...args]) =>
    Reflect.apply(start, self, [run, ms >= fromMs ? Math.min(by * ms, longestMs) : ms, ...args])
})

const seen = process.env.SIGTERM_SEEN
// The program's own listeners are called in the same turn.
if (seen !== undefined) process.prependListener("SIGTERM", () => writeFileSync(seen, ""))
