/**
 * A headless Chromium. An npm package contains it with its libraries and fonts. So it starts in an empty environment
 * and draws the same on every machine (Linux on x64).
 */
import { inflate } from "@sparticuz/chromium"
import { Context, Effect, Layer } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { type Browser, launch, type Page } from "puppeteer-core"
import { temporaryFolder } from "./RunProgram.ts"

const packed = join(fileURLToPath(import.meta.resolve("@sparticuz/chromium")), "../../bin")

/** Closing the scope ends the browser and removes its files. */
const chromium = Effect.gen(function*() {
  const folder = yield* temporaryFolder
  const program = yield* Effect.promise(() => unpack(folder))
  return yield* Effect.acquireRelease(
    Effect.promise(() =>
      launch({
        executablePath: program,
        headless: "shell",
        timeout: 120_000,
        // A container has no user namespaces for Chromium's sandbox. It loads only pages of this project.
        args: ["--no-sandbox", "--font-render-hinting=none", "--hide-scrollbars"],
        env: {
          // As in containers. With it `navigator.language` is `en-US@posix`, which is not a language tag.
          LANG: "C.UTF-8",
          HOME: folder,
          TMPDIR: folder,
          FONTCONFIG_PATH: join(folder, "fonts"),
          LD_LIBRARY_PATH: join(folder, "al2023/lib")
        }
      })
    ),
    (browser) => Effect.promise(() => browser.close())
  )
})

export class Chromium extends Context.Service<Chromium, Browser>()("@payments/worker/test/Chromium") {
  static readonly layer = Layer.effect(Chromium, chromium)
}

/** `inflate` writes into the folder for temporary files, which Node reads from the environment with each call. */
const unpack = async (folder: string): Promise<string> => {
  const { TMPDIR } = process.env
  process.env["TMPDIR"] = folder
  try {
    const [program] = await Promise.all(
      ["chromium.br", "fonts.tar.br", "al2023.tar.br"].map((file) => inflate(join(packed, file)))
    )
    // The package expects its fonts and their cache in /tmp.
    const fonts = join(folder, "fonts/fonts.conf")
    writeFileSync(fonts, readFileSync(fonts, "utf8").replaceAll("/tmp/", `${folder}/`))
    return program ?? ""
  } finally {
    if (TMPDIR === undefined) delete process.env["TMPDIR"]
    else process.env["TMPDIR"] = TMPDIR
  }
}

export interface Appearance {
  readonly width: number
  readonly scheme: "light" | "dark"
}

export const show = async (page: Page, { scheme, width }: Appearance): Promise<void> => {
  await page.emulateMediaFeatures([
    { name: "prefers-color-scheme", value: scheme },
    { name: "prefers-reduced-motion", value: "reduce" }
  ])
  await page.setViewport({ width, height: 844 })
}
