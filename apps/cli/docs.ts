/**
 * Writes the schemas of the JSON outputs, the sections of the commands into `docs/cli.md` and the figures into
 * `docs/security-review.md`, runs the commands in the documents and replaces their output there.
 * `npm run docs` runs this program. A test fails if a document shows another output or lacks a command.
 */
import { contract } from "@payments/program"
import { writeOutputs } from "@payments/testkit/contract/SchemaFiles"
import { Effect } from "effect"
import { readFileSync, writeFileSync } from "node:fs"
import { all } from "./src/contract/Outputs.ts"
import { pageFiles, withOutput, withoutTimes } from "./test/docs/ConsoleExamples.ts"
import { cliPage, withSections } from "./test/docs/Reference.ts"
import { securityPage, withFigures } from "./test/docs/SecurityReview.ts"

writeOutputs("payments", all, contract.jsonSchemas(all))

const update = Effect.fnUntraced(function*(file: string) {
  const page = readFileSync(file, "utf8")
  const text = yield* withOutput(file === cliPage ? yield* withSections(page) : page)
  if (withoutTimes(text) !== withoutTimes(page)) writeFileSync(file, text)
})

await Effect.runPromise(Effect.forEach(pageFiles, update))
writeFileSync(securityPage, withFigures(readFileSync(securityPage, "utf8")))
