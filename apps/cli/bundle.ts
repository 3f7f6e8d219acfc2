/** How a program of this workspace is built: one folder that plain `node` runs, without `node_modules`. */
import { chmodSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { defineConfig, type RolldownOptions } from "rolldown"
import { oldestNode } from "../../packages/core/src/internal/NodeVersion.ts"

/**
 * What runs first. It must be read by any Node, old or new, as a script or as a module: hence the old dialect and no
 * import statement. Then the bundle is loaded with the compile cache on, and signals are kept meanwhile.
 */
const launcher = (name: string): string =>
  `#!/usr/bin/env node
var version = process.versions.node.split(".")
if (version[0] < ${oldestNode.major} || (version[0] == ${oldestNode.major} && version[1] < ${oldestNode.minor})) {
  process.stderr.write("${name}: needs Node ${oldestNode.major}.${oldestNode.minor} or later; this is Node " + process.versions.node + ".\\n")
  process.exitCode = 3
} else if (process.env.NODE_DEBUG || process.env.NODE_DEBUG_NATIVE) {
  // Node has read them before this program, and prints the address of every request with them.
  process.stderr.write("${name}: NODE_DEBUG or NODE_DEBUG_NATIVE is set: Node would print cursors and filter values. Unset it.\\n")
  process.exitCode = 3
} else {
  process.getBuiltinModule("node:module").enableCompileCache()
  // node:sqlite works, is what this program stands on, and would announce on every run that it is still young.
  var warn = process.emitWarning
  process.emitWarning = function (warning) {
    if (!/SQLite is an experimental feature/.test(warning)) warn.apply(process, arguments)
  }
  // Signals that come while the bundle loads are kept until it can act on them (handOverSignals in Program.ts).
  var kept = []
  var keep = function (signal) { kept.push(signal) }
  process.on("SIGINT", keep).on("SIGTERM", keep)
  process.once("payments:ready", function () {
    process.off("SIGINT", keep).off("SIGTERM", keep)
    kept.forEach(function (signal) { process.emit(signal, signal) })
  })
  import("./${name}-main.mjs")
}
`

const source = (file: string) => join(import.meta.dirname, "../../packages/export/src", file)

/** What programs run in threads and processes of their own. */
export const threads = { SinkThread: source("thread/SinkThread.ts"), QueryProcess: source("query/QueryProcess.ts") }

/** Bundles `src/main.ts` of the app in `folder` as \`dist/NAME.js\` and its chunks. */
export const program = (name: string, folder: string): RolldownOptions => {
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
      // Beside each other: a thread is looked for beside whoever starts it.
      chunkFileNames: "[name]-[hash].mjs"
    },
    plugins: [{
      name: "launcher",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: `${name}.js`, source: launcher(name) })
      },
      writeBundle() {
        chmodSync(join(folder, `dist/${name}.js`), 0o755)
      }
    }]
  })
}
