/**
 * The examples in the documents: blocks marked `console`. A command follows `$ `, and the next lines are its output. All blocks
 * of a page run in one folder, in order. `payments sandbox …` runs in the background until the next such command, as in a
 * second terminal, and `payments sandbox receiver …` in a third one. A block marked `toml` whose first line is `# NAME.toml` is a file in that folder.
 */
import { freePort } from "@payments/testkit/FreePort"
import { binary, runProgram, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "../../../..")

const docs = join(root, "docs")

/** The documents with examples: every page with a block marked `console`. */
export const pageFiles = [
  join(root, "README.md"),
  ...readdirSync(docs).filter((name) => name.endsWith(".md")).map((name) => join(docs, name))
].filter((file) => readFileSync(file, "utf8").includes("\n```console\n"))

const tomlFile = /^```toml\n(# ([\w-]+\.toml)\n.*?)^```$/gms

const block = /^```console\n(.*?)^```$/gms

/** Returns the commands in the examples of a page, each with its output on the page. */
export const examplesIn = (page: string): ReadonlyArray<{ readonly command: string; readonly output: string }> =>
  Array.from(page.matchAll(block), ([, body = ""]) => body.split(/^\$ /m).slice(1)).flat().map((example) => {
    const [command = "", ...lines] = example.split("\n")
    return { command, output: lines.join("\n") }
  })

/** Runs the commands in the examples of a page. Returns the page with their current output. */
export const withOutput = Effect.fnUntraced(function*(page: string) {
  const folder = yield* temporaryFolder
  const ports = { "8787": yield* Effect.promise(freePort), "8790": yield* Effect.promise(freePort) }
  const programs = join(folder, "bin")
  mkdirSync(programs)
  symlinkSync(process.execPath, join(programs, "node"))
  const built = { payments: binary, "payments-worker": join(root, "apps/worker/dist/payments-worker.js") }
  for (const [name, file] of Object.entries(built)) {
    writeFileSync(join(programs, name), `#!/bin/sh\nexec "${process.execPath}" "${file}" "$@"\n`, { mode: 0o755 })
  }
  const commands = Array.from(page.matchAll(block), ([, body = ""]) => commandsOf(body)).flat()
  const script = [
    "trap 'kill $sandbox $receiver' EXIT",
    ...commands.flatMap((line) => [inShell(line, ports), `echo '${mark}'`])
  ]
  const work = join(folder, "work")
  mkdirSync(work)
  for (const [, body = "", name = ""] of page.matchAll(tomlFile)) {
    writeFileSync(
      join(work, name),
      body.replaceAll(/127\.0\.0\.1:(8787|8790)/g, (_, port) => `127.0.0.1:${portIn(ports, port)}`)
    )
  }
  const { stdout } = yield* runProgram("bash", ["-c", `exec 2>&1\n${script.join("\n")}`], {
    cwd: work,
    env: {
      PATH: `${programs}:${process.env["PATH"] ?? ""}`,
      PAYMENTS_BASE_URL: `http://127.0.0.1:${ports["8787"]}`,
      PAYMENTS_API_KEY: "sandbox_key"
    }
  })
  const outputs = stdout.replaceAll("\r\n", "\n").replaceAll(`127.0.0.1:${ports["8787"]}`, "127.0.0.1:8787")
    .replaceAll(`127.0.0.1:${ports["8790"]}`, "127.0.0.1:8790")
    .replaceAll(realpathSync(work), "/etc/payments").split(`${mark}\n`)
  let next = 0
  return page.replaceAll(block, (_, body: string) => {
    const lines = commandsOf(body).map((command) => `$ ${command}\n${outputs[next++] ?? ""}`)
    return `\`\`\`console\n${lines.join("")}\`\`\``
  })
}, Effect.scoped)

/** A line that the script prints after each command, to separate the outputs. */
const mark = "-- end of output --"

const commandsOf = (body: string): ReadonlyArray<string> =>
  Array.from(body.matchAll(/^\$ (.*)$/gm), ([, command = ""]) => command)

/** The ports that stand for those of the pages. */
interface Ports {
  readonly "8787": number
  readonly "8790": number
}

const portIn = (ports: Ports, port: string): number => port === "8790" ? ports["8790"] : ports["8787"]

const inShell = (command: string, ports: Ports): string => {
  const [, worker] = /^timeout \d+ (payments-worker run .*)$/.exec(command) ?? []
  // A busy machine takes longer than the page says. The worker ends when it has handed everything off.
  if (worker !== undefined) {
    return `timeout 120 ${worker} & worker=$!
for _ in {1..600}; do
  payments handoff list --config payments.toml --format ndjson | grep -q '"lag":0,' && break; sleep 0.2
done
kill $worker; wait $worker`
  }
  if (!command.startsWith("payments sandbox")) return command
  const [name, port] = command.startsWith("payments sandbox receiver") ? ["receiver", "8790"] : ["sandbox", "8787"]
  const own = portIn(ports, port)
  return `[ -z "$${name}" ] || { kill $${name}; wait $${name}; }
${command.replace(`--port ${port}`, `--port ${own}`)} > ../${name}.log 2>&1 & ${name}=$!
for _ in {1..1200}; do (: < /dev/tcp/127.0.0.1/${own}) 2> /dev/null && break; sleep 0.05; done`
}

/** Removes times, durations, ages and the padding around them, and names of generations: they differ from run to run. */
export const withoutTimes = (text: string): string =>
  text.replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "TIME").replaceAll(/-\d{17}-/g, "-TIME-")
    .replaceAll(/ +(?:seconds|\d+\.\d)$/gm, " SECONDS").replaceAll(/ +(?:\d+m )?\d+s +/g, " AGE ")
    .replaceAll(/\b[0-9a-f]{12}\b/g, "GENERATION")
