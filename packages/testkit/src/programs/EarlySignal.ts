/**
 * A preload module that sends the program the signal `EARLY_SIGNAL`, `EARLY_AFTER_MS` milliseconds after the launcher
 * begins to load the bundle. If the number is negative, it sends the signal at once.
 */
import { registerHooks } from "node:module"

const signal = process.env["EARLY_SIGNAL"] ?? ""
const afterMs = Number(process.env["EARLY_AFTER_MS"])
const send = () => void process.kill(process.pid, signal)

registerHooks({
  load: (url, context, nextLoad) => {
    if (url.endsWith("-main.cjs")) {
      if (afterMs < 0) send()
      else setTimeout(send, afterMs)
    }
    return nextLoad(url, context)
  }
})
