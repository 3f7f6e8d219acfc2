/** The build of a program: one folder that plain `node` runs, without `node_modules`. */
import { chmodSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { defineConfig, type OutputOptions, type RolldownOptions } from "rolldown"
import { lazyLoading } from "./lazy.ts"
import { notices } from "./notices.ts"

interface Manifest {
  readonly version: string
  /** The oldest Node, such as `>=22.20.0`. */
  readonly engines: { readonly node: string }
}

/**
 * The script that starts a program. Every version of Node must be able to parse it, so it uses old syntax. It answers
 * `--version` and `--help` itself (`answer.ts`). Otherwise it loads the bundle with the compile cache on, and keeps signals
 * until the bundle is ready.
 *
 * A shell reads the first two lines, and Node the others: the second line is a text and a comment in JavaScript. Only a shell
 * sees whether stdout is closed (`ClosedStdout.ts`).
 */
const launcher = (
  name: string,
  signals: ReadonlyArray<NodeJS.Signals>,
  [major = 0, minor = 0]: ReadonlyArray<number>
): string =>
  `#!/usr/bin/env sh
':' //; if { true 3>&1; } 2>/dev/null; then PAYMENTS_STDOUT=open; else PAYMENTS_STDOUT=closed; fi; export PAYMENTS_STDOUT; exec node "$0" "$@"
var version = process.versions.node.split(".")
var isQuestion = process.argv.some(function (word) { return /^(-h|-v|--help|--version)$/.test(word) })
if (version[0] < ${major} || (version[0] == ${major} && version[1] < ${minor})) {
  process.stderr.write("${name}: needs Node ${major}.${minor} or later; this is Node " + process.versions.node + ".\\n")
  process.exitCode = 3
} else if (process.env.NODE_DEBUG || process.env.NODE_DEBUG_NATIVE) {
  // Node reads both before this script runs. With them it prints the address of every request.
  process.stderr.write("${name}: NODE_DEBUG or NODE_DEBUG_NATIVE is set: Node would print cursors and filter values. Unset it.\\n")
  process.exitCode = 3
} else if (!isQuestion || !require("./${name}-answer.cjs").answer(process.argv.slice(2), __dirname)) {
  // 077: only the owner may read the files that this process creates. Node and libraries create some of them.
  process.umask(63)
  // The build has filled this folder for the Node that it ran on.
  try {
    require("module").enableCompileCache({ directory: __dirname + "/compile-cache", portable: true })
  } catch (tooOld) {}
  // Node prints on every run that node:sqlite is experimental. The program depends on it anyway.
  var warn = process.emitWarning
  process.emitWarning = function (warning) {
    if (!/SQLite is an experimental feature/.test(warning)) warn.apply(process, arguments)
  }
  // Signals that arrive while the bundle loads are delivered when it is ready (handOverSignals in Program.ts).
  var pending = []
  var keep = function (signal) { pending.push(signal) }
  var signals = ${JSON.stringify(signals)}
  signals.forEach(function (signal) { process.on(signal, keep) })
  process.once("payments:ready", function () {
    signals.forEach(function (signal) { process.off(signal, keep) })
    pending.forEach(function (signal) { process.emit(signal, signal) })
  })
  require("./${name}-main.cjs")
}
`

const source = (file: string) => join(import.meta.dirname, "../../packages/copy/src", file)

/** The entry points of the threads and child processes of a program. */
export const threads = {
  SinkThread: source("destination/SinkThread.ts"),
  QueryProcess: source("sqlite/QueryProcess.ts")
}

/**
 * Returns the options of a build that writes the launcher `dist/NAME.js` and the bundle of `src/main.ts` of the app in `folder`.
 * The launcher keeps the signals that `src/main.ts` listens to. `threads` are the entry points of more child processes.
 */
export const programBuild = (
  name: string,
  folder: string,
  { signals = ["SIGINT", "SIGTERM"], threads: own = {} }: {
    readonly signals?: ReadonlyArray<NodeJS.Signals>
    readonly threads?: Readonly<Record<string, string>>
  } = {}
): Array<RolldownOptions> => {
  const { engines, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest // our own file
  const common: RolldownOptions = {
    platform: "node",
    // undici leaves out its experimental parser if it is bundled with esbuild, as for Node itself.
    transform: { define: { PAYMENTS_VERSION: JSON.stringify(version), esbuildDetection: "true" } },
    plugins: [lazyLoading, notices]
  }
  const output: OutputOptions = {
    dir: join(folder, "dist"),
    // Scripts, because Node loads them 3 ms faster than modules.
    format: "cjs",
    minify: true,
    entryFileNames: "[name].cjs",
    // All chunks are in one folder: a program looks for the file of a thread in its own folder. Their names stay the same, so that
    // the compile cache replaces its entries.
    chunkFileNames: "[name].cjs",
    // One file for all that an entry always loads: each file takes 0.3 ms of the start.
    codeSplitting: { groups: [{ name: "initial", tags: ["$initial"] }] }
  }
  return defineConfig([
    {
      ...common,
      input: { [`${name}-main`]: join(folder, "src/main.ts") },
      output: { ...output, cleanDir: true },
      plugins: [common.plugins, {
        name: "launcher",
        generateBundle() {
          this.emitFile({
            type: "asset",
            fileName: `${name}.js`,
            source: launcher(name, signals, (engines.node.match(/\d+/g) ?? []).map(Number))
          })
          // The launcher is a script, whatever the package around it says.
          this.emitFile({ type: "asset", fileName: "package.json", source: `{ "type": "commonjs" }\n` })
        },
        writeBundle() {
          chmodSync(join(folder, `dist/${name}.js`), 0o755)
        }
      }]
    },
    {
      ...common,
      input: { [`${name}-answer`]: join(import.meta.dirname, "answer.ts") },
      output: { dir: join(folder, "dist"), format: "cjs", minify: true, entryFileNames: "[name].cjs" }
    },
    // Builds of their own, so that a program does not load what only its threads need.
    ...Object.entries({ ...threads, ...own }).map(([thread, file]) => ({
      ...common,
      input: { [thread]: file },
      output: { ...output, chunkFileNames: `${thread}-[name].cjs` }
    }))
  ])
}
