import { assert, describe, it } from "@effect/vitest"
import { fitted } from "../../src/terminal/HelpWidth.ts"

const help = `DESCRIPTION
  Copy lists into a database or into files of a folder

FLAGS
  --to DESTINATION    where to write the records of the lists that are exported
  --all               \u001b[2mread to the end of the list, however long it is\u001b[0m

EXAMPLES
  # the first records, and many more words that are too long for it
  payments export invoices --to sqlite:./payments.db --settlement-dates 2024-05-01..2024-05-31
`

const plain = (text: string) => text.replaceAll(/\u001b\[\d*m/g, "") // oxlint-disable-line no-control-regex

/** The words, without what continues a comment or a command on the next line. */
const wordsOf = (text: string) => text.match(/\S+/g)?.filter((word) => word !== "#" && word !== "\\")

describe("help on a terminal", () => {
  it("keeps every word, wraps descriptions in their column, and breaks commands between arguments", () => {
    assert.strictEqual(fitted(help, Infinity), help)
    for (const width of [30, 40, 60, 80, 160]) {
      const text = plain(fitted(help, width))
      assert.deepStrictEqual(wordsOf(text), wordsOf(plain(help)))
      for (const line of text.split("\n")) assert.isAtMost(line.length, width, line)
    }
    assert.include(
      fitted(help, 60),
      `  --to DESTINATION    where to write the records of the\n${" ".repeat(22)}lists that`
    )
    assert.include(fitted(help, 30), "  --to DESTINATION\n      where to write the\n")
  })
})
