/**
 * A script for `node --require`: timers of a second or more take ten times as long. A time limit of the program then ends
 * what never comes, but nothing that is late because the machine is busy.
 */
globalThis.setTimeout = new Proxy(globalThis.setTimeout, {
  apply: (start, self, [run, ms, ...args]) => Reflect.apply(start, self, [run, ms >= 1000 ? 10 * ms : ms, ...args])
})
