/** The output of a command that does one thing and prints what it did: lines for people, or one JSON document. */
import { printable } from "@payments/copy"
import { contract, print } from "@payments/program"
import { Effect, Stdio } from "effect"
import { Flag } from "effect/cli"

export type ResultFormat = "text" | "json"

export const resultFormatFlag = Flag.Literals("format", ["text", "json"]).pipe(
  Flag.withDescription("json: one document, and errors as JSON; default: text"),
  Flag.withDefault<ResultFormat>("text")
)

/** Prints an output as one line of JSON. On a terminal, control characters are escaped. */
export const printJson = Effect.fnUntraced(function*(output: contract.JsonOutput, value: object) {
  const json = JSON.stringify(contract.withVersion(output, value))
  yield* print(`${(yield* (yield* Stdio.Stdio).stdoutIsTerminal) ? printable(json) : json}\n`)
})
