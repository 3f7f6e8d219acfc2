/** The files of the page: its script, its style and its icons. The worker serves them from its own folder. */
import { Context, Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { extname } from "node:path"

/**
 * The build writes these files next to the program. A program that runs from its sources finds them in the folder of
 * the build.
 */
const folder = extname(new URL(import.meta.url).pathname) === ".ts" ? "../../dist/" : "./"
const read = (name: string): Uint8Array => readFileSync(new URL(`${folder}${name}`, import.meta.url))

const names = ["page.js", "charts.js", "page.css"]

export interface Asset {
  readonly path: `/${string}`
  readonly contentType: string
  readonly body: Uint8Array
}

/** The files of the page, and one version for all of them. */
export class Assets extends Context.Service<Assets, {
  readonly build: string
  readonly files: ReadonlyArray<Asset>
}>()("@payments/worker/Assets") {
  static readonly layer = Layer.effect(
    Assets,
    Effect.sync(() => {
      const sources = names.map((name) => ({ name, body: read(name) }))
      const hash = createHash("sha256")
      for (const { body } of sources) hash.update(body)
      const build = hash.digest("hex").slice(0, 12)
      const files = sources.map(({ body, name }): Asset => ({
        path: assetPath(build, name),
        contentType: name.endsWith(".css") ? "text/css; charset=utf-8" : "text/javascript; charset=utf-8",
        body
      }))
      const icons = Object.entries(iconColors).map(([tone, color]): Asset => ({
        path: assetPath(build, `${tone}.svg`),
        contentType: "image/svg+xml",
        body: new TextEncoder().encode(iconOf(color))
      }))
      return {
        build,
        files: [...files, ...icons]
      }
    })
  )
}

/** A path contains the version, so browsers may keep the file for ever. */
export const assetPath = (build: string, name: string) => `/assets/${build}/${name}` as const

/** The icon of the browser's tab has the colour of the summary. */
const iconColors = { bad: "#d4382c", warn: "#d68a00", good: "#1e9e57", idle: "#6b7788" }

const iconOf = (color: string): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="${color}"/></svg>`
