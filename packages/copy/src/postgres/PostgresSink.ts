/** `postgres://HOST/DATABASE?schema=NAME`. This file and the driver are loaded only for such a destination. */
import { Lists } from "@payments/core"
import { Effect, Layer, type Scope } from "effect"
import { Sink, type SinkError } from "../port/Sink.ts"
import { makeSink } from "../session/SqlSink.ts"
import type { PendingMigration } from "../store/Evolution.ts"
import type { Maintenance, Reader } from "../store/Store.ts"
import type { Times } from "./PostgresLease.ts"
import { settingsOf } from "./PostgresSettings.ts"
import { openMaintenance, openReader, openStore, pendingMigration as pending } from "./PostgresStore.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

/** Creates a missing schema. `runner` is the name of this process in a cluster. */
export const layer = (
  url: PostgresUrl,
  times?: Times,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all,
  runner?: string
): Layer.Layer<Sink, SinkError> =>
  Layer.effect(
    Sink,
    Effect.map(
      Effect.flatMap(settingsOf(url), (settings) => openStore(settings, times, lists, runner)),
      (store) => makeSink(store, lists)
    )
  )

export const reader = (
  url: PostgresUrl,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Reader, SinkError, Scope.Scope> =>
  Effect.flatMap(settingsOf(url), (settings) => openReader(settings, lists))

export const maintenance = (
  url: PostgresUrl,
  lists?: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Maintenance, SinkError, Scope.Scope> =>
  Effect.flatMap(settingsOf(url), (settings) => openMaintenance(settings, lists))

/** Returns what {@link layer} would do to the tables of the schema. Writes nothing. */
export const pendingMigration = (url: PostgresUrl): Effect.Effect<PendingMigration, SinkError> =>
  Effect.flatMap(settingsOf(url), pending)
