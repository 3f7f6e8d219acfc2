import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { Destination } from "../src/index.ts"

const plain = { format: "ndjson", compress: "none", formulas: "escape" } as const

describe("a destination's text", () => {
  it.effect.each(
    [
      ["sqlite:./payments.db", { _tag: "Sqlite", file: "./payments.db" }],
      ["sqlite:///var/payments.db", { _tag: "Sqlite", file: "/var/payments.db" }],
      ["file:./folder", { _tag: "Files", folder: "./folder", format: plain }],
      ["file:/a b/ñ?format=ndjson", { _tag: "Files", folder: "/a b/ñ", format: plain }],
      ["file:x?compress=zstd", { _tag: "Files", folder: "x", format: { ...plain, compress: "zstd" } }],
      ["file:x?format=parquet&compress=gzip", {
        _tag: "Files",
        folder: "x",
        format: { ...plain, format: "parquet", compress: "gzip" }
      }],
      ["file:x?formulas=keep&format=csv", {
        _tag: "Files",
        folder: "x",
        format: { ...plain, format: "csv", formulas: "keep" }
      }]
    ] as const
  )("%s names a place", ([text, expected]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* Destination.parse(text), { ...expected })
    }))

  it.effect.each([
    "",
    "payments.db",
    "sqlite:",
    "file:",
    "file:?format=ndjson",
    "file:x?format=xml",
    "file:x?fmt=ndjson",
    "file:x?format=csv&compress=lz4",
    "file:x?format=csv&format=parquet",
    "file:x?format=parquet&formulas=keep",
    "file:x?__proto__=1",
    "mysql://x"
  ])(
    "%s is refused with the forms that are known",
    (text) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Destination.parse(text))
        assert.include(error.message, "sqlite:FILE or file:FOLDER?format=ndjson")
      })
  )
})
