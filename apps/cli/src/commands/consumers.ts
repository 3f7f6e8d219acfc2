/** `payments changes ack` and `payments changes consumers`: the stored positions of the consumers of changes. */
import {
  type BeyondLastChange,
  type ChangesLost,
  type ChangesRemoved,
  ChangesUnsent,
  type ConsumerState,
  Destination,
  isConsumerName,
  type Maintenance,
  moveConsumer,
  type OtherGeneration
} from "@payments/copy"
import {
  checkAll,
  CommandExit,
  ExitCode,
  fromDestination,
  fromFlag,
  logLine,
  print,
  requireOutput,
  setting,
  type SettingParser,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect, Stream } from "effect"
import { Argument, Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"
import { type Column, numberCell, printRows, rowFormatFlag } from "../output/Rows.ts"

export const consumerName: SettingParser<string> = {
  expected: "a name of 1 to 40 characters out of a-z, 0-9, _ and -",
  parse: (text) => isConsumerName(text) ? text : undefined
}

export const generationName: SettingParser<string> = {
  expected: "the name of a generation, 12 characters out of 0-9 and a-f",
  parse: (text) => /^[0-9a-f]{12}$/.test(text) ? text : undefined
}

/** The generation of a number that is given on the command line. */
export const generationFlag = (description: string) => textFlag("generation", "GENERATION", description)

const beginAgain = (consumer: string | undefined): string =>
  consumer === undefined
    ? "Copy the rows again, then continue after the last change of that moment (--after last)."
    : `Otherwise begin again: remove it (payments changes consumers --remove ${consumer}), and copy the rows again.`

/** Says what the reader of a restored destination can do. */
const standAdvice = (consumer: string | undefined): string =>
  consumer === undefined
    ? beginAgain(consumer)
    : `If ${consumer} knows the last change that it has applied, and its generation, say so: payments changes ack ${consumer} SEQ --generation GENERATION. ${
      beginAgain(consumer)
    }`

/** Handlers of the errors about a position. Their line says how to continue. */
export const positionProblems = (consumer: string | undefined) => ({
  OtherGeneration: ({ current, isStored, message }: OtherGeneration) =>
    new CommandExit({
      exitCode: ExitCode.incomplete,
      problem: isStored
        ? `${message} Its reader may have applied changes that were lost. ${standAdvice(consumer)}`
        : `${message} Changes that were applied may be lost there. ${
          consumer === undefined
            ? beginAgain(undefined)
            : `Copy the rows again, then store the last change of that moment: payments changes ack ${consumer} SEQ --generation ${current.generation}.`
        }`
    }),
  ChangesLost: ({ begun, message }: ChangesLost) =>
    new CommandExit({
      exitCode: ExitCode.incomplete,
      problem: `${message} ${begun === undefined ? "Begin a new generation there: payments restored. " : ""}${
        standAdvice(consumer)
      }`
    }),
  BeyondLastChange: ({ message }: BeyondLastChange) => usage(message),
  ChangesUnsent: ({ consumer: name, message }: ChangesUnsent) =>
    usage(
      `${message} To pass over a refused change, use payments handoff skip. If the settings no longer name its hand-off, remove it first: payments changes consumers --remove ${name}`
    ),
  ChangesRemoved: ({ message, through }: ChangesRemoved) =>
    new CommandExit({
      exitCode: ExitCode.incomplete,
      problem: `${message} Copy the rows again, then continue with ${
        consumer === undefined ? `--after ${through}` : `payments changes ack ${consumer} ${through}`
      }.`
    })
})

export const ackCommand = Command.make(
  "ack",
  {
    name: Argument.String("name").pipe(Argument.withDescription("the consumer; a new one is created")),
    seq: Argument.String("seq").pipe(Argument.withDescription("the number of the last change that it has processed")),
    back: switchFlag("back", "move the consumer back, so that it reads changes again"),
    generation: generationFlag(
      "the generation of SEQ; needed if the destination was restored since the consumer last stored its position"
    ),
    from: fromFlag,
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*(given) {
    const { destination, generation, name, seq } = yield* checkAll({
      generation: setting({ name: "generation", text: given.generation }, undefined, generationName),
      name: argument("NAME", given.name, consumerName),
      seq: argument("SEQ", given.seq, wholeNumber(0)),
      destination: fromDestination(given.from)
    })
    if (given.format === "json") yield* requireOutput
    const maintenance = yield* Destination.maintenance(destination)
    const when = given.back ? "any" : "forward"
    const position = yield* moveConsumer(maintenance, { name, position: seq, generation, when })
    if (position > seq) {
      yield* logLine(`payments: ${name} stays after change ${position}. To move it back, use --back.`)
    }
    if (given.format === "json") {
      const current = (yield* maintenance.changeRange).generation
      yield* printJson(outputs.acknowledged, { consumer: name, generation: current ?? null, position })
    }
  }, (effect, { name }) => Effect.catchTags(Effect.scoped(effect), positionProblems(name)))
).pipe(
  Command.withDescription("Store the position of a consumer after it has processed its changes"),
  Command.withExamples([
    {
      command: "payments changes ack reports 120 --from sqlite:./payments.db",
      description: "reports has processed change 120"
    },
    {
      command: "payments changes ack reports 0 --back --from sqlite:./payments.db",
      description: "reports reads all changes again"
    }
  ])
)

/** Fails before anything is printed, if a hand-off moves the consumer. */
export const requireNoHandoff = Effect.fnUntraced(function*(maintenance: Maintenance, name: string) {
  if (!(yield* maintenance.handoffs).some(({ consumer }) => consumer === name)) return
  const stored = (yield* maintenance.consumerStates).find((state) => state.name === name)
  const { pruned } = yield* maintenance.changeRange
  if (stored?.lag === undefined || stored.position < pruned) return
  return yield* new ChangesUnsent({ consumer: name, sent: stored.position })
})

const argument = <A>(name: string, text: string, { expected, parse }: SettingParser<A>) => {
  const value = parse(text)
  return value === undefined ? usage(`Invalid value for ${name}. Expected: ${expected}`) : Effect.succeed(value)
}

export const consumersCommand = Command.make(
  "consumers",
  {
    from: fromFlag,
    remove: textFlag("remove", "NAME", "remove this consumer, so that changes which it has not read can be removed"),
    format: rowFormatFlag
  },
  Effect.fnUntraced(function*(given) {
    const { destination, remove } = yield* checkAll({
      remove: setting({ name: "remove", text: given.remove }, undefined, consumerName),
      destination: fromDestination(given.from)
    })
    if (remove === undefined) {
      const { consumerStates, handoffs } = yield* Destination.reader(destination)
      const rows = Effect.zipWith(
        consumerStates,
        handoffs,
        (states, stored) =>
          states.map((state) => ({ ...state, handoff: stored.find(({ consumer }) => consumer === state.name)?.state }))
      )
      return yield* printRows(columns, Stream.fromEffect(rows), given.format, {
        empty: "No consumers.",
        output: outputs.consumers
      })
    }
    const { removeConsumer } = yield* Destination.maintenance(destination)
    if (!(yield* removeConsumer(remove))) return yield* usage(`There is no consumer ${remove}.`)
    const isJson = given.format === "json" || given.format === "ndjson"
    yield* isJson
      ? printJson(outputs.consumerRemoved, { consumer: remove, removed: true })
      : print(`${remove}: removed\n`)
  }, Effect.scoped)
).pipe(
  Command.withDescription("List the consumers of changes with their positions and hand-offs, or remove one"),
  Command.withExamples([
    { command: "payments changes consumers --from sqlite:./payments.db", description: "all consumers" },
    {
      command: "payments changes consumers --from sqlite:./payments.db --remove reports",
      description: "forget the consumer reports and its position"
    }
  ])
)

interface Consumer extends ConsumerState {
  /** The state of its hand-off. Undefined if it has none, and pulls its changes. */
  readonly handoff: "running" | "stopped" | "waiting" | undefined
}

const columns: ReadonlyArray<Column<Consumer>> = [
  { name: "consumer", wholeUpTo: 40, of: ({ name }) => name },
  { name: "generation", of: ({ generation = null }) => generation },
  { name: "position", of: ({ position }) => numberCell(position) },
  { name: "lag", of: ({ lag }) => lag === undefined ? null : numberCell(lag) },
  { name: "moved_at", minWidth: 24, of: ({ movedAt }) => movedAt },
  { name: "handoff", of: ({ handoff = null }) => handoff }
]
