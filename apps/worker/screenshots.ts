/**
 * Makes the screenshots of the status page in `docs/images` (`npm run screenshots`). With a folder as argument, makes those
 * of all states, widths and colour schemes there, for a look at all of them.
 */
import { Chromium, show } from "@payments/testkit/programs/Browser"
import { Effect } from "effect"
import { join } from "node:path"
import { pageServer } from "./test/page/PageServer.ts"
import { snapshots } from "./test/page/Snapshots.ts"

interface Picture {
  readonly name: string
  readonly state: keyof typeof snapshots
  readonly width: number
  readonly scheme: "light" | "dark"
  /** The element to show; the top of the page by default. */
  readonly element?: string
  readonly height: number
}

const documented: ReadonlyArray<Picture> = [
  { name: "status-page", state: "stale", width: 1280, scheme: "light", height: 900 },
  { name: "status-page-details", state: "fresh", width: 1280, scheme: "light", element: "article", height: 760 },
  { name: "status-page-phone", state: "stale", width: 390, scheme: "dark", height: 844 }
]

const states = Object.keys(snapshots) as Array<keyof typeof snapshots> // its own keys
const all = states.flatMap((state) =>
  [1280, 390].flatMap((width) =>
    (["light", "dark"] as const).map((scheme): Picture => ({
      name: `${state}-${width}-${scheme}`,
      state,
      width,
      scheme,
      height: 3200
    }))
  )
)

const [folder] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const chromium = yield* Chromium
  const page = yield* Effect.promise(() => chromium.newPage())
  for (const { element = "html", height, name, scheme, state, width } of folder === undefined ? documented : all) {
    const { url } = yield* pageServer(snapshots[state])
    const path = join(folder ?? join(import.meta.dirname, "../../docs/images"), `${name}.png`)
    yield* Effect.promise(async () => {
      await show(page, { width, scheme })
      await page.goto(url)
      await page.waitForSelector("#live[data-state=live]")
      const box = await (await page.$(element))?.boundingBox()
      if (box === null || box === undefined) throw new Error(`no ${element}`)
      const margin = element === "html" ? 0 : 20
      await page.screenshot({
        path: path as `${string}.png`, // made above
        clip: { x: 0, y: box.y - margin, width, height: Math.min(box.height + 2 * margin, height) }
      })
      process.stdout.write(`${path}\n`)
    })
  }
})

await Effect.runPromise(Effect.scoped(Effect.provide(main, Chromium.layer)))
