/** The build of a program: one folder that plain `node` runs, without `node_modules`. */
import { chmodSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { defineConfig, type RolldownOptions } from "rolldown"
import { oldestNode } from "../../packages/core/src/internal/NodeVersion.ts"

/**
 * The script that starts a program. Every version of Node must be able to parse it, as a script and as a module. So it uses
 * old syntax and no import statement. It loads the bundle with the compile cache on and keeps signals until the bundle is ready.
 */
const launcher = (name: string, signals: ReadonlyArray<NodeJS.Signals>): string =>
  `#!/usr/bin/env node
var version = process.versions.node.split(".")
if (version[0] < ${oldestNode.major} || (version[0] == ${oldestNode.major} && version[1] < ${oldestNode.minor})) {
  process.stderr.write("${name}: needs Node ${oldestNode.major}.${oldestNode.minor} or later; this is Node " + process.versions.node + ".\\n")
  process.exitCode = 3
} else if (process.env.NODE_DEBUG || process.env.NODE_DEBUG_NATIVE) {
  // Node reads both before this script runs. With them it prints the address of every request.
  process.stderr.write("${name}: NODE_DEBUG or NODE_DEBUG_NATIVE is set: Node would print cursors and filter values. Unset it.\\n")
  process.exitCode = 3
} else {
  process.getBuiltinModule("node:module").enableCompileCache()
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
  import("./${name}-main.mjs")
}
`

const source = (file: string) => join(import.meta.dirname, "../../packages/export/src", file)

/** The entry points of the threads and child processes of a program. */
export const threads = { SinkThread: source("thread/SinkThread.ts"), QueryProcess: source("query/QueryProcess.ts") }

/**
 * Returns the options of a build that writes the launcher `dist/NAME.js` and the bundle of `src/main.ts` of the app in `folder`.
 * The launcher keeps the signals that `src/main.ts` listens to.
 */
export const programBuild = (
  name: string,
  folder: string,
  signals: ReadonlyArray<NodeJS.Signals> = ["SIGINT", "SIGTERM"]
): RolldownOptions => {
  const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { readonly version: string } // our own file
  return defineConfig({
    input: { [`${name}-main`]: join(folder, "src/main.ts"), ...threads },
    platform: "node",
    transform: { define: { PAYMENTS_VERSION: JSON.stringify(version) } },
    output: {
      dir: join(folder, "dist"),
      cleanDir: true,
      format: "esm",
      minify: true,
      entryFileNames: "[name].mjs",
      // All chunks are in one folder: a program looks for the file of a thread in its own folder.
      chunkFileNames: "[name]-[hash].mjs"
    },
    plugins: [{
      name: "launcher",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: `${name}.js`, source: launcher(name, signals) })
      },
      writeBundle() {
        chmodSync(join(folder, `dist/${name}.js`), 0o755)
      }
    }]
  })
}
