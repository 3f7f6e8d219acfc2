/** Editing the sources file: what changes, and what never does. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodePath from "@effect/platform-node/NodePath"
import { assert, describe, it } from "@effect/vitest"
import { overStandingClock } from "@payments/testkit/Clocks"
import { temporaryFolder } from "@payments/testkit/Folder"
import { diceOf, seed } from "@payments/testkit/Seed"
import { Effect, Layer, Redacted } from "effect"
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { join } from "node:path"
import { addSource, type NewSource, removeSource } from "../../src/sources/EditSources.ts"

const url = "https://api.example.com"
const files = Layer.merge(NodeFileSystem.layer, NodePath.layer)
const settings = { base_url: url, api_key_env: "KEY" }

const unasked = Effect.die("the key was asked for")

const add = (file: string, name: string, more: Partial<NewSource<never>> = {}) =>
  Effect.provide(
    addSource(file, { name, settings, key: undefined, baseUrl: Effect.die("the address was asked for"), ...more }),
    files
  )
const remove = (file: string, name: string) => Effect.provide(removeSource(file, name), files)

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8)

/** Writes a file into a new folder. */
const written = Effect.fnUntraced(function*(text: string) {
  const file = join(yield* temporaryFolder, "payments.toml")
  writeFileSync(file, text)
  return file
})

const source = (name: string) =>
  `[sources.${name}] # ${name}\nbase_url = "${url}" # why\n\n# the key\napi_key_env="KEY"\n`

describe("addSource", () => {
  it.live("creates a missing file and folder for their owner only", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "config/payments/payments.toml")
      assert.isUndefined(
        yield* add(file, "north", { settings: { ...settings, lists: ["invoices"], account: "a \"b\" ñ" } })
      )
      assert.strictEqual(
        readFileSync(file, "utf8"),
        `[sources.north]\nbase_url = "${url}"\napi_key_env = "KEY"\nlists = ["invoices"]\naccount = "a \\"b\\" ñ"\n`
      )
      assert.deepStrictEqual([modeOf(file), modeOf(join(file, ".."))], ["600", "700"])
    }).pipe(Effect.scoped))

  it.live("keeps every byte of the file, its link and its line ends", () =>
    Effect.gen(function*() {
      for (const end of ["", "\n", "\r\n", "\n\n# end"]) {
        const before = `# ñ top\n[defaults] # d\nevery = '1m'\n\n${source("north")}`.trimEnd().replaceAll(
          "\n",
          end === "\r\n" ? end : "\n"
        ) + end
        const real = yield* written(before)
        chmodSync(real, 0o644)
        const file = join(yield* temporaryFolder, "link.toml")
        symlinkSync(real, file)
        yield* add(file, "south")
        const after = readFileSync(real, "utf8")
        assert.isTrue(after.startsWith(before))
        assert.isTrue(after.endsWith(end === "\r\n" ? `KEY"\r\n` : `KEY"\n`))
        assert.isTrue(lstatSync(file).isSymbolicLink())
        assert.strictEqual(modeOf(real), "600")
        yield* remove(file, "south")
        assert.strictEqual(readFileSync(real, "utf8").trimEnd(), before.trimEnd())
      }
    }).pipe(Effect.scoped))

  it.live("stores the key in a file of its own, never in the sources file", () =>
    Effect.gen(function*() {
      const file = yield* written("")
      const key = Effect.succeed(Redacted.make("sk_canary"))
      const stored = yield* add(file, "north", { settings: { base_url: url }, key })
      assert.strictEqual(stored, join(file, "../keys/north"))
      assert.strictEqual(readFileSync(stored ?? "", "utf8"), "sk_canary\n")
      assert.deepStrictEqual([modeOf(stored ?? ""), modeOf(join(file, "../keys"))], ["600", "700"])
      assert.notInclude(readFileSync(file, "utf8"), "canary")
      assert.strictEqual(yield* remove(file, "north"), stored)
      assert.isFalse(existsSync(stored ?? ""))
      // A key that stands there already is not replaced, except by itself.
      writeFileSync(stored ?? "", "other\n")
      const error = yield* Effect.flip(add(file, "north", { settings: { base_url: url }, key }))
      assert.include(error.message, "has another key")
      assert.notInclude(error.message, "canary")
      assert.strictEqual(readFileSync(file, "utf8"), "")
      yield* add(file, "north", { settings: { base_url: url }, key: Effect.succeed(Redacted.make("other")) })
      // Another source uses the key as well, so it stays.
      yield* add(file, "south", { settings: { base_url: url, api_key_file: "keys/north" } })
      assert.isUndefined(yield* remove(file, "north"))
      assert.isTrue(existsSync(stored ?? ""))
    }).pipe(Effect.scoped))

  it.live("refuses a wrong source, and a file with a mistake, untouched", () =>
    Effect.gen(function*() {
      const refusals: ReadonlyArray<
        readonly [text: string, more: Partial<NewSource<never>>, problem: string, tag: string]
      > = [
        [source("south"), {}, "already has a source south", "CommandExit"],
        ["", { name: "South" }, "The name of a source has 1 to 40 small letters", "CommandExit"],
        ["", { settings: { base_url: url }, key: undefined }, "sources.south has no key", "CommandExit"],
        ["", { settings: { base_url: "http://example.com" } }, "sources.south.base_url must begin", "CommandExit"],
        ["", { settings: { ...settings, every: "1" } }, "sources.south.every must be", "CommandExit"],
        ["", { settings: { ...settings, account: "a\nb" } }, "sources.south.account must be", "CommandExit"],
        [
          `${source("north")}to = "sqlite:a"\n`,
          { settings: { ...settings, to: "sqlite:./a" } },
          "same destination",
          "CommandExit"
        ],
        [`sources = { north = { base_url = "${url}", api_key_env = "K" } }\n`, {}, "Edit it yourself", "CommandExit"],
        ["[sources.north]\n", {}, "sources.north has no base_url", "SourcesError"],
        ["[sources.north", {}, ":1:", "SourcesError"],
        [`${source("north")}api_key = "canary"\n`, {}, "api_key is not a setting", "SourcesError"]
      ]
      for (const [text, more, problem, tag] of refusals) {
        const file = yield* written(text)
        // Nobody is asked for a key that cannot be used.
        const isStored = !("api_key_env" in (more.settings ?? settings))
        const error = yield* Effect.flip(add(file, "south", { key: isStored ? unasked : undefined, ...more }))
        assert.include(error.message, problem)
        assert.strictEqual(error._tag, tag)
        assert.notInclude(error.message, "canary")
        assert.strictEqual(readFileSync(file, "utf8"), text)
        assert.deepStrictEqual(readdirSync(join(file, "..")).toSorted(), ["payments.toml"])
      }
    }).pipe(Effect.scoped))

  it.live("says why a file cannot be written, and leaves nothing behind", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "file/payments.toml")
      writeFileSync(join(file, ".."), "")
      assert.include((yield* Effect.flip(add(file, "north"))).message, "was not changed")
      const folder = yield* temporaryFolder
      mkdirSync(join(folder, "payments.toml"))
      assert.include((yield* Effect.flip(add(join(folder, "payments.toml"), "north"))).message, "a folder")
    }).pipe(Effect.scoped))

  // A program waits for the others for 10 s, which do not pass on this clock.
  it.live("loses no change of many programs at once", () =>
    overStandingClock(() =>
      Effect.gen(function*() {
        const file = yield* written(`# top\n${source("first")}`)
        const names = Array.from({ length: 12 }, (_, index) => `s${index}`)
        yield* Effect.forEach(names, (name) => add(file, name), { concurrency: "unbounded" })
        yield* Effect.forEach(names.slice(0, 6), (name) => remove(file, name), { concurrency: "unbounded" })
        const text = readFileSync(file, "utf8")
        assert.isTrue(text.startsWith(`# top\n${source("first")}`))
        const found = [...text.matchAll(/^\[sources\.(s\d+)\]$/gm)].map(([, name]) => name)
        assert.deepStrictEqual(found.toSorted(), names.slice(6).toSorted())
      })
    ).pipe(Effect.scoped))
})

