/** Runs the example of docs/worker.md with two sandboxes and a worker, block by block, in one shell. */
import { assert, it } from "@effect/vitest"
import { freePort } from "@payments/testkit/FreePort"
import { binary, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { spawn } from "@payments/testkit/TestProcess"
import { Effect, Schedule } from "effect"
import { once } from "node:events"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../../../..")
const page = readFileSync(join(root, "docs/worker.md"), "utf8")

const blocksOf = (language: string): ReadonlyArray<string> =>
  Array.from(page.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "gms")), ([, body = ""]) => body)

/** The ports of the example. */
const portNumbers = ["8787", "8788", "8789", "9464"]

it.live(
  "the example with two accounts shows a revoked key within its limit, and the worker goes on after it was killed",
  () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      const ports = new Map<string, number>()
      for (const port of portNumbers) ports.set(port, yield* Effect.promise(freePort))
      const withPorts = (text: string) =>
        text.replaceAll(/\b(8787|8788|8789|9464)\b/g, (port) => String(ports.get(port)))
      const programs = join(folder, "bin")
      mkdirSync(programs)
      const built = { payments: binary, "payments-worker": join(root, "apps/worker/dist/payments-worker.js") }
      for (const [name, file] of Object.entries(built)) {
        writeFileSync(join(programs, name), `#!/bin/sh\nexec "${process.execPath}" "${file}" "$@"\n`, { mode: 0o755 })
      }
      const [sources = ""] = blocksOf("toml")
      writeFileSync(join(folder, "payments.toml"), withPorts(sources))

      const shell = spawn("bash", [], {
        cwd: folder,
        env: { PATH: `${programs}:${process.env["PATH"]}`, HOME: folder, PAYMENTS_PORT: String(ports.get("9464")) },
        stdio: ["pipe", "pipe", "pipe"]
      })
      let out = ""
      for (const stream of [shell.stdout, shell.stderr]) stream.on("data", (chunk: Buffer) => out += chunk.toString())
      yield* Effect.addFinalizer(() =>
        Effect.promise(async () => {
          const exit = once(shell, "exit")
          shell.stdin.end("kill -9 $(jobs -p)\n")
          await exit
        })
      )
      const run = (block: string | undefined) => Effect.sync(() => shell.stdin.write(withPorts(block ?? "exit 1\n")))

      /** Waits until the worker answers `/health/fresh` with this status and these sources. Returns the stale sources. */
      const untilStatus = (status: number, isExpected: (body: string) => boolean = () => true) =>
        Effect.promise(async () => {
          const response = await fetch(`http://127.0.0.1:${ports.get("9464")}/health/fresh`).catch(() => undefined)
          const body = await response?.text()
          return response?.status === status && body !== undefined && isExpected(body) ? body : undefined
        }).pipe(
          Effect.repeat({ schedule: Schedule.spaced("100 millis"), until: (body) => body !== undefined }),
          Effect.timeoutOrElse({ duration: "2 minutes", orElse: () => Effect.die(new Error(`not ${status}: ${out}`)) })
        )

      const [sandboxes, start, fault, restart, end, ...more] = blocksOf("bash")
      assert.deepStrictEqual(more, [])
      yield* run(sandboxes)
      yield* Effect.repeat(Effect.sync(() => out.split("until Ctrl-C").length), {
        schedule: Schedule.spaced("50 millis"),
        until: (started) => started === 3
      })
      yield* run(start)
      yield* untilStatus(200)
      assert.include(out, "south: invoices: can be read")
      yield* run(fault)
      // On a busy machine an export of the other account may be late, too, until the next one.
      const stale = yield* untilStatus(503, (body) => !body.includes(`"source":"north"`))
      assert.include(stale, `"source":"south"`)
      assert.include(stale, "did not accept the key")
      yield* run(restart)
      yield* untilStatus(200)
      yield* run(`${end}wait; echo "jobs left: $(jobs -r | wc -l)"\n`)
      yield* Effect.repeat(Effect.sync(() => /jobs left: *(\d+)/.exec(out)?.[1]), {
        schedule: Schedule.spaced("50 millis"),
        until: (left) => left === "0"
      })
    }).pipe(Effect.scoped),
  600_000
)
