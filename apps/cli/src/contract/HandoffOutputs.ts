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

const reason = nullable(Schema.Literals(["gone", "gaveUp", "restored", "removed", "refused", "full"]))

export const handoffList = jsonOutput({
  name: "handoff-list",
  version: 1,
  description:
    "the hand-offs, one row for each; new: it has not begun; removed: the sources file no longer names it, and changes are kept for it",
  commands: ["handoff list"],
  row: {
    source: nullable(text),
    consumer: text,
    state: Schema.Literals(["new", "running", "stopped", "waiting", "removed"]),
    reason,
    position: nullable(integer),
    lag: nullable(integer),
    lag_seconds: nullable(integer),
    attempts: integer,
    next_attempt_at: nullable(text),
    refused_seq: nullable(integer),
    set_aside: integer,
    skips: integer,
    epoch: nullable(integer),
    to: nullable(text)
  }
})

export const handoffDecided = jsonOutput({
  name: "handoff-decided",
  version: 1,
  description: "the state of a hand-off after a decision",
  commands: ["handoff resume", "handoff skip", "handoff replay"],
  document: {
    consumer: text,
    state: Schema.Literals(["running", "stopped", "waiting"]),
    reason,
    position: integer
  }
})

export const handoffTest = jsonOutput({
  name: "handoff-test",
  version: 1,
  description:
    "whether the receiver has accepted a signed test; status is null without an answer; publicKeys: those of the ed25519 keys that signed",
  commands: ["handoff test"],
  document: {
    consumer: text,
    accepted: flag,
    status: nullable(integer),
    problem: nullable(Schema.Literals(["timeout", "connection", "tls", "address"])),
    milliseconds: integer,
    publicKeys: texts
  }
})

export const handoffRotate = jsonOutput({
  name: "handoff-rotate",
  version: 1,
  description:
    "the file with the keys, and how many it has now; publicKey: what receivers get of the newest key, null if that is the key itself (whsec_)",
  commands: ["handoff rotate"],
  document: { consumer: text, file: text, keys: integer, finished: flag, publicKey: nullable(text) }
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
