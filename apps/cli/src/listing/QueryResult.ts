/** Prints the result of `--query`. An array has a line or row for each element; in a table or CSV, members are columns. */
import { type Cell, printable } from "@payments/copy"
import { Lists, membersOf } from "@payments/core"
import { printOrEnd } from "@payments/program"
import { Effect, Stdio, Stream } from "effect"
import { type Ending, endingMembers, type Format } from "../output/Output.ts"
import { plainText } from "../output/PrintedRecord.ts"
import { type Column, printRows } from "../output/RowsOutput.ts"
import type { CollectedRecords } from "./CollectedRecords.ts"
import type { JsonQuery } from "./JsonQuery.ts"
import { runJsonQuery } from "./RunJsonQuery.ts"

/** Runs the query on the records and prints its result. Without a query, it ends the document without a result. */
export const printResult = Effect.fnUntraced(function*(
  list: Lists.AnyList,
  query: JsonQuery | undefined,
  records: CollectedRecords,
  format: Format,
  ending: Ending
) {
  const onTerminal = yield* (yield* Stdio.Stdio).stdoutIsTerminal
  const toOutput = (text: string) => onTerminal ? printable(text) : text
  const { elements, json } = query === undefined
    ? { json: "null", elements: [] }
    : yield* runJsonQuery(query, records.texts())
  if (format === "json") {
    return yield* printOrEnd(`{"result":${toOutput(json)},${toOutput(endingMembers(ending, records.count))}}\n`)
  }
  if (query === undefined) return
  if (format === "ndjson") return yield* printOrEnd(elements.map((element) => `${toOutput(element)}\n`).join(""))
  const { columns, rows } = tableOf(elements, Lists.amountFields(list))
  yield* printRows(columns, Stream.make(rows), format, "No rows.")
})

/** Returns a column for each member if all elements are objects, and one column of values otherwise. */
const tableOf = (elements: ReadonlyArray<string>, amounts: ReadonlyArray<string>) => {
  if (!elements.every((element) => element.startsWith("{"))) {
    return { columns: [{ name: "value" }], rows: elements.map((element) => [cellOf(element)]) }
  }
  const objects = elements.map(membersOf)
  const names = [...new Set(objects.flatMap((object) => [...object.keys()]))]
  return {
    columns: names.map((name): Column =>
      amounts.includes(name) ? { name, kind: "integer" } : name === "status" ? { name, kind: "state" } : { name }
    ),
    rows: objects.map((object) => names.map((name) => cellOf(object.get(name))))
  }
}

const cellOf = (json: string | undefined): Cell =>
  json === undefined || json === "null" ? null : json.startsWith("\"") ? plainText(json) : { json }
