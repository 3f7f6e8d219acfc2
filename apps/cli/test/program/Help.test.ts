/** The help, the reference page and the behaviour of every command agree. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { scanDefaults } from "@payments/copy"
import { layerTest } from "@payments/core/testing"
import { Doctor } from "@payments/program"
import { defaultSpeed } from "@payments/sandbox"
import { spawnSync } from "@payments/testkit/TestProcess"
import { Duration, Effect, Result } from "effect"
import { Command, Completions, type Flag } from "effect/cli"
import { TestConsole } from "effect/testing"
import { readFileSync } from "node:fs"
import { payments } from "../../src/cli.ts"
import { limits } from "../../src/commands/find.ts"
import { pageSize } from "../../src/listing/Listing.ts"
import { cliPage, withSections } from "../docs/Reference.ts"
import { runInProcess, withoutColors } from "./InProcess.ts"
import { everyCommand, testServices } from "./Tree.ts"

const root = await payments(testServices, [])

/** Returns a command and all commands below it that help lists. */
const commandsIn = (
  command: Command.Command.Any,
  parents: ReadonlyArray<string> = []
): ReadonlyArray<readonly [path: string, command: Command.Command.Any]> => {
  const path = [...parents, command.name]
  const children = command.subcommands.flatMap(({ commands }) => commands).filter(({ unlisted }) => !unlisted)
  return [[path.join(" "), command], ...children.flatMap((child) => commandsIn(child, path))]
}

/** Returns the flags of a command. The library does not publish them. */
const flagsOf = (command: Command.Command.Any): ReadonlyArray<Flag.Flag<unknown>> =>
  (command as unknown as { readonly config: { readonly flags: ReadonlyArray<Flag.Flag<unknown>> } }).config.flags

const described = (flag: Flag.Flag<unknown>) =>
  Completions.fromCommand(Command.make("one", { flag })).flags.map(({ description, name }) => ({
    name,
    description: description ?? ""
  }))

/** The defaults of the flags whose texts the commands parse themselves. */
const defaults: { readonly [flag: string]: string | number } = {
  "payments payout-requests list --patience": "1m",
  "payments payin-sources list --patience": "1m",
  "payments invoices list --patience": "1m",
  "--patience": Duration.format(scanDefaults.patience),
  "--on-locked": scanDefaults.onLocked,
  "--missing-limit": `${scanDefaults.missingLimit * 100}%`,
  "payments export --concurrency": scanDefaults.concurrency,
  "payments find --limit": limits.default,
  "payments payout-requests list --limit": pageSize.default,
  "payments payin-sources list --limit": pageSize.default,
  "payments invoices list --limit": pageSize.default,
  "payments doctor --timeout": Duration.format(Doctor.checkTime),
  "payments sandbox --speed": defaultSpeed,
  "payments sandbox --control-host": "127.0.0.1"
}

/** Texts that say in words what happens without the flag. */
const inWords = /default:? (table on a terminal|all |that of|--base-url|payments\/)/

it("no help needs a word of the inside", () => {
  for (const [path, command] of commandsIn(root)) {
    const texts = [
      command.description ?? "",
      ...flagsOf(command).flatMap(described).map(({ description }) => description)
    ]
    for (const text of texts) assert.notMatch(text, /\b(?:pass(?! show)|passes|parts?|epochs?)\b/, path)
  }
})

