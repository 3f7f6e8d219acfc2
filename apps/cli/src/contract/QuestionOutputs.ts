/** What the commands print that read the service or ask a copy. */
import { contract } from "@payments/program"
import { Schema } from "effect"
import { endError } from "./ListOutput.ts"

const { cell, flag, integer, jsonOutput, next, nullable, optional, otherMembers, text, texts } = contract

const match = {
  list: text,
  fields: texts,
  id: nullable(text),
  missing: flag,
  record: Schema.Unknown
}

export const find = jsonOutput({
  name: "find",
  version: 1,
  description: "the records with a text, each with its exact JSON as record",
  commands: ["find"],
  document: {
    items: Schema.Array(Schema.Struct(match)),
    complete: flag,
    count: integer,
    ...next,
    lists: Schema.Array(Schema.Struct({ list: text, complete: flag, count: integer, error: optional(endError) })),
    error: optional(endError)
  },
  row: match
})

export const query = jsonOutput({
  name: "query",
  version: 1,
  description: "the rows of a statement or a question with --envelope; the members of a row are the columns",
  commands: ["query"],
  document: { columns: texts, items: Schema.Array(Schema.Record(Schema.String, cell)) },
  hasForeignLines: true
})

export const queryTables = jsonOutput({
  name: "query-tables",
  version: 1,
  description: "the columns of the tables of a copy, from query --tables",
  commands: ["query"],
  row: { table: text, column: text, type: text, description: text, values: nullable(texts) }
})

export const queryQuestions = jsonOutput({
  name: "query-questions",
  version: 1,
  description: "the ready-made questions, from query --questions",
  commands: ["query"],
  row: { question: text, description: text, month: text }
})

const side = Schema.Struct({ destination: text, at: optional(integer), generation: optional(text) })

const total = {
  list: text,
  day: nullable(text),
  status: nullable(text),
  figure: text,
  a: integer,
  b: integer
}

const difference = {
  list: text,
  id: text,
  change: text,
  member: text,
  a: optional(Schema.Unknown),
  b: optional(Schema.Unknown)
}

const compared = {
  list: text,
  equal: flag,
  recordsA: integer,
  recordsB: integer,
  onlyA: integer,
  onlyB: integer,
  differing: integer
}

export const diff = jsonOutput({
  name: "diff",
  version: 1,
  description:
    "what differs between two destinations or points; a line has the members of its type: total, record or list",
  commands: ["diff"],
  document: {
    a: side,
    b: side,
    totals: Schema.Array(Schema.Struct(total)),
    records: Schema.Array(Schema.Struct(difference)),
    lists: Schema.Array(Schema.Struct(compared)),
    equal: optional(flag),
    complete: flag
  },
  row: {
    type: Schema.Literals(["total", "record", "list"]),
    list: text,
    day: optional(nullable(text)),
    status: optional(nullable(text)),
    figure: optional(text),
    id: optional(text),
    change: optional(text),
    member: optional(text),
    a: optional(Schema.Unknown),
    b: optional(Schema.Unknown),
    equal: optional(flag),
    recordsA: optional(integer),
    recordsB: optional(integer),
    onlyA: optional(integer),
    onlyB: optional(integer),
    differing: optional(integer)
  }
})

/** Of a line of the statement or a record of the copy. The fields that identify them are further members. */
const entry = {
  class: text,
  entry: integer,
  line: nullable(integer),
  id: nullable(text),
  dayThere: optional(nullable(text)),
  dayHere: optional(nullable(text)),
  amountThere: nullable(integer),
  fee: nullable(integer),
  amountHere: nullable(integer),
  difference: nullable(integer),
  why: nullable(text)
}

export const reconcile = jsonOutput({
  name: "reconcile",
  version: 1,
  description:
    "the lines of a statement and the records of a copy; the fields that identify a record are further members",
  commands: ["reconcile"],
  document: {
    items: Schema.Array(Schema.StructWithRest(Schema.Struct(entry), [Schema.Record(Schema.String, Schema.Unknown)])),
    totals: Schema.Array(Schema.Struct({
      class: text,
      entries: integer,
      lines: integer,
      records: integer,
      amountThere: integer,
      fee: integer,
      amountHere: integer,
      difference: integer
    })),
    statement: Schema.Struct({
      format: text,
      encoding: text,
      separator: optional(text),
      headerLine: optional(integer),
      decimal: optional(text),
      dates: optional(text),
      notBooked: optional(integer),
      lines: integer,
      firstDay: nullable(text),
      lastDay: nullable(text)
    }),
    through: nullable(text),
    equal: flag
  },
  row: { ...entry, [otherMembers]: Schema.Unknown }
})
