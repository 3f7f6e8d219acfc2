/** The formats in which a folder's lists can be rendered, and the port of their encoders. */
import { Result } from "effect"
import type { FullRow } from "../../engine/Store.ts"

/** What a list's files can be. */
export const formats = ["ndjson", "csv", "parquet"] as const
/** How files can be compressed: CSV and NDJSON as a whole, Parquet inside. */
export const compressions = ["none", "gzip", "zstd"] as const
/** What becomes of text that a spreadsheet would take for a formula. */
export const formulas = ["escape", "keep"] as const

/** How lists are rendered. */
export interface Format {
  readonly format: typeof formats[number]
  readonly compress: typeof compressions[number]
  /** Of CSV alone. */
  readonly formulas: typeof formulas[number]
}

/** Turns the rows of a list into the bytes of one file. It holds no more than a bounded piece of them. */
export interface Encoder {
  /** The bytes that the rows complete; none while they are gathered. */
  readonly write: (rows: ReadonlyArray<FullRow>) => Uint8Array
  /** What the file ends with. */
  readonly end: () => Uint8Array
}

/** What a query such as `format=csv&compress=gzip` asks for, or what is wrong with it. NDJSON as it is, unless given. */
export const fromQuery = (query: string): Result.Result<Format, string> => {
  const given = new URLSearchParams(query)
  const known = { format: formats, compress: compressions, formulas } as const
  for (const name of given.keys()) {
    if (!Object.hasOwn(known, name)) return Result.fail(`has no option ${name}`)
    if (given.getAll(name).length > 1) return Result.fail(`takes ${name} once`)
  }
  const chosen = <Value extends string>(
    name: keyof typeof known,
    values: readonly [Value, ...ReadonlyArray<Value>]
  ) => {
    const wanted = given.get(name) ?? values[0]
    const value = values.find((one) => one === wanted)
    return value === undefined ? Result.fail(`has no such ${name}; it has ${values.join(", ")}`) : Result.succeed(value)
  }
  return Result.gen(function*() {
    const format = yield* chosen("format", formats)
    const compress = yield* chosen("compress", compressions)
    const kept = yield* chosen("formulas", formulas)
    if (format !== "csv" && given.has("formulas")) return yield* Result.fail("takes formulas only with format=csv")
    return { format, compress, formulas: kept }
  })
}

/** A file's name ends with it. */
export const extensionOf = ({ compress, format }: Format): string =>
  compress === "none" || format === "parquet" ? `.${format}` : `.${format}.${compress === "gzip" ? "gz" : "zst"}`
