/** Figures of a running worker, from the system (Linux only) and from its metrics. */
import { readFileSync } from "node:fs"

/** Returns the CPU time of a process so far, in milliseconds. */
export const cpuMs = (pid: number): number => {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8")
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ")
  // The kernel counts in ticks of 10 ms.
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Returns a figure of /proc/PID/status in bytes, such as the largest resident set `VmHWM`. */
export const memory = (pid: number, name: "VmHWM" | "VmRSS"): number => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8")
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024
}

export const metric = async (url: string, name: string): Promise<ReadonlyArray<number>> => {
  const text = await (await fetch(`${url}/metrics`)).text()
  return text.split("\n").filter((line) => line.startsWith(`${name}{`))
    .map((line) => Number(line.slice(line.lastIndexOf(" ") + 1)))
}
