/**
 * Imported before a program: sends it the signal `EARLY_SIGNAL`, `EARLY_AFTER_MS` after its launcher begins to load the bundle;
 * in that very moment where that is negative.
 */
import { registerHooks } from "node:module"

const signal = process.env["EARLY_SIGNAL"] ?? ""
const afterMs = Number(process.env["EARLY_AFTER_MS"])
const send = () => void process.kill(process.pid, signal)

registerHooks({
  load: (url, context, nextLoad) => {
    if (url.endsWith("-main.mjs")) {
      if (afterMs < 0) send()
      else setTimeout(send, afterMs)
    }
    return nextLoad(url, context)
  }
})
