/** `payments sandbox receiver`: a receiver of hand-offs on this machine, which shows what arrives. */
import { lockFile, nearest, printable, writeProblem } from "@payments/copy"
import { readPlainFile } from "@payments/core"
import {
  CommandExit,
  counted,
  ExitCode,
  isLoopback,
  listenProblem,
  logLine,
  optionalFlag,
  print,
  switchFlag,
  textFlag,
  usage,
  wholeNumberFlag
} from "@payments/program"
import type { Received, ReceiverSummary } from "@payments/sandbox"
import { DateTime, Duration, Effect, Queue, Result, Schedule, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { printJson } from "../../output/ResultOutput.ts"
import { logWrapped } from "../../output/Wrapped.ts"
import { keyFlags, keysOf } from "./KeyFlags.ts"

export const receiverCommand = Command.make(
  "receiver",
  {
    port: wholeNumberFlag("port", 0, 65_535).pipe(
      Flag.withDefault(8790),
      Flag.withDescription("the port to listen on, 0 to 65535; 0 selects a free port; default 8790")
    ),
    host: Flag.String("host").pipe(
      Flag.withMetavar("HOST"),
      Flag.withDefault("127.0.0.1"),
      Flag.withDescription("the address to listen on; default 127.0.0.1")
    ),
    ...keyFlags,
    faults: optionalFlag(
      Flag.String("faults").pipe(
        Flag.withMetavar("NAME|FILE|JSON"),
        Flag.withDescription("how it fails: flaky, slow, late, down, moved, gone, or faults as JSON")
      )
    ),
    seed: wholeNumberFlag("seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).pipe(
      Flag.withDefault(1),
      Flag.withDescription("the seed that chooses the requests of faults with a rate; default 1")
    ),
    to: textFlag("to", "FILE", "append the changes to this file as lines of JSON, each once, also after a restart"),
    showChanges: switchFlag("show-changes", "print the text of each change too, which can be personal data"),
    format: Flag.Literals("format", ["text", "ndjson"]).pipe(
      Flag.withDefault("text"),
      Flag.withDescription("ndjson: lines of JSON, and errors as JSON; default: text")
    )
  },
  Effect.fnUntraced(function*({ faults, format, host, showChanges, to, ...given }) {
    const sandbox = yield* Effect.promise(() => import("@payments/sandbox"))
    const { signatureProblem } = yield* Effect.promise(() => import("@payments/copy/handoff"))
    const isJson = format === "ndjson"
    const readKeys = yield* keysOf(given)
    let keys = yield* readKeys
    const chosen = yield* faultsOf(faults)
    const requests = yield* Queue.unbounded<Received>()
    const clock = yield* Effect.clockWith(Effect.succeed)
    if (to !== undefined) yield* lockedFile(to)
    const receiver = yield* sandbox.receive({
      host,
      port: given.port,
      seed: given.seed,
      faults: chosen,
      to,
      // oxlint-disable-next-line no-restricted-properties -- the sender signs the time of its wall clock
      signatureProblem: (request) => signatureProblem(request, keys, { now: clock.currentTimeMillisUnsafe() / 1000 }),
      onRequest: (received) => void Queue.offerUnsafe(requests, received)
    })
    // A key that is replaced counts within a second. While the file is wrong, the keys before it stay.
    yield* Effect.forkScoped(
      Effect.repeat(
        Effect.ignore(Effect.map(readKeys, (read) => void (keys = read))),
        Schedule.spaced("1 second")
      )
    )
    if (!isLoopback(host)) {
      yield* logWrapped(`Warning: with --host ${printable(host)}, other machines can send to the receiver too.`)
    }
    if (isJson) yield* printJson(outputs.sandboxReceiver, { url: receiver.url })
    else yield* logLine(`Receiving at ${receiver.url} until Ctrl-C.`)
    return yield* Stream.runForEach(
      Stream.fromQueue(requests),
      (received) => printReceived(received, { isJson, showChanges })
    ).pipe(
      Effect.andThen(Effect.never),
      Effect.onInterrupt(() => printSummary(receiver.summary(), isJson))
    )
  }, (effect, { to }) =>
    Effect.scoped(effect).pipe(
      Effect.catchTags({
        SandboxError: ({ code, ...place }) =>
          usage(listenProblem({ ...place, cause: { code }, hostFlag: "--host", portFlag: "--port" })),
        ChangesFileError: ({ code, line }) =>
          code === undefined
            ? usage(`--to: line ${line} of ${printable(to ?? "")} was not written by a receiver. Choose another file.`)
            : new CommandExit({
              exitCode: ExitCode.destination,
              problem: `--to: ${printable(to ?? "")} cannot be written: ${writeProblem(code)}.`
            })
      })
    ))
).pipe(
  Command.withDescription(
    "Receive the changes that a worker hands off, and show of each request its list, its numbers, whether its signature is right and whether it is new"
  ),
  Command.withShortDescription("Receive the changes that a worker hands off, and show what arrives"),
  Command.withExamples([
    {
      command: "payments sandbox receiver --secret-file ledger.secret --to received.ndjson",
      description: "append each change to a file once"
    },
    {
      command: "payments sandbox receiver --secret-of ledger --to received.ndjson",
      description: "with the keys of a hand-off of the sources file, also if a command prints them"
    },
    {
      command: "payments sandbox receiver --secret-file ledger.secret --faults flaky",
      description: "with errors and lost answers, so that batches are repeated"
    },
    {
      command:
        `payments sandbox receiver --secret-file ledger.secret --faults '{"fault":"status","status":500,"to":3,"applied":true}'`,
      description: "the first three requests are applied, and answered with an error"
    }
  ])
)

/** Two receivers that append to one file would both append the same change. */
const lockedFile = (file: string) =>
  Effect.mapError(lockFile(`${file}.lock`, Duration.zero), ({ reason }) =>
    reason._tag === "Locked"
      ? usage(`--to: another receiver writes ${printable(file)}. Choose another file.`)
      : new CommandExit({
        exitCode: ExitCode.destination,
        problem: `--to: ${printable(file)} cannot be written: ${reason.message}`
      }))

const largestFaultsFile = 1024 * 1024

/** Reads the faults: the name of a scenario, JSON, or a file of JSON. */
const faultsOf = Effect.fnUntraced(function*(given: string | undefined) {
  if (given === undefined) return []
  const { receiverFaultsFromJson, receiverScenarios } = yield* Effect.promise(() => import("@payments/sandbox"))
  const scenario = Object.entries(receiverScenarios).find(([name]) => name === given)
  if (scenario !== undefined) return scenario[1].faults
  const text = /^\s*[[{]/.test(given) ? given : yield* readPlainFile(given, { maxBytes: largestFaultsFile }).pipe(
    Effect.map((file) => file.text),
    Effect.mapError(({ problem }) => {
      const names = nearest(given, Object.keys(receiverScenarios)).join(" or ")
      const suggestion = names === "" ? "" : ` Did you mean ${names}?`
      return usage(`--faults: ${printable(given)} is not a scenario. As a file, it ${problem}.${suggestion}`)
    })
  )
  const read = receiverFaultsFromJson(text)
  return Result.isSuccess(read) ? read.success : yield* usage(`--faults: ${read.failure}`)
})

const problems: { readonly [problem: string]: string } = {
  incomplete: "a header of the signature is missing",
  tooOld: "signed too long ago",
  tooNew: "signed in the future",
  unsigned: "no key has signed it",
  tooLarge: "the body is too large",
  notPost: "not a POST",
  malformed: "not a body of a hand-off",
  notWritten: "the file cannot be written"
}

const deliveries: { readonly [kind in NonNullable<Received["delivery"]>]: string } = {
  new: "new",
  repeat: "repeat",
  partial: "partly repeated",
  outOfOrder: "OUT OF ORDER"
}

const printReceived = Effect.fnUntraced(function*(
  received: Received,
  { isJson, showChanges }: { readonly isJson: boolean; readonly showChanges: boolean }
) {
  const { applied, body, changes, delivery, faults, id, problem, status } = received
  const at = DateTime.formatIso(DateTime.makeUnsafe(received.at))
  const { first = null, last = null, list = null } = body ?? {}
  if (isJson) {
    yield* printJson(outputs.sandboxReceived, {
      at,
      id: id ?? null,
      list,
      first,
      last,
      changes: body?.changes ?? 0,
      problem: problem ?? null,
      delivery: delivery ?? null,
      applied,
      status: status ?? null,
      faults
    })
  } else {
    const what = problem !== undefined
      ? `refused: ${problems[problem] ?? problem}`
      : delivery === undefined
      ? "signed · a test without changes"
      : `${printable(list ?? "")} ${first}–${last} · ${counted(body?.changes ?? 0, "change")} · signed · ${
        deliveries[delivery]
      }`
    const answer = [status ?? "no answer", ...faults].join(", ")
    yield* print(`${at} ${(id ?? "-").slice(0, 12)} ${what} → ${answer}\n`)
  }
  if (showChanges) yield* print(changes.map((change) => `${isJson ? change : `  ${printable(change)}`}\n`).join(""))
})

const printSummary = (
  { applied, deliveries: kinds, passedOver, refused, requests }: ReceiverSummary,
  isJson: boolean
) =>
  isJson
    ? printJson(outputs.sandboxReceiverSummary, {
      summary: {
        requests,
        refused,
        new: kinds.new,
        repeats: kinds.repeat,
        partial: kinds.partial,
        outOfOrder: kinds.outOfOrder,
        applied,
        passedOver
      }
    })
    : logWrapped(
      `${
        counted(requests, "request")
      }: ${kinds.new} new, ${kinds.repeat} repeated, ${kinds.partial} partly repeated, ${refused} refused. ` +
        `${counted(applied, "change")} applied, ${counted(passedOver, "number")} passed over. ` +
        (kinds.outOfOrder === 0
          ? "All in order."
          : `${counted(kinds.outOfOrder, "request")} OUT OF ORDER: a change came after one with a higher number.`)
    )
