/**
 * Collects the garbage behind a large batch. V8 waits until its heap has grown by half, and does not count what SQLite and the
 * system hold for it: while pages of 30 MB are written, this takes 150 MB off the memory of the process.
 */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

let collect: (() => void) | undefined

/** Collects the garbage of this thread. It takes some milliseconds. */
export const collectGarbage = (): void => {
  if (collect === undefined) {
    setFlagsFromString("--expose-gc")
    collect = runInNewContext("gc") as () => void // what the flag exposes
    setFlagsFromString("--no-expose-gc")
  }
  collect()
}
