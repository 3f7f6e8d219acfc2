/** The lines of JSON on stderr, which every command may print with `--format json` or `ndjson`. */
import { Schema } from "effect"
import { jsonOutput } from "./JsonOutput.ts"
import { flag, integer, next, nullable, text } from "./Members.ts"

export const errorOutput = jsonOutput({
  name: "error",
  version: 1,
  description: "why a command failed, on stderr",
  commands: [],
  document: {
    error: Schema.Struct({
      reason: text,
      message: text,
      retryable: nullable(flag),
      retryAfterMs: nullable(integer),
      exitCode: integer,
      ...next
    })
  }
})

export const noteOutput = jsonOutput({
  name: "note",
  version: 1,
  description: "a note with the command that continues, on stderr",
  commands: [],
  document: { note: Schema.Struct({ message: text, ...next }) }
})

export const messageOutputs = [errorOutput, noteOutput]
