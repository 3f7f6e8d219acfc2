/** How changes leave the program: lines for people, exact texts for programs. */
import { type ChangeRow, printable } from "@payments/export"
import type * as Csv from "csv-stringify/sync"
import { Effect } from "effect"

/** The formats of changes. */
export const changesFormats = ["table", "ndjson", "csv"] as const
/** {@inheritDoc changesFormats} */
export type ChangesFormat = typeof changesFormats[number]

/** Text for the beginning, and for changes as they come. */
export interface ChangesOutput {
  readonly head: string
  readonly rows: (rows: ReadonlyArray<ChangeRow>) => string
}

/** The output in the given format, or the one that suits where it goes. */
export const makeChangesOutput = Effect.fnUntraced(function*(wanted: ChangesFormat | undefined, onTerminal: boolean) {
  const exact = (text: string) => onTerminal ? printable(text) : text
  switch (wanted ?? (onTerminal ? "table" : "ndjson")) {
    case "table":
      return table
    case "ndjson":
      return { head: "", rows: (rows) => rows.map((row) => `${exact(ndjson(row))}\n`).join("") } satisfies ChangesOutput
    case "csv":
      return csv(yield* Effect.promise(() => import("csv-stringify/sync")), exact)
  }
})

const widths = { seq: 8, at: 24, list: 15, kind: 8 } as const

const table: ChangesOutput = {
  head: `${"seq".padStart(widths.seq)}  ${"at".padEnd(widths.at)}  ${"list".padEnd(widths.list)}  ${
    "change".padEnd(widths.kind)
  }  id  fields\n`,
  rows: (rows) =>
    rows.map(({ at, fields, id, kind, list, seq }) =>
      [
        String(seq).padStart(widths.seq),
        at.padEnd(widths.at),
        list.padEnd(widths.list),
        kind.padEnd(widths.kind),
        printable(id),
        fields.map(printable).join(", ")
      ].join("  ").trimEnd() + "\n"
    ).join("")
}

/** The texts are the API's own, so that no digit is lost on the way through a parser. */
const ndjson = ({ after, at, before, fields, id, kind, list, scan, seq }: ChangeRow): string =>
  `{"seq":${seq},"list":${JSON.stringify(list)},"scan":${scan},"at":${JSON.stringify(at)},"change":${
    JSON.stringify(kind)
  },"id":${JSON.stringify(id)},"fields":${JSON.stringify(fields)},"before":${before ?? "null"},"after":${
    after ?? "null"
  }}`

const csvColumns = ["seq", "list", "scan", "at", "change", "id", "fields", "before", "after"]

const csv = (
  { stringify }: typeof Csv,
  exact: (text: string) => string
): ChangesOutput => ({
  head: stringify([csvColumns], { record_delimiter: "windows" }),
  rows: (rows) =>
    stringify(
      rows.map(({ after = "", at, before = "", fields, id, kind, list, scan, seq }) =>
        [seq, list, scan, at, kind, id, fields.join(" "), before, after].map((cell) =>
          typeof cell === "string" ? exact(cell) : cell
        )
      ),
      // A spreadsheet takes an id that begins like a formula for one.
      { record_delimiter: "windows", escape_formulas: true }
    )
})
