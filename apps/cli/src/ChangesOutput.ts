/** How changes leave the program: lines for people, exact texts for programs. */
import { type ChangeRow, printable } from "@payments/export"
import type * as Csv from "@payments/export/csv"
import { requireOutput } from "@payments/export/program"
import { Effect, Stdio } from "effect"
import { terminalWidth } from "./Output.ts"
import type * as Table from "./Table.ts"

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
export const makeChangesOutput = Effect.fnUntraced(function*(wanted: ChangesFormat | undefined) {
  yield* requireOutput
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const exact = (text: string) => onTerminal ? printable(text) : text
  switch (wanted ?? (onTerminal ? "table" : "ndjson")) {
    case "table":
      return table(
        yield* Effect.promise(() => import("./Table.ts")),
        onTerminal ? yield* terminalWidth : Infinity
      )
    case "ndjson":
      return { head: "", rows: (rows) => rows.map((row) => `${exact(ndjson(row))}\n`).join("") } satisfies ChangesOutput
    case "csv":
      return csv(yield* Effect.promise(() => import("@payments/export/csv")), exact)
  }
})

/** A narrower terminal has no room for the time. */
const roomForTime = 100

/** One line a change, where the terminal is wide enough for its id. */
const table = ({ firstNames, makeTable }: typeof Table, width: number): ChangesOutput => {
  const columns: ReadonlyArray<Table.Column & { readonly of: (row: ChangeRow) => string }> = [
    { name: "seq", align: "right", whole: 16, usual: 7, of: ({ seq }) => String(seq) },
    ...(width < roomForTime ? [] : [{ name: "at", narrowest: 24, of: ({ at }: ChangeRow) => at }]),
    { name: "list", narrowest: 15, usual: 15, of: ({ list }) => list },
    { name: "change", narrowest: 8, usual: 8, of: ({ kind }) => kind },
    { name: "id", whole: 36, of: ({ id }) => id },
    { name: "fields", narrowest: 6, shorten: firstNames, of: ({ fields }) => fields.join(", ") }
  ]
  const { print } = makeTable(columns, width)
  return {
    head: "",
    rows: (rows) => print(rows.map((row) => columns.map(({ of }) => of(row))))
  }
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
  { csvText }: typeof Csv,
  exact: (text: string) => string
): ChangesOutput => ({
  head: csvText([csvColumns], "keep"),
  rows: (rows) =>
    csvText(
      rows.map(({ after, at, before, fields, id, kind, list, scan, seq }) =>
        [seq, list, scan, at, kind, id, fields.length === 0 ? undefined : fields.join(" "), before, after].map((cell) =>
          typeof cell === "string" ? exact(cell) : cell
        )
      ),
      "escape"
    )
})
