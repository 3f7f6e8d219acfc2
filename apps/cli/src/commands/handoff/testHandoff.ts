/** `payments handoff test`: one signed request without changes, to see whether the receiver accepts it. */
import type { Answer } from "@payments/copy/handoff"
import { Monotonic } from "@payments/core"
import { CommandExit, ExitCode, print, requireOutput } from "@payments/program"
import { DateTime, Effect, Redacted } from "effect"
import { Command } from "effect/cli"
import { randomUUID } from "node:crypto"
import { outputs } from "../../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../../output/ResultOutput.ts"
import { chosenHandoff, nameArgument, originText } from "./Chosen.ts"

export const testCommand = Command.make(
  "test",
  { name: nameArgument, format: resultFormatFlag },
  Effect.fnUntraced(function*({ format, name }) {
    const { handoff, source } = yield* chosenHandoff(name)
    yield* requireOutput
    const { makePost, publicKeyText, sign } = yield* Effect.promise(() => import("@payments/copy/handoff"))
    const now = yield* DateTime.now
    const body = Buffer.from(
      `{"type":"payments.test","timestamp":${JSON.stringify(DateTime.formatIso(now))},"source":${
        JSON.stringify(source.name)
      },"changes":[],"schemaVersion":1}`
    )
    const id = `msg_test_${randomUUID()}`
    const timestamp = Math.floor(DateTime.toEpochMillis(now) / 1000)
    const keys = yield* handoff.keys
    const headers = sign({ id, timestamp, body }, keys)
    const publicKeys = keys.map(publicKeyText).filter((key) => key !== undefined)
    if (format === "text" && publicKeys.length > 0) {
      yield* print(`${handoff.consumer}: its receiver verifies with a public key:\n${publicKeys.join("\n")}\n`)
    }
    const post = yield* makePost(Redacted.value(handoff.target))
    const start = yield* Monotonic.millis
    const answer = yield* post({ ...headers }, body)
    const milliseconds = Math.round((yield* Monotonic.millis) - start)
    const status = answer._tag === "Status" ? answer.status : null
    const problem = answer._tag === "NoAnswer" ? answer.problem : null
    const exitCode = exitCodeOf(answer)
    if (format === "json") {
      yield* printJson(outputs.handoffTest, {
        consumer: handoff.consumer,
        accepted: exitCode === ExitCode.done,
        status,
        problem,
        milliseconds,
        publicKeys
      })
    } else if (exitCode === ExitCode.done) {
      yield* print(
        `${handoff.consumer}: ${originText(handoff)} accepted a signed test (${status}) in ${milliseconds} ms\n`
      )
    }
    if (exitCode === ExitCode.done) return
    return yield* new CommandExit({
      exitCode,
      problem: format === "json"
        ? ""
        : `${handoff.consumer}: ${originText(handoff)} did not accept a signed test: ${
          problem === null ? `it answered ${status}${hintOf(status ?? 0)}` : problems[problem]
        } after ${milliseconds} ms.`
    })
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Send one signed request without changes (type payments.test), and show the status and the time of the answer, and nothing else of it. Of ed25519 keys, show the public keys, with which the receiver verifies"
  ),
  Command.withShortDescription("Send one signed request without changes"),
  Command.withExamples([
    { command: "payments handoff test ledger", description: "does the receiver accept what is signed?" },
    { command: "payments handoff test ledger --source north --format json", description: "of another source, as JSON" }
  ])
)

const problems: { readonly [problem in Extract<Answer, { readonly _tag: "NoAnswer" }>["problem"]]: string } = {
  timeout: "it did not answer in time",
  connection: "the connection failed",
  tls: "its certificate is not accepted, or it does not speak TLS",
  address: "its name leads to a private or link-local address; allow_private = true allows that"
}

const hintOf = (status: number): string =>
  status === 401 || status === 403
    ? " (it may have another key)"
    : status >= 300 && status < 400
    ? " (a redirect is never followed)"
    : ""

const exitCodeOf = (answer: Answer): ExitCode => {
  if (answer._tag === "NoAnswer") return answer.problem === "address" ? ExitCode.configuration : ExitCode.unavailable
  const { status } = answer
  if (status >= 200 && status < 300) return ExitCode.done
  if (status === 401 || status === 403) return ExitCode.notAuthorized
  if (status === 429) return ExitCode.rateLimited
  if (status === 408 || status >= 500) return ExitCode.unavailable
  return status >= 400 ? ExitCode.refused : ExitCode.malformed
}
