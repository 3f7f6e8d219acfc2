/** What the commands print about hand-offs. */
import { contract } from "@payments/program"
import { Schema } from "effect"

const { flag, integer, jsonOutput, nullable, text, texts } = contract

export const sandboxReceiver = jsonOutput({
  name: "sandbox-receiver",
  version: 1,
  description: "the address of a receiver of hand-offs",
  commands: ["sandbox receiver"],
  document: { url: text }
})

export const sandboxReceived = jsonOutput({
  name: "sandbox-received",
  version: 1,
  description: "a request that the receiver has answered; status is null if it did not answer",
  commands: ["sandbox receiver"],
  row: {
    at: text,
    id: nullable(text),
    list: nullable(text),
    first: nullable(integer),
    last: nullable(integer),
    changes: integer,
    problem: nullable(text),
    delivery: nullable(Schema.Literals(["new", "repeat", "partial", "outOfOrder"])),
    applied: integer,
    status: nullable(integer),
    faults: texts
  }
})

export const sandboxReceiverSummary = jsonOutput({
  name: "sandbox-receiver-summary",
  version: 1,
  description: "counts of all requests to the receiver, as its last line",
  commands: ["sandbox receiver"],
  document: {
    summary: Schema.Struct({
      requests: integer,
      refused: integer,
      new: integer,
      repeats: integer,
      partial: integer,
      outOfOrder: integer,
      applied: integer,
      passedOver: integer
    })
  }
})

export const handoffVerify = jsonOutput({
  name: "handoff-verify",
  version: 1,
  description: "whether one of the keys has signed exactly these bytes",
  commands: ["handoff verify"],
  document: {
    valid: flag,
    problem: nullable(Schema.Literals(["incomplete", "tooOld", "tooNew", "unsigned"])),
    id: nullable(text),
    ageSeconds: nullable(integer),
    bytes: integer,
    signatures: integer
  }
})
