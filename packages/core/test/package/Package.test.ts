/**
 * Tests the package as users install it: packed by pnpm and unpacked into a project outside this workspace, so that
 * only the content of the tarball can be imported. The tests use no network: the other packages (`effect`,
 * `@effect/platform-node`, TypeScript) are linked from the workspace's installation.
 */
import { assert, beforeAll, describe, it } from "@effect/vitest"
import { page } from "@payments/testkit/PageBody"
import { execFile } from "@payments/testkit/TestProcess"
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { gzipSync } from "node:zlib"
import { rolldown } from "rolldown"
import { afterAll } from "vitest"
import { pack, type Tarball } from "../../../../scripts/release.ts"
import { oldestNode } from "../../src/http/NodeVersion.ts"

const core = join(import.meta.dirname, "../..")
const folder = realpathSync(mkdtempSync(join(tmpdir(), "payments-core-")))
const consumer = join(folder, "consumer")
/** The home folder of the programs. It has nothing that an installation left in that of the user. */
const home = join(folder, "home")
let tarballs: ReadonlyArray<Tarball> = []
const tarballOf = (name: string) => tarballs.find((tarball) => tarball.name === name)?.file ?? ""
const installed = join(consumer, "node_modules/@payments/core")

const json = (file: string): Manifest => JSON.parse(readFileSync(file, "utf8"))

interface Manifest {
  readonly version: string
  readonly private?: boolean
  readonly sideEffects?: ReadonlyArray<string>
  readonly engines?: Readonly<Record<string, string>>
  readonly license?: string
  readonly scripts?: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
}

/** Milliseconds. Only a program that hangs takes so long, also on a busy machine. */
const timeout = 600_000

/** Runs a program without the settings and the package registry of the machine. */
const run = async (file: string, args: ReadonlyArray<string>, cwd: string, settings: Record<string, string> = {}) => {
  const outcome = promisify(execFile)(file, args, { cwd, env: { HOME: home, ...settings }, timeout })
  return outcome.then(({ stdout }) => ({ code: 0, output: stdout }), (error) => ({
    code: Number(error.code ?? 1),
    output: `${error.stdout}${error.stderr}${error.killed === true ? "(stopped after 10 minutes)" : ""}`
  }))
}

const passes = async (file: string, args: ReadonlyArray<string>, cwd: string) => {
  const { code, output } = await run(file, args, cwd)
  assert.strictEqual(code, 0, `${file} ${args.join(" ")}\n${output}`)
  return output
}

/** Runs the workspace's own pnpm. */
const pnpm = (args: ReadonlyArray<string>, cwd: string) => passes(join(core, "../../node_modules/.bin/pnpm"), args, cwd)

const linked = (name: string, root = core) => `link:${realpathSync(join(root, "node_modules", name))}`

beforeAll(async () => {
  tarballs = await pack(folder)
  mkdirSync(consumer)
  const peers = { effect: linked("effect"), "@effect/platform-node": linked("@effect/platform-node") }
  writeFileSync(
    join(consumer, "package.json"),
    JSON.stringify({
      name: "consumer",
      private: true,
      type: "module",
      dependencies: { "@payments/core": `file:${tarballOf("@payments/core")}`, ...peers },
      devDependencies: { "@types/node": linked("@types/node", join(core, "../..")) },
      pnpm: { overrides: peers }
    })
  )
  await pnpm(["install", "--offline", "--ignore-workspace", "--ignore-scripts"], consumer)
}, timeout)

afterAll(() => rmSync(folder, { recursive: true }))

const inSource = readdirSync(join(core, "src"), { recursive: true, encoding: "utf8" })
const sources = inSource.filter((file) => file.endsWith(".ts")).map((file) => file.slice(0, -3))
const roomReadmes = inSource.filter((file) => file.endsWith("README.md")).map((file) => `src/${file}`)

