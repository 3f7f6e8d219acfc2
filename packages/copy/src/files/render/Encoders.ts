/** The encoder of each format. */
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import type { Encoder, Format } from "./Format.ts"

/** Makes an encoder, and loads the libraries that it needs. */
export const encoderOf = (list: Lists.AnyList, format: Format): Effect.Effect<Encoder> =>
  Effect.promise(async () => {
    switch (format.format) {
      case "ndjson":
        return (await import("./NdjsonFormat.ts")).encoder()
      case "csv":
        return (await import("./CsvFormat.ts")).encoder(list, format.formulas)
      case "parquet":
        return (await import("./ParquetFormat.ts")).encoder(list, format.compress)
    }
  })
