/**
 * A preload module that changes the wall clock of a program. `CLOCK_SET_BY` names a file that contains the number of
 * milliseconds to add. The clock changes as soon as the file exists. Timers and the monotonic clock are not affected, as when
 * the clock of a system is set.
 */
import { readFileSync } from "node:fs"

const file = process.env["CLOCK_SET_BY"] ?? ""
const SystemDate = Date
let byMs = 0

class SetDate extends SystemDate {
  constructor(...given: ReadonlyArray<unknown>) {
    // @ts-expect-error -- any arguments of Date
    super(...(given.length === 0 ? [SetDate.now()] : given))
  }
  static override now() {
    return SystemDate.now() + byMs
  }
}

globalThis.Date = SetDate as DateConstructor // it lacks the call without `new`, which nothing here uses

setInterval(() => {
  try {
    byMs = Number(readFileSync(file, "utf8"))
  } catch {
    // The file does not exist yet.
  }
}, 10).unref()
