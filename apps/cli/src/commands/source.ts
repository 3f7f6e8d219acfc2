/** `payments source add|remove`: edits the sources file. A key is never an argument, and is never printed. */
import { Destination, printable } from "@payments/copy"
import { largestKeyBytes, PaymentsConfig } from "@payments/core"
import {
  ChosenSource,
  logLine,
  quotedWord,
  requireOutput,
  SourceFlag,
  switchFlag,
  textFlag,
  usage,
  variableText
} from "@payments/program"
import { addSource, removeSource } from "@payments/program/sources"
import { Effect, Record, Redacted, Stdio, Stream, Terminal } from "effect"
import { Argument, Command, Prompt } from "effect/cli"
import { resolve } from "node:path"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"

const nameArgument = (description: string) => Argument.String("name").pipe(Argument.withDescription(description))

const addCommand = Command.make(
  "add",
  {
    name: nameArgument("the source: small letters, digits, _ and -"),
    baseUrl: textFlag(
      "base-url",
      "URL",
      "address of payout requests and payin sources, without /v0; else it is asked for"
    ),
    invoicesBaseUrl: textFlag("invoices-base-url", "URL", "address of invoices, without /v1; default: --base-url"),
    account: textFlag("account", "NAME", "a name for the account whose data this is"),
    to: textFlag("to", "DESTINATION", Destination.forms("options")),
    keyStdin: switchFlag("key-stdin", "read the key from standard input"),
    keyCommand: textFlag("key-command", "COMMAND", "the command that prints the key, such as \"pass show payments\""),
    keyFile: textFlag("key-file", "FILE", "a file that contains the key"),
    keyEnv: textFlag("key-env", "NAME", "the environment variable that contains the key"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*(given) {
    const { from, value: file } = yield* (yield* ChosenSource).fileToEdit
    yield* refuseSourceFlag
    if (given.format === "json") yield* requireOutput
    const ways = [given.keyCommand, given.keyFile, given.keyEnv, given.keyStdin ? "" : undefined]
    if (ways.filter((way) => way !== undefined).length > 1) {
      return yield* usage("Give one of --key-stdin, --key-command, --key-file and --key-env.")
    }
    const to = given.to === undefined ? undefined : yield* destinationText(given.to)
    const isStored = ways.every((way) => way === undefined) || given.keyStdin
    const canAsk = yield* hasTerminal
    const missing = [
      ...(given.baseUrl === undefined && !canAsk ? [noAddress] : []),
      ...(isStored && !given.keyStdin && !canAsk ? [noKey] : [])
    ]
    const stored = yield* addSource(file, {
      name: given.name,
      baseUrl: canAsk ? promptForAddress(given.name) : Effect.fail(usage(missing.join("\n"))),
      key: isStored ? Effect.flatMap(given.keyStdin ? keyOfInput : promptForKey(given.name), checkKey) : undefined,
      settings: Record.filter({
        base_url: given.baseUrl,
        invoices_base_url: given.invoicesBaseUrl,
        account: given.account,
        api_key_command: given.keyCommand === undefined ? undefined : argumentsOf(given.keyCommand),
        api_key_file: given.keyFile === undefined ? undefined : resolve(given.keyFile),
        api_key_env: given.keyEnv,
        to
      }, (value) => value !== undefined)
    })
    const inFile = from === "--config" ? ` --config ${quotedWord(printable(file))}` : ""
    const next = `payments doctor --source ${given.name}${inFile}`
    if (given.format === "json") {
      yield* printJson(outputs.sourceAdd, { source: given.name, file, keyFile: stored ?? null, next })
    } else {
      yield* logLine(`Added ${given.name} to ${printable(file)}.`)
      if (stored !== undefined) yield* logLine(`The key is in ${printable(stored)}, which only its owner may read.`)
      yield* logLine(`Check it:\n  ${next}`)
    }
    if ((yield* variableText("PAYMENTS_BASE_URL")) !== undefined) {
      yield* logLine("PAYMENTS_BASE_URL is set: without --source, commands use the environment.")
    }
  })
).pipe(
  Command.withDescription(
    "Add a source to the sources file; on a terminal, ask for the address and the key that no flag gives"
  ),
  Command.withExamples([
    {
      command: "payments source add north --base-url https://payments.example.com --to sqlite:./north.db",
      description: "ask for the key, and store it in a file of its own"
    },
    {
      command: "payments source add south --base-url https://payments.example.com --key-command \"pass show south\"",
      description: "run a command whenever the key is needed"
    }
  ])
)

const removeCommand = Command.make(
  "remove",
  { name: nameArgument("the source to remove"), format: resultFormatFlag },
  Effect.fnUntraced(function*({ format, name }) {
    const { value: file } = yield* (yield* ChosenSource).fileToEdit
    yield* refuseSourceFlag
    if (format === "json") yield* requireOutput
    const removedKey = yield* removeSource(file, name)
    if (format === "json") {
      return yield* printJson(outputs.sourceRemove, { source: name, file, removedKeyFile: removedKey ?? null })
    }
    yield* logLine(`Removed ${name} from ${printable(file)}. Its destination stays.`)
    if (removedKey !== undefined) yield* logLine(`Removed its key: ${printable(removedKey)}`)
  })
).pipe(
  Command.withDescription("Remove a source from the sources file; its destination stays"),
  Command.withExamples([
    { command: "payments source remove north", description: "remove north, and the key that add stored for it" },
    { command: "payments source remove north --config ./payments.toml", description: "remove it from another file" }
  ])
)

export const sourceCommand = Command.make("source").pipe(
  Command.withDescription("Add sources to the sources file, or remove them; config shows them"),
  Command.withShortDescription("Add sources to the sources file, or remove them"),
  Command.withSubcommands([addCommand, removeCommand]),
  Command.withExamples([
    {
      command: "payments source add north --to sqlite:./north.db",
      description: "ask for the address and the key, and store the key in a file of its own"
    },
    { command: "payments source remove north", description: "remove a source" }
  ])
)

/** `--source` would be easy to confuse with the name of the source to add or remove. */
const refuseSourceFlag = Effect.flatMap(
  SourceFlag,
  (source) =>
    source === undefined ? Effect.void : Effect.fail(usage("--source: name the source as an argument instead."))
)

/** Returns the destination with an absolute path: paths in the file are relative to its folder, not to this one. */
const destinationText = Effect.fnUntraced(function*(text: string) {
  const destination = yield* Effect.mapError(
    Destination.parse(text, "argument"),
    ({ problem }) => new Destination.DestinationError({ problem: `--to: ${problem}` })
  )
  if (!Destination.isStored(destination)) return yield* usage("--to: stdout (-) stores nothing.")
  const { place } = Destination.operations(destination)
  return place.isLocal ? text.replace(`:${place.path}`, () => `:${resolve(place.path)}`) : text
})

/** Splits a command into arguments as a shell does. A command that needs a shell is run by one. */
const argumentsOf = (command: string): ReadonlyArray<string> =>
  /^[\w@%+=:,./ -]+$/.test(command) ? command.trim().split(/ +/) : ["sh", "-c", command]

const keyOfInput = Effect.gen(function*() {
  const { stdin } = yield* Stdio.Stdio
  let text = ""
  yield* stdin.pipe(
    Stream.decodeText(),
    Stream.mapError(() => usage("--key-stdin: standard input cannot be read.")),
    Stream.runForEach((part) => {
      text += part
      return text.length > largestKeyBytes ? usage("--key-stdin: the key is too long.") : Effect.void
    })
  )
  return Redacted.make(text.trim())
})

const noAddress = "There is no terminal to ask for the address: give --base-url URL."
const noKey = "There is no terminal to ask for the key: give --key-stdin, --key-command, --key-file or --key-env."

/** Whether a person can be asked. Questions go to stderr. */
const hasTerminal = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  return (yield* stdio.stdinIsTerminal) && (yield* stdio.stderrIsTerminal)
})

