/** `sqlite:FILE`, the embedded default. */
import { Lists } from "@payments/core"
import { Effect, Layer } from "effect"
import { makeSink } from "../engine/SqlSink.ts"
import { Sink, type SinkError } from "../Sink.ts"
import { openStore } from "./SqliteStore.ts"

/** Writes these lists into the file, which is made if it is not there. */
export const layer = (
  file: string,
  lists: ReadonlyArray<Lists.AnyList> = Lists.all
): Layer.Layer<Sink, SinkError> =>
  Layer.effect(
    Sink,
    Effect.map(openStore(file, `sqlite:${file}`, lists), (store) =>
      // There is nothing to show but the file itself, which must still be there.
      Sink.of({ ...makeSink(store, lists), publish: () => store.requireInPlace }))
  )