describe("help", () => {
  it("says what every command is for, describes every flag and argument, and gives two examples", () => {
    for (const [path, command] of commandsIn(root)) {
      assert.isAbove(command.description?.length ?? 0, 10, path)
      if (command.subcommands.length === 0) assert.isAbove(command.examples.length, 1, `${path}: examples`)
      for (const { command: line, description } of command.examples) {
        assert.include(line, path)
        assert.isAbove(description?.length ?? 0, 2, line)
      }
    }
    for (const { command, path } of everyCommand(Completions.fromCommand(root))) {
      for (const { description, name } of [...command.flags, ...command.arguments]) {
        assert.isAbove(description?.length ?? 0, 2, `${path.join(" ")} ${name}`)
      }
    }
  })

  it.effect("has a section on the reference page for every command; `npm run docs` writes them", () =>
    Effect.gen(function*() {
      const page = readFileSync(cliPage, "utf8")
      const headings = (text: string) => text.match(/^## .*$/gm)
      assert.deepStrictEqual(headings(page), headings(yield* withSections(page)))
    }))

  it.effect("names the real default of every flag that has one, and no other", () =>
    Effect.gen(function*() {
      const compared: Array<string> = []
      for (const [path, command] of commandsIn(root)) {
        for (const flag of flagsOf(command)) {
          const [{ description = "", name = "" } = {}] = described(flag)
          const [, named] = inWords.test(description) ? [] : /default:? ([\w.%-]+)/.exec(description) ?? []
          // Without any argument, a flag has its default.
          const parsed = yield* Effect.result(flag.parse({ flags: { [name]: [] }, arguments: [] }))
          const value = Result.isSuccess(parsed) ? parsed.success[1] : undefined
          const isGiven = value !== undefined && value !== false && !(Array.isArray(value) && value.length === 0)
          const real = isGiven ? value : defaults[`${path} --${name}`] ?? defaults[`--${name}`]
          assert.strictEqual(named, real === undefined ? undefined : String(real), `${path} --${name}: ${description}`)
          if (named !== undefined) compared.push(`${path} --${name}`)
        }
      }
      assert.isAbove(compared.length, 20)
    }).pipe(Effect.provide(NodeServices.layer)))

  it("offers JSON for every result", () => {
    const without = commandsIn(root).filter(([, command]) =>
      command.subcommands.length === 0 && !flagsOf(command).some((flag) => described(flag)[0]?.name === "format")
    )
    // The protocol of this server is JSON.
    assert.deepStrictEqual(without.map(([path]) => path), ["payments mcp"])
  })

  it.effect("fits a narrow terminal, and its examples can still be copied", () =>
    Effect.gen(function*() {
      const helpOf = Effect.fnUntraced(function*(path: string, columns: number) {
        const before = (yield* TestConsole.logLines).length
        yield* runInProcess(layerTest({}), [...path.split(" ").slice(1), "--help"], columns > 0, columns)
        return (yield* TestConsole.logLines).slice(before).join("\n")
      })
      const examplesIn = (help: string) => /^EXAMPLES\n([^]*)/m.exec(help)?.[1] ?? ""
      /** A function that prints the arguments replaces each program. Files are not written. */
      const runnable = (help: string) =>
        examplesIn(help).replaceAll(/[<>]\(?/g, " redirect ").replaceAll(")\n", "\n").replaceAll(" | ", " pipe ")
      const printed = (script: string) =>
        spawnSync("bash", [
          "--norc",
          "-c",
          `payments() { printf '<%s>' "$@"; echo; }; source() { payments "$@"; }\n${script}`
        ], {
          encoding: "utf8"
        })
      const [wide, narrow] = [new Array<string>(), new Array<string>()]
      for (const [path] of commandsIn(root)) {
        for (const columns of [40, 60]) {
          const help = yield* helpOf(path, columns)
          for (const line of help.split("\n")) {
            // A long word, or text in single quotes, is not broken.
            if (line.length > columns) assert.match(line, /^ *(\S+|(--\S+ )?'[^']*')( \\)?$/, `${path}: ${line}`)
          }
          const descriptions = /\nFLAGS\n([^]*?)\n\n/.exec(help)?.[1]?.split("\n") ?? []
          for (const line of descriptions.filter((one) => one.startsWith("   "))) {
            assert.isBelow(line.length - line.trimStart().length, columns / 2, `${path}: ${line}`)
          }
          wide.push(runnable(yield* helpOf(path, 0)))
          narrow.push(runnable(help))
        }
      }
      const [expected, found] = [printed(wide.join("\n")), printed(narrow.join("\n"))]
      assert.strictEqual(expected.stderr, "")
      assert.isAbove(expected.stdout.split("\n").length, 80)
      assert.deepStrictEqual([found.stdout, found.stderr], [expected.stdout, ""])
    }).pipe(withoutColors))
})
