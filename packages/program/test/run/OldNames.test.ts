import { assert, describe, it } from "@effect/vitest"
import { withCurrentNames } from "../../src/index.ts"

const warning = (from: string, to: string) =>
  `${from} is now called ${to}. Version 0.3.0 no longer accepts the old name.`

describe("the names of 0.1.0", () => {
  it("are replaced, and other words stay", () => {
    for (
      const [given, args, ...warnings] of [
        ["sources --format json", "config --format json", warning("payments sources", "payments config")],
        ["--source sources sources", "--source sources config", warning("payments sources", "payments config")],
        ["source --source north list", "config --source north", warning("payments source list", "payments config")],
        [
          "query settled-by-cycle a",
          "query settled-by-time a",
          warning("payments query settled-by-cycle", "payments query settled-by-time")
        ],
        [
          "invoices list --settlement-cycle=2",
          "invoices list --settlement-time=2",
          warning("--settlement-cycle", "--settlement-time")
        ],
        [
          "invoices list --settlement-cycle 2",
          "invoices list --settlement-time 2",
          warning("--settlement-cycle", "--settlement-time")
        ],
        ["source add list", "source add list"],
        ["find sources", "find sources"],
        ["find -- --settlement-cycle", "find -- --settlement-cycle"],
        ["find --settlement-cycles", "find --settlement-cycles"]
      ] as const
    ) {
      assert.deepStrictEqual(withCurrentNames(given.split(" ")), { args: args.split(" "), warnings: [...warnings] })
    }
  })
})