describe("the packed package", { timeout }, () => {
  it("contains the modules with types, maps and sources, a manifest, a readme, and nothing else", async () => {
    const packed = (await passes("tar", ["-tzf", tarballOf("@payments/core")], folder)).trim().split("\n")
    const expected = sources.flatMap((name) => [
      `src/${name}.ts`,
      ...[".js", ".js.map", ".d.ts", ".d.ts.map"].map((ending) => `dist/${name}${ending}`)
    ])
    assert.deepStrictEqual(
      packed.toSorted(),
      ["README.md", "package.json", ...roomReadmes, ...expected].map((file) => `package/${file}`).toSorted()
    )
  })

  it("refers to nothing of this workspace, and has no install script", () => {
    const manifest = json(join(installed, "package.json"))
    assert.notMatch(JSON.stringify(manifest), /(?:workspace|catalog|link|file):/)
    // `npm run test:release` tests the versions in this range.
    const range = ">=4.0.0 <4.2.0"
    assert.deepStrictEqual(manifest.peerDependencies, { "@effect/platform-node": range, effect: range })
    assert.isUndefined(manifest.dependencies)
    assert.match(json(join(core, "node_modules/effect/package.json")).version, /^4\.1\./)
    assert.strictEqual(manifest.license, "UNLICENSED")
    assert.deepStrictEqual(manifest.engines, { node: `>=${oldestNode.major}.${oldestNode.minor}.0` })
    // The check of Node's version is the only module with a side effect.
    assert.deepStrictEqual(manifest.sideEffects, ["./dist/http/NodeVersion.js", "./src/http/NodeVersion.ts"])
    assert.isUndefined(manifest.scripts)
    assert.deepStrictEqual(manifest.exports, {
      ".": "./dist/index.js",
      "./node": "./dist/node.js",
      "./promise": "./dist/promise.js",
      "./testing": "./dist/testing.js"
    })
  })

  it("imports nothing except its peer, in code and declarations, outside its node entry", () => {
    // Only these modules, which the node entry imports, may import Node.
    const ofNode = /^node$|^http\/(?:Node|Undici)/
    const reached = new Set<string>()
    const follow = (name: string) => {
      if (reached.has(name) || ofNode.test(name)) return
      reached.add(name)
      const text = readFileSync(join(installed, `dist/${name}.js`), "utf8").replaceAll(/\/\*.*?\*\//gs, "")
      for (const [, path = ""] of text.matchAll(/(?:from |import ?\(?)"(\.[^"]*)\.js"/g)) {
        const next = join(dirname(name), path)
        assert.isFalse(ofNode.test(next), `${name} imports ${next}`)
        follow(next)
      }
    }
    for (const entry of ["index", "promise", "testing"]) follow(entry)
    for (const name of sources) {
      for (const ending of [".js", ".d.ts"]) {
        const text = readFileSync(join(installed, `dist/${name}${ending}`), "utf8").replaceAll(/\/\*.*?\*\//gs, "")
        const imported = Array.from(
          text.matchAll(/(?:from |import ?\(?)"([^".][^"]*)"/g),
          ([, specifier = ""]) => specifier
        )
        const allowed = ofNode.test(name)
          ? /^(?:effect(?:\/|$)|@effect\/platform-node(?:\/|$)|node:)/
          : /^effect(?:\/|$)/
        assert.deepStrictEqual(imported.filter((specifier) => !allowed.test(specifier)), [], `${name}${ending}`)
        assert.notInclude(text, "/// <reference", `${name}${ending}`)
      }
    }
  })

  it.each(["@payments/core", "@payments/sandbox", "@payments/copy"])(
    "passes publint and arethetypeswrong: %s",
    async (name) => {
      const tarball = tarballOf(name)
      assert.include(await passes(join(core, "node_modules/.bin/publint"), [tarball, "--strict"], folder), "All good!")
      // The packages have ECMAScript modules only: no `require`, and no resolution without `exports`.
      const types = await passes(join(core, "node_modules/.bin/attw"), [tarball, "--profile", "esm-only"], folder)
      const manifest: Manifest = JSON.parse(
        await passes("tar", ["-xzOf", tarball, "package/package.json"], folder)
      )
      assert.notMatch(JSON.stringify(manifest), /(?:workspace|catalog|link|file):/)
      for (const entry of Object.keys(manifest.exports)) assert.include(types, `"${join(name, entry)}"`)
    }
  )

  it.each(["@payments/cli", "@payments/worker"])("passes publint, and has no dependencies: %s", async (name) => {
    const tarball = tarballOf(name)
    const manifest: Manifest = JSON.parse(await passes("tar", ["-xzOf", tarball, "package/package.json"], folder))
    assert.deepStrictEqual([manifest.dependencies, manifest.peerDependencies, manifest.license], [
      undefined,
      undefined,
      "UNLICENSED"
    ])
    const files = await passes("tar", ["-tzf", tarball], folder)
    assert.notInclude(files, "compile-cache")
    assert.include(await passes(join(core, "node_modules/.bin/publint"), [tarball, "--strict"], folder), "All good!")
  })
})

const program = `
import { type Invoice, PaymentsApi, PaymentsError, timestamp } from "@payments/core"
import { connectFromEnvironment, layerHttpClient } from "@payments/core/node"
import { connect, connectWith } from "@payments/core/promise"
import { Arbitraries, layerTest } from "@payments/core/testing"
import { Effect, Layer, Stream } from "effect"
import type { HttpClient } from "effect/http"

const invoices: ReadonlyArray<Invoice> = [{ id: "a", amount: 1, status: "paid" }, { id: "b", amount: null }]
// @ts-expect-error a field that no invoice has
const wrong: ReadonlyArray<Invoice> = [{ id: "a", amuont: 1 }]
const client: Layer.Layer<HttpClient.HttpClient> = layerHttpClient

const sum = PaymentsApi.use((api) =>
  Stream.runFold(api.invoices.stream({ limit: 1 }), () => 0, (total, { amount }) => total + (amount ?? 0))
)
const payments = await connectWith(layerTest({ invoices }))
const ids: Array<string> = []
for await (const invoice of payments.invoices.stream({ limit: 1 })) ids.push(invoice.id)
const page = await payments.invoices.page()
// @ts-expect-error a filter that the list does not have
const refused: unknown = await payments.invoices.page({ colour: "red" }).catch((error: unknown) => error)
await payments.close()

const missing: unknown = await connectFromEnvironment({}).catch((error: unknown) => error)
console.log(JSON.stringify({
  sum: await Effect.runPromise(sum.pipe(Effect.provide(layerTest({ invoices })))),
  ids,
  texts: page.records().map(({ text }) => text),
  refused: refused instanceof PaymentsError ? refused.reason._tag : "?",
  missing: missing instanceof Error ? missing.message : "?",
  others: [typeof connect, typeof Arbitraries.record, typeof timestamp, Layer.isLayer(client), wrong.length]
}))
`

const deep = `export { makeListOperations } from "@payments/core/listing/ListReader"\n`

describe("an empty project that installs it", { timeout }, () => {
  const strict = { target: "ES2024", strict: true, exactOptionalPropertyTypes: true, noEmit: true }
  const project = (file: string, options: object) => {
    writeFileSync(join(consumer, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: [file] }))
    return consumer
  }
  const compilers = { 5.9: "node_modules/typescript-5/bin/tsc", 7: "node_modules/typescript/bin/tsc" }
  const resolutions = {
    // Effect's declarations use types of the DOM that Node's types do not have.
    nodenext: { ...strict, module: "NodeNext", lib: ["ES2024"], types: ["node"], skipLibCheck: true },
    bundler: { ...strict, module: "ESNext", moduleResolution: "bundler", lib: ["ES2024", "DOM"], types: [] }
  }
  const all = (["5.9", "7"] as const).flatMap((version) =>
    (["nodenext", "bundler"] as const).map((resolution) => [version, resolution] as const)
  )

  it.each(all)(
    "type-checks with TypeScript %s and %s, against the declarations and, with bundler, inside them",
    async (version, resolution) => {
      const compiler = join(core, compilers[version])
      assert.include(await passes(process.execPath, [compiler, "--version"], consumer), `Version ${version}.`)
      writeFileSync(join(consumer, "main.ts"), program)
      await passes(process.execPath, [compiler, "-p", project("main.ts", resolutions[resolution])], consumer)
      writeFileSync(join(consumer, "deep.ts"), deep)
      const { output } = await run(
        process.execPath,
        [compiler, "-p", project("deep.ts", resolutions[resolution])],
        consumer
      )
      assert.match(output, /^deep\.ts\(1,\d+\): error TS2307/)
    }
  )

  it("runs all four entries", async () => {
    writeFileSync(join(consumer, "main.ts"), program)
    assert.deepStrictEqual(JSON.parse(await passes(process.execPath, ["main.ts"], consumer)), {
      sum: 1,
      ids: ["a", "b"],
      texts: [`{"id":"a","amount":1,"status":"paid"}`, `{"id":"b","amount":null}`],
      refused: "InvalidRequest",
      missing:
        "PAYMENTS_BASE_URL is not set; PAYMENTS_API_KEY is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key",
      others: ["function", "function", "function", true, 1]
    })
  })

  it.each(["listing/ListReader", "listing/ListReader.js", "dist/index.js", "src/index.ts", "PaymentsApi"])(
    "cannot import %s",
    async (path) => {
      const { output } = await run(process.execPath, ["-e", `import("@payments/core/${path}")`], consumer)
      assert.include(output, "ERR_PACKAGE_PATH_NOT_EXPORTED")
    }
  )

  it.each(["20.20.2", "22.19.0", "18.0.0"])(
    "says in one line that Node %s is too old for its node entry",
    async (version) => {
      writeFileSync(
        join(consumer, "old.cjs"),
        `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } })`
      )
      const load = (entry: string) =>
        `import("@payments/core/${entry}").then(() => console.log("loaded"), (error) => console.log(error.message))`
      const { output } = await run(process.execPath, ["--require", "./old.cjs", "-e", load("node")], consumer)
      assert.strictEqual(
        output,
        `@payments/core/node needs Node 22.20 or later; this is Node ${version}. On other runtimes, use @payments/core/promise, which uses fetch.\n`
      )
      const elsewhere = await run(process.execPath, ["--require", "./old.cjs", "-e", load("promise")], consumer)
      assert.strictEqual(elsewhere.output, "loaded\n")
    }
  )

  it("bundles listing the invoices without tests, contract, sandbox or Node", async () => {
    writeFileSync(join(consumer, "list.ts"), listing)
    const bundle = await rolldown({ input: join(consumer, "list.ts"), cwd: consumer, logLevel: "silent" })
    const { output: [chunk, ...others] } = await bundle.generate({ format: "esm", minify: true })
    await bundle.close()
    assert.deepStrictEqual(others, [])
    const size = Buffer.byteLength(chunk.code)
    const compressed = gzipSync(chunk.code, { level: 9 }).length
    process.stdout.write(`listing invoices over fetch, bundled: ${size} bytes minified, ${compressed} gzipped\n`)
    const modules = Object.keys(chunk.modules).map((file) => file.replace(/^.*node_modules\//, ""))
    assert.include(modules, "@payments/core/dist/api/PaymentsApi.js")
    const needless =
      /^node:|^effect\/dist\/(?:Arbitrary|http-api|testing)|platform-node|Sandbox|MemoryList|core\/dist\/testing|Contract|Arbitraries|Promise/
    assert.deepStrictEqual(modules.filter((file) => needless.test(file)), [])
    // The bundle had 191 kB when this was written. A size 50 % above that indicates a mistake.
    assert.isBelow(size, 290_000)
    const docs = readFileSync(join(core, "../../docs/library.md"), "utf8")
    const said = /is (\d+) kB, (\d+) kB gzipped/.exec(docs)?.slice(1).map((kilobytes) => Number(kilobytes) * 1000) ?? []
    assert.deepStrictEqual(said.map((bytes, index) => Math.abs(bytes / ([size, compressed][index] ?? 0) - 1) < 0.05), [
      true,
      true
    ], "the figures in docs/library.md")
  })
})

const listing = `
import { PaymentsApi, PaymentsConfig } from "@payments/core"
import { Effect, Layer, Redacted, Stream } from "effect"
import { FetchHttpClient } from "effect/http"

const config = Layer.effect(
  PaymentsConfig,
  PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: "https://api.example.com", PAYMENTS_API_KEY: Redacted.make("k") })
)
const live = PaymentsApi.layer.pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(config))
const list = PaymentsApi.use((api) => Stream.runForEach(api.invoices.stream(), ({ id }) => Effect.log(id)))
await Effect.runPromise(Effect.provide(list, live))
`

describe("a project with Effect 3", { timeout }, () => {
  const project = join(folder, "effect-3")
  const docs = readFileSync(join(core, "../../docs/library.md"), "utf8").split(
    "## How do I use it in a project with Effect 3?"
  )[1] ??
    ""
  const block = (language: string) => new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "ms").exec(docs)?.[1] ?? ""

  beforeAll(() => {
    mkdirSync(join(project, "node_modules"), { recursive: true })
    symlinkSync(realpathSync(join(core, "node_modules/effect-3")), join(project, "node_modules/effect"))
    writeFileSync(join(project, "package.json"), JSON.stringify({ private: true, type: "module" }))
  })

  it("cannot import it, as the docs say", async () => {
    mkdirSync(join(project, "node_modules/@payments"))
    // The copy resolves its packages from its own folder, as in an installation with `--force`.
    cpSync(installed, join(project, "node_modules/@payments/core"), { recursive: true, dereference: true })
    const { output } = await run(process.execPath, ["-e", `import("@payments/core/promise")`], project)
    const problem = "Package subpath './http' is not defined by \"exports\""
    assert.include(output, problem)
    assert.include(docs, problem)
    rmSync(join(project, "node_modules/@payments"), { recursive: true })
  })

  it("uses it as a bundle that contains its own Effect, built and typed as the docs say", async () => {
    // Tests have no network: link what the command would install from the other project.
    const install = /^npm install .*$/m
    assert.match(block("sh"), install)
    const recipe = block("sh").replace(install, `ln -s "${consumer}/node_modules" node_modules`)
      .replace("npx rolldown", `"${process.execPath}" "${core}/node_modules/rolldown/bin/cli.mjs"`)
    await passes("bash", ["-ec", recipe], project)
    writeFileSync(join(project, "main.js"), block("js"))
    const missing = await run(process.execPath, ["main.js"], project)
    assert.include(missing.output, "PAYMENTS_BASE_URL is not set")
    const server = createServer((_, response) => response.end(page([{ id: "a" }, { id: "b" }])))
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo // of a server that listens on TCP
    const settings = { PAYMENTS_BASE_URL: `http://127.0.0.1:${port}`, PAYMENTS_API_KEY: "k" }
    const counted = await run(process.execPath, ["main.js"], project, settings)
    assert.strictEqual(counted.output, "2 invoices\n")
    server.close()
    // Type-check the program of the docs against the types of the bundle.
    writeFileSync(
      join(project, "main.ts"),
      `${block("js")}\nexport const wrong: number = await connectFromEnvironment()\n`
    )
    const compilerOptions = {
      target: "ES2024",
      module: "NodeNext",
      lib: ["ES2024", "ESNext.Disposable", "DOM"],
      types: [],
      strict: true,
      noEmit: true,
      skipLibCheck: true
    }
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["main.ts"] }))
    const { output } = await run(
      process.execPath,
      [join(core, "node_modules/typescript/bin/tsc"), "-p", project],
      project
    )
    assert.match(output, /^main\.ts\(\d+,\d+\): error TS2322: Type 'Payments' is not assignable to type 'number'\.\s*$/)
  })
})
