/** `payments handoff verify`: checks the signature of a saved request as a receiver does. */
import { printable } from "@payments/copy"
import {
  CommandExit,
  counted,
  ExitCode,
  print,
  requireOutput,
  textFlag,
  usage,
  wholeNumberFlag
} from "@payments/program"
import { DateTime, Effect, FileSystem, Stdio, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../../output/ResultOutput.ts"
import { keyFlags, keysOf } from "./KeyFlags.ts"

export const verifyCommand = Command.make(
  "verify",
  {
    headers: textFlag("headers", "FILE", "the saved headers, one per line: webhook-id: …"),
    body: textFlag("body", "FILE", "the saved body, byte for byte; - is stdin"),
    request: textFlag("request", "FILE", "instead of both: a whole HTTP request; - is stdin"),
    ...keyFlags,
    tolerance: wholeNumberFlag("tolerance", 0, 1_000_000_000).pipe(
      Flag.withDefault(300),
      Flag.withDescription("how many seconds the signed time may be away from now; default 300")
    ),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ format, tolerance, ...given }) {
    const { signatureProblem } = yield* Effect.promise(() => import("@payments/copy/handoff"))
    const keys = yield* Effect.flatten(keysOf(given))
    if (format === "json") yield* requireOutput
    const { body, headers } = yield* requestOf(given)
    const now = Math.floor(DateTime.toEpochMillis(yield* DateTime.now) / 1000)
    const problem = signatureProblem({ headers, body }, keys, { now, tolerance })
    const { "webhook-id": id = "", "webhook-signature": signature = "", "webhook-timestamp": signedAt = "" } = headers
    const age = /^\d{1,12}$/.test(signedAt) ? now - Number(signedAt) : undefined
    const shownId = /^[\w-]{1,64}$/.test(id) ? id : undefined
    if (format === "json") {
      yield* printJson(outputs.handoffVerify, {
        valid: problem === undefined,
        problem: problem ?? null,
        id: shownId ?? null,
        ageSeconds: age ?? null,
        bytes: body.length,
        signatures: signature === "" ? 0 : signature.split(" ").length
      })
    } else if (problem === undefined) {
      yield* print(
        `valid: one of the keys has signed these ${counted(body.length, "byte")} as ${shownId ?? "a message"}, ${
          age ?? 0
        } s ago\n`
      )
    }
    if (problem === undefined) return
    return yield* new CommandExit({
      exitCode: ExitCode.differs,
      problem: format === "json" ? "" : advice[problem]
    })
  })
).pipe(
  Command.withDescription(
    "Check the signature of a saved request as a receiver does: the exact bytes of the body, the three headers and the time. Prints no key and nothing of the body"
  ),
  Command.withShortDescription("Check the signature of a saved request as a receiver does"),
  Command.withExamples([
    {
      command: "payments handoff verify --headers headers.txt --body body.json --secret-file ledger.secret",
      description: "a request whose headers and body were saved"
    },
    {
      command: "payments handoff verify --request request.http --secret-file ledger.secret --tolerance 86400",
      description: "a whole request of today"
    }
  ])
)

const advice = {
  incomplete: "invalid: webhook-id, webhook-timestamp or webhook-signature is missing, or has another form.",
  tooOld: "invalid: the request was signed too long ago. It may be a replay; --tolerance SECONDS accepts older ones.",
  tooNew: "invalid: the request was signed in the future. Compare the clocks of sender and receiver.",
  unsigned:
    "invalid: none of the keys has signed these bytes. The key is another one, or the body was changed: it must be saved before it is parsed."
}

/** The largest request. A batch is smaller. */
const mostBytes = 64 * 1024 * 1024

const requestOf = Effect.fnUntraced(function*(
  { body, headers, request }: {
    readonly body: string | undefined
    readonly headers: string | undefined
    readonly request: string | undefined
  }
) {
  if (request !== undefined) {
    if (headers !== undefined || body !== undefined) return yield* usage("--request excludes --headers and --body.")
    return yield* wholeRequest(yield* bytesOf("--request", request))
  }
  if (headers === undefined || body === undefined) {
    return yield* usage("Name the saved request: --headers FILE and --body FILE, or --request FILE.")
  }
  const lines = yield* bytesOf("--headers", headers)
  return { headers: headersIn(lines.toString("latin1")), body: yield* bytesOf("--body", body) }
})

/** Splits a request at the first empty line. The content length, if there is one, ends the body. */
const wholeRequest = Effect.fnUntraced(function*(bytes: Buffer) {
  const ends = ["\r\n\r\n", "\n\n"].map((end) => ({ at: bytes.indexOf(end), length: end.length }))
  const [end] = ends.filter(({ at }) => at !== -1).toSorted((one, other) => one.at - other.at)
  if (end === undefined) return yield* usage("--request: it has no empty line between its headers and its body.")
  const headers = headersIn(bytes.toString("latin1", 0, end.at))
  if (/chunked/i.test(headers["transfer-encoding"] ?? "")) {
    return yield* usage("--request: its body is chunked. Save headers and body on their own: --headers and --body.")
  }
  const length = headers["content-length"]
  const body = bytes.subarray(end.at + end.length)
  return { headers, body: length !== undefined && /^\d{1,9}$/.test(length) ? body.subarray(0, Number(length)) : body }
})

const headersIn = (text: string): { readonly [name: string]: string | undefined } =>
  Object.fromEntries(
    Array.from(
      text.matchAll(/^([\w-]+):[ \t]*(.*?)[ \t]*\r?$/gm),
      ([, name = "", value]) => [name.toLowerCase(), value]
    )
  )

const bytesOf = Effect.fnUntraced(function*(flag: string, file: string) {
  if (file === "-") {
    const { stdin } = yield* Stdio.Stdio
    const chunks: Array<Uint8Array> = []
    let size = 0
    yield* stdin.pipe(
      Stream.mapError(() => usage(`${flag}: standard input cannot be read.`)),
      Stream.runForEach((chunk) => {
        chunks.push(chunk)
        size += chunk.length
        return size > mostBytes ? Effect.fail(usage(`${flag}: the input is too large.`)) : Effect.void
      })
    )
    return Buffer.concat(chunks)
  }
  const fs = yield* FileSystem.FileSystem
  const unreadable = () => usage(`${flag}: ${printable(file)} cannot be read.`)
  const { size, type } = yield* Effect.mapError(fs.stat(file), unreadable)
  if (type !== "File") return yield* unreadable()
  if (size > mostBytes) return yield* usage(`${flag}: ${printable(file)} is too large.`)
  return Buffer.from(yield* Effect.mapError(fs.readFile(file), unreadable))
})
