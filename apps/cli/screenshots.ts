/**
 * Makes the screenshots of the command line in `docs/images` (`npm run screenshots`). Each command runs in a terminal, and
 * xterm.js draws what it prints. With a folder as argument, makes those of all commands at 60, 80 and 160 columns there, light
 * and dark, for a look at all of them. Needs `script` of util-linux.
 */
import { Chromium } from "@payments/testkit/programs/Browser"
import { sandboxEnv, temporaryFolder } from "@payments/testkit/programs/RunProgram"
import { Effect } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { join } from "node:path"
import type { Page } from "puppeteer-core"

interface Picture {
  readonly name: string
  /** A command that runs before, without being shown. */
  readonly before?: string
  /** The command, as a shell reads it. It is shown after a prompt. */
  readonly command: string
  readonly columns: number
}

/** Makes the copy that `npm start` makes. */
const copyOfStart = "env --unset PAYMENTS_BASE_URL --unset PAYMENTS_API_KEY payments start"

/** The pictures in the README and in docs/export.md. */
const documented: ReadonlyArray<Picture> = [
  {
    name: "cli-list",
    command: "payments invoices list --all --where 'amount>=892000' --sort amount:desc",
    columns: 80
  },
  {
    name: "cli-chart",
    before: copyOfStart,
    command: "payments query settled-by-day --month 2024-01 --chart --from sqlite:./payments-sandbox.db",
    columns: 100
  },
  {
    name: "cli-facts",
    command:
      "payments probe --pause 1ms --format table | grep -E 'fact |payin.*(count|order|limit-101|cursor-list|absent)'",
    columns: 140
  },
  {
    name: "cli-find",
    before: copyOfStart,
    command: "payments find 1000012183 --from sqlite:./payments-sandbox.db",
    columns: 120
  }
]

/** More commands, for a look at them. */
const others: ReadonlyArray<Picture> = [
  { name: "cli-help", command: "payments invoices list --help", columns: 100 },
  { name: "cli-export", command: "payments export --to sqlite:payments.db", columns: 100 },
  { name: "cli-doctor", command: "payments doctor", columns: 100 }
]

type Scheme = "light" | "dark"

const themes: { readonly [scheme in Scheme]: Readonly<Record<string, string>> } = {
  // The colours of a usual light and dark terminal.
  light: {
    background: "#ffffff",
    foreground: "#1f2328",
    cursor: "#ffffff",
    black: "#24292f",
    red: "#cf222e",
    green: "#116329",
    yellow: "#7d4e00",
    blue: "#0969da",
    magenta: "#8250df",
    cyan: "#1b7c83",
    white: "#6e7781",
    brightBlack: "#57606a"
  },
  dark: {
    background: "#0d1117",
    foreground: "#e6edf3",
    cursor: "#0d1117",
    black: "#484f58",
    red: "#ff7b72",
    green: "#3fb950",
    yellow: "#d29922",
    blue: "#58a6ff",
    magenta: "#bc8cff",
    cyan: "#39c5cf",
    white: "#b1bac4",
    brightBlack: "#6e7681"
  }
}

const require = createRequire(import.meta.url)
const font = readFileSync(require.resolve("dejavu-fonts-ttf/ttf/DejaVuSansMono.ttf")).toString("base64")

/** The largest number of lines of a picture. */
const rows = 150

/** Runs the command in a terminal of this width, and returns what it prints. */
const record = async (
  { before, command }: Picture,
  columns: number,
  options: { readonly cwd: string; readonly env: Readonly<Record<string, string>> }
): Promise<Buffer> => {
  const shell = [
    `stty rows ${rows} columns ${columns}`,
    ...(before === undefined ? [] : [`${before} >/dev/null 2>&1`]),
    `printf '\\033[1m$\\033[0m %s\\n' ${quoted(command)}`,
    command
  ].join("\n")
  const child = spawn("script", ["--quiet", "--return", "--command", `sh -c ${quoted(shell)}`, "/dev/null"], {
    cwd: options.cwd,
    env: {
      PATH: `${join(import.meta.dirname, "../../bin")}:${process.env["PATH"]}`,
      TERM: "xterm-256color",
      ...options.env
    },
    stdio: ["ignore", "pipe", "inherit"]
  })
  const chunks: Array<Buffer> = []
  child.stdout.on("data", (chunk: Buffer) => chunks.push(chunk))
  await once(child, "close")
  return Buffer.concat(chunks)
}

/** Returns the text as one word of a shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Draws what a terminal received. */
const draw = async (page: Page, received: Buffer, columns: number, scheme: Scheme, path: string): Promise<void> => {
  const [script, css] = ["@xterm/xterm/lib/xterm.js", "@xterm/xterm/css/xterm.css"].map((file) => require.resolve(file))
  await page.setViewport({ width: columns * 9 + 60, height: rows * 20, deviceScaleFactor: 2 })
  await page.setContent(
    `<style>@font-face { font-family: terminal; src: url(data:font/ttf;base64,${font}) }
    body { margin: 0; background: ${themes[scheme]["background"]} } #terminal { padding: 12px; display: inline-block }
    .xterm .scrollbar, .xterm-decoration-overview-ruler { display: none }</style>
    <div id="terminal"></div>`
  )
  await page.addStyleTag({ path: css ?? "" })
  await page.addScriptTag({ path: script ?? "" })
  const used = await page.evaluate(
    `(async () => {
      await document.fonts.load("14px terminal")
      const terminal = new Terminal(${
      JSON.stringify({
        cols: columns,
        rows,
        fontFamily: "terminal",
        fontSize: 14,
        theme: themes[scheme],
        allowProposedApi: true
      })
    })
      terminal.open(document.getElementById("terminal"))
      await new Promise((resolve) => terminal.write(Uint8Array.from(atob(${
      JSON.stringify(received.toString("base64"))
    }), (c) => c.charCodeAt(0)), resolve))
      await new Promise((resolve) => setTimeout(resolve, 200))
      const { height } = document.querySelector(".xterm-rows > div").getBoundingClientRect()
      return (terminal.buffer.active.cursorY + (terminal.buffer.active.cursorX > 0 ? 1 : 0)) * height
    })()`
  )
  const box = await (await page.$("#terminal"))?.boundingBox()
  if (box === null || box === undefined) throw new Error("the terminal was not drawn")
  const height = Math.min(box.height, Number(used) + 24)
  await page.screenshot({
    path: path as `${string}.png`, // made below
    clip: { x: 0, y: 0, width: box.width, height }
  })
  process.stdout.write(`${path}\n`)
}

const [folder] = process.argv.slice(2)

const main = Effect.gen(function*() {
  const chromium = yield* Chromium
  const page = yield* Effect.promise(() => chromium.newPage())
  const env = yield* sandboxEnv({ records: 1000, hostileText: 0, unusualAmounts: false })
  const images = folder ?? join(import.meta.dirname, "../../docs/images")
  mkdirSync(images, { recursive: true })
  for (const picture of folder === undefined ? documented : [...documented, ...others]) {
    const { columns, name } = picture
    for (const width of folder === undefined ? [columns] : [60, 80, 160]) {
      const cwd = yield* temporaryFolder
      const received = yield* Effect.promise(() => record(picture, width, { cwd, env }))
      for (const scheme of ["light", "dark"] as const) {
        if (folder === undefined && scheme === "dark") continue
        const suffix = folder === undefined ? "" : `-${width}-${scheme}`
        yield* Effect.promise(() => draw(page, received, width, scheme, join(images, `${name}${suffix}.png`)))
      }
    }
  }
})

await Effect.runPromise(Effect.scoped(Effect.provide(main, Chromium.layer)))
