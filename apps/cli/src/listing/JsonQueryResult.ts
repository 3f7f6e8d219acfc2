/** Prints the result of `--query`. An array has a line or row for each element; in a table or CSV, members are columns. */
import type { Cell } from "@payments/copy"
import { Lists, membersOf } from "@payments/core"
import { contract, printOrEnd } from "@payments/program"
import { Effect, Stream } from "effect"
import { list as listOutput } from "../contract/ListOutput.ts"
import { plainText } from "../output/PrintedRecord.ts"
import { columnsOfCells, lookOf, printRows, type RowFormat, shownAs } from "../output/Rows.ts"
import type { CollectedRecords } from "./CollectedRecords.ts"
import type { JsonQuery } from "./JsonQuery.ts"
import { type Ending, endingMembers, headingOf } from "./ListingOutput.ts"
import { runJsonQuery } from "./RunJsonQuery.ts"

/** Runs the query on the records and prints its result. Without a query, it ends the document without a result. */
export const printResult = Effect.fnUntraced(function*(
  { ending, format, list, query, records }: {
    readonly list: Lists.AnyList
    readonly query: JsonQuery | undefined
    readonly records: CollectedRecords
    readonly format: RowFormat
    readonly ending: Ending
  }
) {
  const toOutput = shownAs(yield* lookOf(format))
  const { elements, json } = query === undefined
    ? { json: "null", elements: [] }
    : yield* runJsonQuery(query, records.texts())
  if (format === "json") {
    return yield* printOrEnd(
      `{"result":${toOutput(json)},${toOutput(endingMembers(ending, records.count))},${
        contract.versionText(listOutput)
      }}\n`
    )
  }
  if (query === undefined) return
  if (format === "ndjson") return yield* printOrEnd(elements.map((element) => `${toOutput(element)}\n`).join(""))
  const { columns, rows } = tableOf(elements, Lists.amountFields(list))
  yield* printRows(columnsOfCells(columns), Stream.make(rows), format, { empty: "No rows." })
})

/** Returns a column for each member if all elements are objects, and one column of values otherwise. */
const tableOf = (elements: ReadonlyArray<string>, amounts: ReadonlyArray<string>) => {
  if (!elements.every((element) => element.startsWith("{"))) {
    return { columns: [{ name: "value" }], rows: elements.map((element) => [cellOf(element)]) }
  }
  const objects = elements.map(membersOf)
  const names = [...new Set(objects.flatMap((object) => [...object.keys()]))]
  return {
    columns: names.map((name) => headingOf(name, amounts)),
    rows: objects.map((object) => names.map((name) => cellOf(object.get(name))))
  }
}

const cellOf = (json: string | undefined): Cell =>
  json === undefined || json === "null" ? null : json.startsWith("\"") ? plainText(json) : { json }
