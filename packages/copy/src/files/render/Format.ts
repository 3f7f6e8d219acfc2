/** The formats in which a folder's lists can be rendered, and the port of their encoders. */
import { Result } from "effect"
import type { FullRow } from "../../store/Store.ts"

export const formats = ["ndjson", "csv", "parquet"] as const
/** CSV and NDJSON are compressed as a whole, Parquet inside the file. */
export const compressions = ["none", "gzip", "zstd"] as const
/** What is done with text that a spreadsheet would interpret as a formula. */
export const formulas = ["escape", "keep"] as const

export interface Format {
  readonly format: typeof formats[number]
  readonly compress: typeof compressions[number]
  /** Only for CSV. */
  readonly formulas: typeof formulas[number]
}

/** Converts the rows of a list to the bytes of one file, in bounded memory. */
export interface Encoder {
  /** Adds rows and returns the bytes that are complete. It returns none while it collects rows. */
  readonly write: (rows: ReadonlyArray<FullRow>) => Uint8Array
  /** Returns the last bytes of the file. */
  readonly end: () => Uint8Array
}

/** Parses a query such as `format=csv&compress=gzip`. The default is NDJSON without compression. */
export const fromQuery = (query: string): Result.Result<Format, string> => {
  const given = new URLSearchParams(query)
  const known = { format: formats, compress: compressions, formulas } as const
  for (const name of given.keys()) {
    if (!Object.hasOwn(known, name)) return Result.fail(`has no option ${name}`)
    if (given.getAll(name).length > 1) return Result.fail(`accepts ${name} only once`)
  }
  const chosen = <Value extends string>(
    name: keyof typeof known,
    values: readonly [Value, ...ReadonlyArray<Value>]
  ) => {
    const wanted = given.get(name) ?? values[0]
    const value = values.find((candidate) => candidate === wanted)
    return value === undefined
      ? Result.fail(`has no such ${name}. The values are ${values.join(", ")}`)
      : Result.succeed(value)
  }
  return Result.gen(function*() {
    const format = yield* chosen("format", formats)
    const compress = yield* chosen("compress", compressions)
    const formulaMode = yield* chosen("formulas", formulas)
    if (format !== "csv" && given.has("formulas")) return yield* Result.fail("accepts formulas only with format=csv")
    return { format, compress, formulas: formulaMode }
  })
}

export const extensionOf = ({ compress, format }: Format): string =>
  compress === "none" || format === "parquet" ? `.${format}` : `.${format}.${compress === "gzip" ? "gz" : "zst"}`
