/**
 * Runs the command that prints an API key, without a shell, and with limits on its time and its output. Nothing that it
 * prints is ever shown: for a failed command, messages have only the exit code.
 */
import { errorCode } from "@payments/copy"
import { type Checked, type KeySource, largestKeyBytes } from "@payments/core"
import { Duration, Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import type { Readable } from "node:stream"

export const keyCommandTime = Duration.seconds(30)

/** Returns the key that the command prints, without the white space around it. */
export const makeKeyCommand = (
  setting: string,
  [program = "", ...args]: ReadonlyArray<string>,
  folder: string,
  time: Duration.Duration = keyCommandTime
): KeySource => ({
  setting,
  read: output(program, args, folder).pipe(
    Effect.timeoutOrElse({
      duration: time,
      orElse: () => Effect.succeed({ problem: `did not end within ${Duration.toSeconds(time)} s` })
    })
  )
})

/** An interruption kills the command, with the processes that it started. */
const output = (program: string, args: ReadonlyArray<string>, folder: string) =>
  Effect.callback<Checked<Redacted.Redacted<string>>>((resume) => {
    const end = (result: Checked<Redacted.Redacted<string>>): void => resume(Effect.succeed(result))
    const onStartError = (error: unknown): void =>
      end({ problem: `cannot be started (${errorCode(error) ?? "unknown"})` })
    try {
      const child = spawn(program, args, {
        cwd: folder,
        stdio: ["ignore", "pipe", "ignore"],
        // A group of its own, so that the processes that it starts can be killed with it. Windows has no groups.
        detached: process.platform !== "win32",
        windowsHide: true
      })
      child.on("error", onStartError)
      // If the system has no more file descriptors, there is no pipe, contrary to the type of `spawn`.
      const stdout: Readable | undefined = child.stdout
      const kill = (): void => {
        // A process that the command started may keep the pipe open.
        stdout?.destroy()
        if (child.pid === undefined) return
        try {
          process.kill(process.platform === "win32" ? child.pid : -child.pid, "SIGKILL")
        } catch {
          // All of its processes have ended.
        }
      }
      const chunks: Array<Buffer> = []
      let size = 0
      stdout?.on("data", (chunk: Buffer) => {
        chunks.push(chunk)
        size += chunk.length
        if (size <= largestKeyBytes) return
        kill()
        end({ problem: `printed more than ${largestKeyBytes / 1024} KiB` })
      })
      // Not "exit": output may arrive after it.
      child.on("close", (code, signal) => {
        if (code !== 0) {
          return end({ problem: code === null ? `was ended by ${signal}` : `failed with exit code ${code}` })
        }
        const key = Buffer.concat(chunks).toString("utf8").trim()
        end(key === "" ? { problem: "printed nothing" } : { value: Redacted.make(key) })
      })
      return Effect.sync(kill)
    } catch (error) {
      // `spawn` throws some errors of the system, such as E2BIG.
      onStartError(error)
      return undefined
    }
  })
