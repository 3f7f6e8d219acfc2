/** The command line: its commands, and what each error says and exits with. */
import { Lists, type PaymentsApi, type PaymentsConfigError } from "@payments/core"
import { ExitCode, exitCodeOf } from "@payments/export"
import { Cause, Console, Effect, Layer } from "effect"
import { CliConfig, CliError, CliOutput, Command, GlobalFlag } from "effect/cli"
import type { HttpClient } from "effect/http"
import { exportCommand } from "./commands/export.ts"
import { listCommand } from "./commands/list.ts"
import { sandboxCommand } from "./commands/sandbox.ts"
import { startCommand } from "./commands/start.ts"
import { say } from "./Output.ts"

/** What the commands ask: the service of the environment, and HTTP for the embedded sandbox. */
export interface Services<R> {
  readonly api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>
  readonly http: Layer.Layer<HttpClient.HttpClient>
}

/** Runs the command line and gives its exit code. Each error is one line on stderr. */
export const run = <R>(args: ReadonlyArray<string>, services: Services<R>, version: string) =>
  Command.runWith(payments(services), { version })(args).pipe(
    Effect.as<ExitCode>(ExitCode.done),
    Effect.catch((error) => {
      // The usage error has been shown by the presenter below.
      if (CliError.isCliError(error)) return Effect.succeed(ExitCode.usage)
      switch (error._tag) {
        case "Ended":
          return Effect.succeed(error.exitCode)
        case "UsageError":
        case "CursorFileError":
        case "SandboxError":
          return Effect.as(say(`payments: ${error.message}`), ExitCode.usage)
        default:
          return Effect.as(say(`payments: ${error.message}`), exitCodeOf(error))
      }
    }),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause)
        ? Effect.succeed(ExitCode.interrupted)
        : Effect.as(say(`payments: unexpected: ${Cause.pretty(cause)}`), ExitCode.unexpected)
    ),
    Effect.provide(presentation)
  )

const payments = <R>({ api, http }: Services<R>) =>
  Command.make("payments").pipe(
    Command.withDescription("Read payout requests, payin sources and invoices, and export them."),
    Command.withSubcommands([
      ...Lists.all.map((list) => listCommand(list).pipe(Command.provide(api))),
      exportCommand.pipe(Command.provide(api)),
      sandboxCommand,
      startCommand(api, http)
    ])
  )

const formatter = CliOutput.defaultFormatter()

/** Usage errors go to stderr, with nothing on stdout that a script could take for data. */
const presentation = Layer.mergeAll(
  CliOutput.layer({ ...formatter, formatVersion: (_name, version) => version }),
  CliOutput.layerPresenter({
    present: (event) =>
      event._tag === "InvalidInvocation"
        ? Console.error(`${formatter.formatErrors(event.errors).trim()}\nSee payments ${event.commandPath.slice(1).join(" ")} --help`)
        : CliOutput.defaultPresenter.present(event)
  }),
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] })
)
