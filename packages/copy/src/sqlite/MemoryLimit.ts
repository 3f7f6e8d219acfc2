/**
 * The memory limit of a query's process. SQLite's own limit (`PRAGMA hard_heap_limit`) has no effect, because Node
 * builds SQLite without memory statistics. SQLite computes without yielding, so a second thread watches the size of the
 * process.
 */
import { Worker } from "node:worker_threads"

/** The most resident memory of the process. A row with three texts of the largest record, 32 MiB, takes 730 MiB. */
export const maxMebibytes = 1024

/** The signal that ends a process over the limit. Nothing else sends it, so the parent process knows the cause. */
export const memorySignal = "SIGUSR2"

/** SQLite fills two gigabytes per second, so the process exceeds the limit by some 50 MB. */
const intervalMs = 20

/**
 * Ends this process when its parent process has ended, also while it computes: the event `disconnect` waits until it
 * yields. `step` is JavaScript that the second thread runs too. Returns that thread.
 */
export const endWithParent = (step = ""): Worker => {
  const watch = `setInterval(() => {
    if (process.ppid !== ${process.ppid}) process.kill(process.pid, "SIGKILL")
    ${step}
  }, ${intervalMs})`
  const limits = { maxOldGenerationSizeMb: 8, maxYoungGenerationSizeMb: 1 }
  const worker = new Worker(watch, { eval: true, resourceLimits: limits })
  worker.unref()
  return worker
}

/** Ends this process as soon as it is over the limit, or when its parent process has ended. */
export const limitMemory = (): Worker =>
  endWithParent(
    `if (process.memoryUsage.rss() > ${maxMebibytes * 1024 * 1024}) process.kill(process.pid, "${memorySignal}")`
  )