/** Asks for the address on the terminal. */
const promptForAddress = (name: string) =>
  Effect.map(
    asked(Prompt.String({ message: `Address of the service of ${printable(name)}, without /v0:` })),
    (text) => text.trim()
  )

/** Asks for the key on the terminal, without an echo. */
const promptForKey = (name: string) =>
  Effect.flatMap(
    hasTerminal,
    (canAsk) => canAsk ? asked(Prompt.Hidden({ message: `API key of ${printable(name)}:` })) : Effect.fail(usage(noKey))
  )

const asked = Effect.fnUntraced(function*<A>(question: Prompt.Prompt<A>) {
  const stdio = yield* Stdio.Stdio
  const terminal = yield* Terminal.Terminal
  return yield* Prompt.run(question).pipe(
    Effect.provideService(Terminal.Terminal, {
      ...terminal,
      display: (text) => Stream.run(Stream.make(text), stdio.stderr())
    }),
    Effect.catch(() => Effect.interrupt)
  )
})

/** Fails if the key cannot be sent in a header. The message does not repeat it. */
const checkKey = (key: Redacted.Redacted<string>) =>
  PaymentsConfig.fromSettings({ PAYMENTS_BASE_URL: "https://example.com", PAYMENTS_API_KEY: key }).pipe(
    Effect.as(key),
    Effect.mapError(({ problems }) =>
      usage(`The key ${problems.map(({ problem }) => problem).join("; ").replace(/^is not set$/, "is empty")}.`)
    )
  )