describe("removeSource", () => {
  it.live("removes only the source, however its settings are written", () =>
    Effect.gen(function*() {
      const first = `# top\nconcurrency = 3\n# before north\n`
      const last = `# before south\n${source("south")}# end`
      for (
        const north of [
          source("north"),
          `\n${source("north")}[sources.north.window]\ndays = 7\nevery = "1h"\n`,
          `[sources]\nnorth.base_url = "${url}"\nnorth.api_key_env = "K" # no\n`,
          `[sources]\nnorth = { base_url = "${url}", api_key_env = "K" }\n`,
          `sources.north = { base_url = "${url}", api_key_env = "K" }\n`,
          `[sources.north]\nbase_url = """\\\n  ${url}"""\napi_key_command = [\n  "a", # b\n  "[sources.south]"\n]\n`
        ]
      ) {
        const file = yield* written(`${first}${north}${last}`)
        yield* remove(file, "north")
        assert.strictEqual(
          readFileSync(file, "utf8"),
          `${first}${north.startsWith("[sources]") ? "[sources]\n" : ""}${last}`
        )
      }
    }).pipe(Effect.scoped))

  it.live("removes the last source, and another one can be added", () =>
    Effect.gen(function*() {
      const file = yield* written(`# mine\n\n${source("north")}`)
      yield* remove(file, "north")
      assert.strictEqual(readFileSync(file, "utf8"), "# mine\n")
      assert.include((yield* Effect.flip(remove(file, "north"))).message, "no source of that name. It has none.")
      yield* add(file, "south")
      assert.include((yield* Effect.flip(remove(file, "suoth"))).message, "The nearest one is south.")
    }).pipe(Effect.scoped))

  it.live(`keeps random other sources byte for byte (PAYMENTS_SEED=${seed})`, () =>
    Effect.gen(function*() {
      const dice = diceOf(seed)
      const pieces = ["# c\n", "\n", "# [sources.x]\n", "  # indented\n"]
      for (let round = 0; round < 30; round++) {
        const names = ["a", "b", "c", "d"]
        const parts = names.map((name) => dice.pick(pieces) + source(name))
        const chosen = dice.below(names.length)
        const file = yield* written(parts.join(""))
        yield* remove(file, names[chosen] ?? "")
        const text = readFileSync(file, "utf8")
        for (const [index, name] of names.entries()) assert.strictEqual(text.includes(source(name)), index !== chosen)
      }
    }).pipe(Effect.scoped))
})
