/** The command line `payments`, and the registry of its commands. A command is loaded only when it is needed. */
import { Lists, type PaymentsApi, type PaymentsConfig } from "@payments/core"
import {
  ChosenSource,
  ConfigFlag,
  LogLevelFlag,
  type ProgramError,
  SourceFlag,
  withCurrentNames
} from "@payments/program"
import { Layer, References } from "effect"
import { Command, GlobalFlag } from "effect/cli"
import type { HttpClient } from "effect/http"
import { listCommand } from "./commands/list.ts"

export interface Services<R, R2> {
  readonly api: Layer.Layer<PaymentsApi, ProgramError, R>
  readonly config: Layer.Layer<PaymentsConfig, ProgramError, R2>
  /** Reaches the embedded sandbox and the collector of telemetry. */
  readonly http: Layer.Layer<HttpClient.HttpClient>
  readonly version: string
}

/** The headings of the help, in order. */
const groups = ["READ THE SERVICE", "KEEP A COPY", "ASK A COPY", "SET UP", "MORE"] as const

/** A command. `load` imports its module and returns it. */
const entry = <const Name extends string, C>(name: Name, group: typeof groups[number], load: () => Promise<C>) => ({
  name,
  group,
  load
})

/** The commands, in the order of the help. */
const registry = <R, R2>({ api, config, http, version }: Services<R, R2>) => [
  // Not on demand: most starts read a list.
  ...Lists.all.map((list) => entry(list.label, "READ THE SERVICE", () => Promise.resolve(listCommand(list, api)))),
  entry("find", "READ THE SERVICE", async () => (await import("./commands/find.ts")).findCommand(api)),
  entry("export", "KEEP A COPY", async () => {
    const { exportTelemetry } = await import("./progress/ExportTelemetry.ts")
    return (await import("./commands/export.ts")).exportCommand(api, exportTelemetry(http, version))
  }),
  entry("status", "KEEP A COPY", async () => (await import("./commands/status.ts")).statusCommand),
  entry("verify", "KEEP A COPY", async () => (await import("./commands/verify.ts")).verifyCommand(api)),
  entry("changes", "KEEP A COPY", async () => (await import("./commands/changes.ts")).changesCommand),
  entry("handoff", "KEEP A COPY", async () => (await import("./commands/handoff/handoffs.ts")).handoffCommand),
  entry("prune", "KEEP A COPY", async () => (await import("./commands/prune.ts")).pruneCommand),
  entry("migrate", "KEEP A COPY", async () => (await import("./commands/migrate.ts")).migrateCommand),
  entry("restored", "KEEP A COPY", async () => (await import("./commands/restored.ts")).restoredCommand),
  entry("quarantine", "KEEP A COPY", async () => (await import("./commands/quarantine.ts")).quarantineCommand),
  entry("rewrite", "KEEP A COPY", async () => (await import("./commands/personal/rewrite.ts")).rewriteCommand),
  entry("erase", "KEEP A COPY", async () => (await import("./commands/personal/erase.ts")).eraseCommand),
  entry("erasures", "KEEP A COPY", async () => (await import("./commands/personal/erasures.ts")).erasuresCommand),
  entry("query", "ASK A COPY", async () => (await import("./commands/query.ts")).queryCommand),
  entry("diff", "ASK A COPY", async () => (await import("./commands/diff.ts")).diffCommand),
  entry("reconcile", "ASK A COPY", async () => (await import("./commands/reconcile.ts")).reconcileCommand),
  entry("start", "SET UP", async () => (await import("./commands/start.ts")).startCommand(api, http)),
  entry("doctor", "SET UP", async () => (await import("./commands/doctor.ts")).doctorCommand(http)),
  entry("config", "SET UP", async () => (await import("./commands/config.ts")).configCommand),
  entry("source", "SET UP", async () => (await import("./commands/source.ts")).sourceCommand),
  entry("completions", "SET UP", async () => {
    const { completionsCommand } = await import("./commands/completions.ts")
    const load = (words: ReadonlyArray<string>): Promise<Command.Command.Any> =>
      payments({ api, config, http, version }, words)
    return completionsCommand(load, flagsOfAll)
  }),
  entry("commands", "MORE", async () => {
    const { commandsCommand } = await import("./commands/commands.ts")
    const load = (): Promise<Command.Command.Any> => payments({ api, config, http, version }, [])
    return commandsCommand(load, flagsOfAll, version)
  }),
  entry("mcp", "MORE", async () => (await import("./commands/mcp.ts")).mcpCommand(api, version)),
  entry("sandbox", "MORE", async () => (await import("./commands/sandbox.ts")).sandboxCommand),
  entry(
    "conformance",
    "MORE",
    async () => (await import("./commands/conformance.ts")).conformanceCommand(config, http)
  ),
  entry("probe", "MORE", async () => (await import("./commands/probe.ts")).probeCommand(config, http)),
  entry("facts", "MORE", async () => (await import("./commands/facts.ts")).factsCommand)
]

/** The flags that every command accepts. Each takes a value, and its id is its name. */
const globalFlags = [SourceFlag, ConfigFlag, LogLevelFlag] as const

/** Those, and the flags of the library. */
const flagsOfAll = [GlobalFlag.Help, GlobalFlag.Version, ...globalFlags].map(({ flag }) => flag)

/** Returns the first word of the arguments that is neither a flag nor the value of a global flag. */
const firstOperand = (args: ReadonlyArray<string>): string | undefined =>
  args.find((arg, index) => !arg.startsWith("-") && !globalFlags.some(({ id }) => args[index - 1] === `--${id}`))

const titles = Lists.all.map(({ title }) => title).join(", ").replace(/, (?!.*,)/, " and ")

/**
 * Makes the command line for these arguments. If they name a command, it has only this command. Otherwise, and for
 * completions, it has all commands.
 */
export const payments = async <R, R2>(services: Services<R, R2>, given: ReadonlyArray<string>) => {
  const commands = registry(services)
  const { args } = withCurrentNames(given)
  const named = commands.find(({ name }) => name === firstOperand(args))
  const needsAll = named === undefined || args.some((arg) => arg.startsWith("--completions"))
  const subcommands = await Promise.all(
    (needsAll ? commands : [named]).map(async ({ group, load }) => ({ group, command: await load() }))
  )
  return Command.make("payments").pipe(
    Command.withDescription(`Read ${titles}, and export them.`),
    Command.withSubcommands(
      groups.map((group) => ({
        group,
        commands: subcommands.filter((one) => one.group === group).map(({ command }) => command)
      })).filter(({ commands: inGroup }) => inGroup.length > 0)
    ),
    Command.withExamples([
      { command: "payments start", description: "try it: without settings, copies made-up records into a file" },
      { command: "payments invoices list --limit 5", description: "look at the first invoices" },
      { command: "payments export --to sqlite:./payments.db", description: "copy all lists into a database" },
      { command: "payments query settled-by-day --from sqlite:./payments.db", description: "ask the copy" }
    ]),
    Command.provide(ChosenSource.layer),
    Command.provide(Layer.effect(References.MinimumLogLevel, LogLevelFlag)),
    Command.withGlobalFlags(globalFlags)
  )
}
