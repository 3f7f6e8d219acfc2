/** What the listings print. It stands alone, because most starts of the program need only this output. */
import { Lists } from "@payments/core"
import { contract } from "@payments/program"
import { Schema } from "effect"

const { flag, integer, jsonOutput, next, nullable, optional, text } = contract

/** Why a listing or a search of a list ended early. */
export const endError = Schema.Struct({ reason: text, message: text, status: optional(integer) })

export const list = jsonOutput({
  name: "list",
  version: 1,
  description:
    "records of a list of the service, each with the members that the service sent; or the result of --query",
  commands: Lists.all.map(({ label }) => `${label} list`),
  document: {
    items: optional(Schema.Array(Schema.Unknown)),
    result: optional(Schema.Unknown),
    cursor: nullable(text),
    count: integer,
    complete: flag,
    read: optional(integer),
    printedOfPage: optional(integer),
    repeated: optional(integer),
    ...next,
    error: optional(endError)
  },
  hasForeignLines: true
})
