/** The command line `payments`. */
import { Lists, type PaymentsApi, type PaymentsConfig } from "@payments/core"
import { Metrics, observeSink } from "@payments/export"
import { ChosenSource, ConfigFlag, type ProgramError, SourceFlag } from "@payments/export/program"
import * as Telemetry from "@payments/export/telemetry"
import { Layer } from "effect"
import { Command } from "effect/cli"
import type { HttpClient } from "effect/http"
import { changesCommand } from "./commands/changes.ts"
import { conformanceCommand } from "./commands/conformance.ts"
import { exportCommand } from "./commands/export.ts"
import { listCommand } from "./commands/list.ts"
import { pruneCommand } from "./commands/prune.ts"
import { quarantineCommand } from "./commands/quarantine.ts"
import { queryCommand } from "./commands/query.ts"
import { sandboxCommand } from "./commands/sandbox.ts"
import { sourcesCommand } from "./commands/sources.ts"
import { startCommand } from "./commands/start.ts"
import { statusCommand } from "./commands/status.ts"
import { verifyCommand } from "./commands/verify.ts"

const titles = new Intl.ListFormat("en-GB").format(Lists.all.map(({ title }) => title))

/**
 * Makes the command line. `api` and `config` take their settings from the chosen source. `http` reaches the embedded
 * sandbox and the collector of telemetry.
 */
export const payments = <R, R2>(
  api: Layer.Layer<PaymentsApi, ProgramError, R>,
  config: Layer.Layer<PaymentsConfig, ProgramError, R2>,
  http: Layer.Layer<HttpClient.HttpClient>,
  version: string
) => {
  const telemetry = (source: Parameters<typeof observeSink>[0]) =>
    Telemetry.layer(http, { name: "payments", version, refresh: observeSink(source) }).pipe(
      Layer.provideMerge(Metrics.layer(version))
    )
  return Command.make("payments").pipe(
    Command.withDescription(`Read ${titles}, and export them.`),
    Command.withSubcommands([
      ...Lists.all.map((list) => listCommand(list, api)),
      exportCommand(api, telemetry),
      changesCommand,
      pruneCommand,
      quarantineCommand,
      queryCommand,
      verifyCommand(api),
      statusCommand,
      sandboxCommand,
      conformanceCommand(config, http),
      startCommand(api, http),
      sourcesCommand
    ]),
    Command.provide(ChosenSource.layer),
    Command.withGlobalFlags([SourceFlag, ConfigFlag])
  )
}
