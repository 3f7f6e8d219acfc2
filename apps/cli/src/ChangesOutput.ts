/** How changes leave the program: lines for people, exact texts for programs. */
import { type ChangeRow, printable } from "@payments/export"
import type * as Csv from "csv-stringify/sync"
import { Effect, Stdio } from "effect"
import { terminalWidth } from "./Output.ts"

/** The formats of changes. */
export const changesFormats = ["table", "ndjson", "csv"] as const
/** {@inheritDoc changesFormats} */
export type ChangesFormat = typeof changesFormats[number]

/** Text for the beginning, and for changes as they come. */
export interface ChangesOutput {
  readonly head: string
  readonly rows: (rows: ReadonlyArray<ChangeRow>) => string
  /** What is said, beside the output, where there was no change. */
  readonly nothing?: string
}

/** The output in the given format, or the one that suits where it goes. */
export const makeChangesOutput = Effect.fnUntraced(function*(wanted: ChangesFormat | undefined) {
  const stdio = yield* Stdio.Stdio
  const onTerminal = yield* stdio.stdoutIsTerminal
  const exact = (text: string) => onTerminal ? printable(text) : text
  switch (wanted ?? (onTerminal ? "table" : "ndjson")) {
    case "table":
      return table(onTerminal ? yield* terminalWidth : Infinity)
    case "ndjson":
      return { head: "", rows: (rows) => rows.map((row) => `${exact(ndjson(row))}\n`).join("") } satisfies ChangesOutput
    case "csv":
      return csv(yield* Effect.promise(() => import("csv-stringify/sync")), exact)
  }
})

const gap = "  "
/** A narrower terminal has no room for the time. */
const roomForTime = 100
/** An id that is longer moves the rest of its line, and no other line. */
const longestId = 36

/** One line a change where the terminal is wide enough for its id. Ids are whole: they are there to be copied. */
const table = (width: number): ChangesOutput => {
  let idWidth: number | undefined
  const line = (seq: string, at: string, list: string, kind: string, id: string): string =>
    [
      seq.padStart(7),
      ...(width < roomForTime ? [] : [at.padEnd(24)]),
      list.padEnd(15),
      kind.padEnd(8),
      id.padEnd(idWidth ?? 0),
      ""
    ].join(gap)
  return {
    head: "",
    rows: (rows) => {
      const isFirst = idWidth === undefined
      idWidth ??= Math.max(
        "id".length,
        ...rows.map(({ id }) => printable(id).length).filter((length) => length <= longestId)
      )
      const lines = rows.map(({ at, fields, id, kind, list, seq }) => {
        const start = line(String(seq), at, list, kind, printable(id))
        return start + fitting(fields.map(printable), width - start.length)
      })
      const head = isFirst ? [`${line("seq", "at", "list", "change", "id")}fields`] : []
      return [...head, ...lines].map((text) => `${text.trimEnd()}\n`).join("")
    },
    nothing: "No changes."
  }
}

/** As many names as there is room for, and how many more there are. */
const fitting = (names: ReadonlyArray<string>, room: number): string => {
  const all = names.join(", ")
  if (all.length <= room) return all
  let text = ""
  for (const [index, name] of names.entries()) {
    const next = `${text}${name}, `
    if (next.length + `+${names.length - index - 1}`.length > room) return `${text}+${names.length - index}`
    text = next
  }
  return all
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
