/**
 * Imported before a program: sets its wall clock by as many milliseconds as the file that `CLOCK_SET_BY` names says, as soon as
 * it says so. Timers and the monotonic clock go on, as they do when a system's clock is set.
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

globalThis.Date = SetDate as DateConstructor // without the call that is no construction, which nothing here uses

setInterval(() => {
  try {
    byMs = Number(readFileSync(file, "utf8"))
  } catch {
    // not set yet
  }
}, 10).unref()
