/**
 * Records as a function of (seed, list, index) and of what has happened to them: the same on every machine, at any size.
 * They look like a merchant's data and hold what the document allows or leaves open: names in many scripts, odd text,
 * nulls, missing and undocumented fields, states nobody has listed, numbers that parsing would change.
 */
import { Lists } from "@payments/core"
import type { MemoryList } from "@payments/core/testing"
import { draw } from "./Draw.ts"
import * as Facts from "./Facts.ts"
import { generatedRecords } from "./GeneratedRecords.ts"
import { type Story, untouched } from "./Life.ts"
import * as RecordText from "./RecordText.ts"

/** What makes the records of a list. */
export interface GeneratorOptions {
  /** Another seed gives other records, of another merchant. */
  readonly seed: number
  /** The share of records with text that breaks other people's tools, 0 to 1; 0 unless given. */
  readonly hostileText?: number | undefined
  /** When a moving world began, in ms since 1970: nothing is paid later without a change. Never unless given. */
  readonly beganMs?: number | undefined
}

/** The records of a list, and what filters ask about them. */
export interface Generator {
  readonly facts: Facts.Facts
  /** A record as JSON text. */
  readonly textAt: (index: number, story?: Story) => string
}

/** The records of one list in a world that does not move; `hostileText` is that of {@link GeneratorOptions}. */
export const records = (
  list: Lists.ListName,
  length: number,
  seed: number,
  hostileText?: number
): MemoryList.MemoryRecords => ({ length, textAt: make(list, { seed, hostileText }).textAt })

/** Makes the records of a list. */
export const make = (list: Lists.ListName, options: GeneratorOptions): Generator => {
  const { seed } = options
  const beganMs = options.beganMs ?? Infinity
  const facts = Facts.make(draw(seed, 1 + Lists.ListName.literals.indexOf(list)), seed, beganMs)
  const render = RecordText.make(generatedRecords[list].body, facts, {
    hostileText: options.hostileText ?? 0,
    merchant: seed,
    personKey: draw(seed, 0),
    beganMs
  })
  return { facts, textAt: (index, story = untouched) => render(index, story) }
}
