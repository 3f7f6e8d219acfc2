import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import { defineConfig } from "rolldown"
import { programBuild } from "../cli/bundle.ts"
import { notices } from "../cli/notices.ts"

const dist = join(import.meta.dirname, "dist")
const page = join(import.meta.dirname, "src/page/browser")
const uplotStyle = createRequire(import.meta.url).resolve("uplot/dist/uPlot.min.css")

/** The program, and the files that its status page loads. */
export default [
  ...programBuild("payments-worker", import.meta.dirname, { signals: ["SIGINT", "SIGTERM", "SIGHUP"] }),
  defineConfig({
    input: { page: join(page, "page.ts"), charts: join(page, "charts.ts") },
    platform: "browser",
    output: { dir: dist, format: "esm", minify: true, entryFileNames: "[name].js" },
    plugins: [notices, {
      name: "style",
      generateBundle() {
        const source = [uplotStyle, join(page, "page.css")].map((file) => readFileSync(file, "utf8")).join("\n")
        this.emitFile({ type: "asset", fileName: "page.css", source })
      }
    }]
  })
]
