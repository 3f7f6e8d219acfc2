/**
 * Generates records as a function of seed, list, index and history, so that they are the same on every machine. They
 * look like a merchant's data and contain what the document allows or does not specify. There are names in many
 * scripts, odd text, nulls, missing and undocumented fields, unlisted statuses, and numbers that parsing would change.
 */
import { Lists } from "@payments/core"
import type { MemoryList } from "@payments/core/testing"
import { generatedRecords } from "./GeneratedRecords.ts"
import { type RecordHistory, unchanged } from "./Lifecycle.ts"
import * as RecordFields from "./RecordFields.ts"
import * as RecordModel from "./RecordModel.ts"
import { draw } from "./RecordRandom.ts"

/** What the records of a list depend on. */
export interface GeneratorOptions {
  /** The seed. Each seed is another merchant with other records. */
  readonly seed: number
  /** The share of records with text that breaks other programs, 0 to 1; default 0. */
  readonly hostileText?: number | undefined
  /** Whether some amounts are negative, large or no whole thousands; default true. */
  readonly unusualAmounts?: boolean | undefined
  /** The start of virtual time, in ms since 1970 (see {@link RecordModel.make}). Default: Infinity. */
  readonly startMs?: number | undefined
}

export interface Generator {
  /** The properties of the records, for filters. */
  readonly model: RecordModel.RecordModel
  readonly textAt: (index: number, history?: RecordHistory) => string
}

/** Returns the records of a list that never changes. `hostileText` is that of {@link GeneratorOptions}. */
export const records = (
  list: Lists.ListName,
  length: number,
  seed: number,
  hostileText?: number
): MemoryList.MemoryRecords => ({ length, textAt: make(list, { seed, hostileText }).textAt })

export const make = (list: Lists.ListName, options: GeneratorOptions): Generator => {
  const { seed } = options
  const startMs = options.startMs ?? Infinity
  const model = RecordModel.make(draw(seed, 1 + Lists.ListName.literals.indexOf(list)), seed, startMs)
  const render = RecordFields.make(generatedRecords[list].renderFields, model, {
    hostileText: options.hostileText ?? 0,
    unusualAmounts: options.unusualAmounts ?? true,
    merchant: seed,
    customerKey: draw(seed, 0),
    startMs
  })
  return { model, textAt: (index, history = unchanged) => render(index, history) }
}
