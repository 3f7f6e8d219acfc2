/** `postgres://HOST/DATABASE?schema=NAME`. This file and the driver are loaded only for such a destination. */
import { Lists } from "@payments/core"
import { Effect, Layer } from "effect"
import { Sink, type SinkError } from "../port/Sink.ts"
import { makeSink } from "../session/SqlSink.ts"
import type { Times } from "./PostgresLease.ts"
import { type PostgresSettings, settingsOf } from "./PostgresSettings.ts"
import { openMaintenance, openReader, openStore, pendingMigration as pending } from "./PostgresStore.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

/** Creates a missing schema. `runner` is the name of this process in a cluster. */
export const layer = (
  url: PostgresUrl,
  times?: Times,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all,
  runner?: string
): Layer.Layer<Sink, SinkError> =>
  Layer.effect(Sink, Effect.map(byUrl(openStore)(url, times, lists, runner), (store) => makeSink(store, lists)))

/** Returns the function with the URL of a schema in place of its settings. */
const byUrl = <Others extends ReadonlyArray<unknown>, A, R>(
  open: (settings: PostgresSettings, ...others: Others) => Effect.Effect<A, SinkError, R>
) =>
(url: PostgresUrl, ...others: Others) => Effect.flatMap(settingsOf(url), (settings) => open(settings, ...others))

export const reader = byUrl(openReader)

export const maintenance = byUrl(openMaintenance)

/** Returns what {@link layer} would do to the tables of the schema. Writes nothing. */
export const pendingMigration = byUrl(pending)
