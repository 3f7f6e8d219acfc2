/** `payments sandbox`. Only this command, `start` and `conformance` load the sandbox package. */
import { nearest, printable } from "@payments/copy"
import { Lists, readPlainFile } from "@payments/core"
import {
  contract,
  counted,
  isLoopback,
  listenProblem,
  logLine,
  optionalFlag,
  print,
  rangeFlag,
  switchFlag,
  usage,
  wholeNumberFlag
} from "@payments/program"
import { Effect, Redacted, Result, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"
import { observedAt } from "./facts.ts"
import { receiverCommand } from "./handoff/sandboxReceiver.ts"

const portFlag = (name: string) => wholeNumberFlag(name, 0, 65_535)

export const sandboxCommand = Command.make(
  "sandbox",
  {
    port: portFlag("port").pipe(
      Flag.withDefault(8787),
      Flag.withDescription("the port to listen on, 0 to 65535; 0 selects a free port; default 8787")
    ),
    host: Flag.String("host").pipe(
      Flag.withMetavar("HOST"),
      Flag.withDefault("127.0.0.1"),
      Flag.withDescription("the address to listen on; default 127.0.0.1")
    ),
    records: wholeNumberFlag("records", 0, 1_000_000_000).pipe(
      Flag.withDefault(1000),
      Flag.withDescription("records in each list; default 1000")
    ),
    seed: wholeNumberFlag("seed", Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER).pipe(
      Flag.withDefault(1),
      Flag.withDescription("the seed of the random records; the same seed makes the same records; default 1")
    ),
    faults: optionalFlag(
      Flag.String("faults").pipe(
        Flag.withMetavar("NAME|FILE|JSON"),
        Flag.withDescription("the faults: calm, flaky, throttled, hostile, outage, drift, or faults as JSON")
      )
    ),
    live: switchFlag("live", "records appear, change and vanish while they are listed"),
    speed: optionalFlag(
      rangeFlag("speed", 0, 1_000_000).pipe(
        Flag.withDescription("with --live: virtual hours per hour, 0 to 1000000; default 60")
      )
    ),
    order: Flag.Literals("order", ["newest", "oldest", "shuffled"]).pipe(
      Flag.withDefault("oldest"),
      Flag.withDescription("the order of records, first the newest, the oldest or any; default oldest")
    ),
    misplaced: optionalFlag(
      rangeFlag("misplaced", 0, 1).pipe(
        Flag.withDescription(
          "with --live --order newest: the share of new records at the end of a list, 0 to 1; none by default"
        )
      )
    ),
    cursors: Flag.Literals("cursors", ["keyset", "offset", "snapshot"]).pipe(
      Flag.withDefault("keyset"),
      Flag.withDescription(
        "what a cursor contains: the last record (keyset), a count (offset), or the last record and the time of the first page (snapshot); default keyset"
      )
    ),
    count: Flag.Literals("count", ["page", "total", "remaining", "unread"]).pipe(
      Flag.withDefault("page"),
      Flag.withDescription(
        "what an answer counts: its records, all, those that follow, or its own and those (unread); default page"
      )
    ),
    hostileText: rangeFlag("hostile-text", 0, 1).pipe(
      Flag.withDefault(0),
      Flag.withDescription(
        "the share of records, 0 to 1, with text that breaks other tools, such as formulas and escape sequences; default 0"
      )
    ),
    invoiceLimit: wholeNumberFlag("invoice-limit", 1, 100).pipe(
      Flag.withDefault(20),
      Flag.withDescription("invoices per page of a request without a limit, 1 to 100; default 20")
    ),
    invoiceParams: optionalFlag(
      Flag.String("invoice-params").pipe(
        Flag.withMetavar("FIELD=NAME,…"),
        Flag.withDescription("other names of invoice parameters, as in PAYMENTS_INVOICE_PARAMS")
      )
    ),
    behaviour: optionalFlag(
      Flag.String("behaviour").pipe(
        Flag.withMetavar("NAME=VALUE,…"),
        Flag.withDescription("what the service does where its document is silent, such as largeLimit=clamp")
      )
    ),
    like: optionalFlag(
      Flag.String("like").pipe(
        Flag.withMetavar("FILE|DESTINATION"),
        Flag.withDescription(
          "serve as a service that payments probe has observed; the file or destination with the observations, which win over other flags, but not over --behaviour and --faults"
        )
      )
    ),
    controlPort: optionalFlag(
      portFlag("control-port").pipe(Flag.withDescription("serve the control endpoint on this port"))
    ),
    controlHost: optionalFlag(
      Flag.String("control-host").pipe(
        Flag.withMetavar("HOST"),
        Flag.withDescription("with --control-port: the address to listen on; default 127.0.0.1")
      )
    ),
    log: switchFlag("log", "log each request on stderr, as a line of JSON without keys or values"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(
    function*({ behaviour, faults, format, invoiceLimit, invoiceParams, like, live, log, speed, ...input }) {
      const sandbox = yield* Effect.promise(() => import("@payments/sandbox"))
      const parameters = Lists.parseInvoiceParameters(invoiceParams ?? "")
      if (Result.isFailure(parameters)) return yield* usage(`--invoice-params ${parameters.failure}`)
      if (speed !== undefined && !live) return yield* usage("--speed needs --live.")
      if (input.misplaced !== undefined && !(live && input.order === "newest")) {
        return yield* usage("--misplaced needs --live and --order newest.")
      }
      if (input.controlHost !== undefined && input.controlPort === undefined) {
        return yield* usage("--control-host needs --control-port.")
      }
      const observed = yield* observedIn(like)
      const chosen = yield* behaviourOf(behaviour)
      const options: Parameters<typeof sandbox.Sandbox.layer>[0] = {
        ...input,
        assumedLimit: invoiceLimit,
        ...observed,
        invoiceParameters: { ...parameters.success, ...observed.invoiceParameters },
        behaviour: chosen,
        perList: Lists.map(({ name }) => {
          const ofList = observed.perList?.[name]
          return { ...ofList, behaviour: { ...ofList?.behaviour, ...chosen } }
        }),
        faults: [...observed.faults ?? [], ...yield* faultsOf(faults)],
        live: live ? { speed } : undefined,
        onRequest: log
          ? (request) =>
            void process.stderr.write(`${JSON.stringify(contract.withVersion(outputs.sandboxRequest, request))}\n`)
          : undefined
      }
      const { controlHost, host } = input
      return yield* Effect.gen(function*() {
        const { controlUrl, url } = yield* sandbox.Sandbox
        for (const [flag, address] of [["--host", host], ["--control-host", controlHost ?? "127.0.0.1"]] as const) {
          if (!isLoopback(address)) {
            yield* logLine(
              `Warning: with ${flag} ${
                printable(address)
              }, other machines can use the sandbox too. Listen on 127.0.0.1 to prevent that.`
            )
          }
        }
        const key = Redacted.value(sandbox.sandboxKey)
        if (format === "json") {
          yield* printJson(outputs.sandbox, { url, key, controlUrl: controlUrl ?? null })
          return yield* Effect.never
        }
        // A key and a key file exclude each other, so the key file is unset.
        yield* print(
          `unset PAYMENTS_API_KEY_FILE\nexport PAYMENTS_BASE_URL=${url}\nexport PAYMENTS_API_KEY=${key}\n`
        )
        yield* logLine(
          `Serving ${
            counted(input.records, "record")
          } in each list at ${url} until Ctrl-C. Paste the three lines above into another terminal.`
        )
        if (controlUrl !== undefined) {
          yield* logLine(`Controls: ${controlUrl}/faults, /counters, /requests, /clock, /misplaced`)
        }
        return yield* Effect.never
      }).pipe(
        Effect.provide(sandbox.Sandbox.layer(options)),
        Effect.catchTag("SandboxError", ({ code, endpoint, ...place }) => {
          const flag = endpoint === "lists" ? "--" : "--control-"
          return usage(listenProblem({ ...place, cause: { code }, hostFlag: `${flag}host`, portFlag: `${flag}port` }))
        })
      )
    }
  )
).pipe(
  Command.withDescription("Serve the API on this machine, with made-up records"),
  Command.withSubcommands([receiverCommand]),
  Command.withExamples([
    { command: "payments sandbox --records 1000000", description: "a million records in each list" },
    { command: "payments sandbox --faults flaky", description: "with occasional errors and reset connections" },
    { command: "payments sandbox --like facts.json", description: "as the service that payments probe has observed" },
    {
      command: "payments sandbox --behaviour largeLimit=clamp,cursorLimit=obey",
      description: "with other hidden rules"
    },
    {
      command: `payments sandbox --faults '{"fault":"status","status":401,"from":50}'`,
      description: "the key is revoked on page 50"
    }
  ])
)

/** Reads the choices of `--behaviour`. */
const behaviourOf = Effect.fnUntraced(function*(given: string | undefined) {
  if (given === undefined) return {}
  const { Behaviour } = yield* Effect.promise(() => import("@payments/core/testing"))
  const pairs = given.split(",").map((pair) => pair.split("=").map((part) => part.trim()))
  const chosen = Object.fromEntries(
    pairs.map(([name, value]) => [name, /^\d+$/.test(value ?? "") ? Number(value) : value])
  )
  const decoded = Schema.decodeUnknownResult(Behaviour, { onExcessProperty: "error" })(chosen)
  if (Result.isSuccess(decoded)) return decoded.success
  return yield* usage(
    `--behaviour: must be NAME=VALUE,… with names and values of docs/sandbox.md, such as largeLimit=clamp.`
  )
})

/** Reads the observations of `--like`. */
const observedIn = Effect.fnUntraced(function*(file: string | undefined) {
  if (file === undefined) return {}
  const { likeFacts } = yield* Effect.promise(() => import("./LikeFacts.ts"))
  const facts = yield* observedAt("--like", file)
  return facts.some(({ degree }) => degree === "certain")
    ? likeFacts(facts)
    : yield* usage(`--like: ${printable(file)} has no certain facts. Run payments probe --to ${printable(file)} first.`)
})

const largestFaultsFile = 16 * 1024 * 1024

/** Reads the faults: the name of a scenario, JSON, or a file of JSON. */
const faultsOf = Effect.fnUntraced(function*(given: string | undefined) {
  if (given === undefined) return []
  const { faultsFromJson, scenarios } = yield* Effect.promise(() => import("@payments/sandbox"))
  const scenario = Object.entries(scenarios).find(([name]) => name === given)
  if (scenario !== undefined) return scenario[1].faults
  const inline = /^\s*[[{]/.test(given)
  const text = inline
    ? given
    : yield* readPlainFile(given, { maxBytes: largestFaultsFile }).pipe(
      Effect.map((file) => file.text),
      Effect.mapError(({ problem }) => {
        const names = nearest(given, Object.keys(scenarios)).join(" or ")
        const suggestion = names === "" ? "" : ` Did you mean ${names}?`
        return usage(`--faults: ${printable(given)} is not a scenario. As a file, it ${problem}.${suggestion}`)
      })
    )
  const faults = faultsFromJson(text)
  return Result.isSuccess(faults) ? faults.success : yield* usage(`--faults: ${faults.failure}`)
})
