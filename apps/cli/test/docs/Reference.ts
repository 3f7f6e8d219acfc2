/** The page that describes every command: `docs/cli.md`. */
import { Effect } from "effect"
import { Completions } from "effect/cli"
import { join } from "node:path"
import { payments } from "../../src/cli.ts"
import { everyCommand, testServices } from "../program/Tree.ts"

/** The page. */
export const cliPage = join(import.meta.dirname, "../../../../docs/cli.md")

const marker = "<!-- The sections below are written by `npm run docs`. -->\n"

/** Returns the page with a section for each command. A `console` block in it gets the help of the command. */
export const withSections = Effect.fnUntraced(function*(page: string) {
  const root = Completions.fromCommand(yield* Effect.promise(() => payments(testServices, [])))
  const sections = everyCommand(root).map(({ path }) =>
    `\n## ${path.join(" ")}\n\n\`\`\`console\n$ ${path.join(" ")} --help\n\`\`\`\n`
  )
  return page.slice(0, page.indexOf(marker)) + marker + sections.join("")
})
