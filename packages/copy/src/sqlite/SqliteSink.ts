/** `sqlite:FILE`, the embedded default. */
import { Lists } from "@payments/core"
import { Effect, Layer } from "effect"
import { Sink, type SinkError } from "../port/Sink.ts"
import { makeSink } from "../session/SqlSink.ts"
import { openStore } from "./SqliteStore.ts"

/** Creates a missing file. */
export const layer = (
  file: string,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Layer.Layer<Sink, SinkError> =>
  Layer.effect(
    Sink,
    Effect.map(openStore(file, `sqlite:${file}`, lists), (store) =>
      // The commits have published the rows. Only check that the file is still at its path.
      Sink.of({ ...makeSink(store, lists), publish: () => store.requireInPlace }))
  )
