/** Erases persons from a destination. Their records stay as tombstones, and later commits recognize them. */
import { Lists } from "@payments/core"
import { Effect, Redacted } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { keyCheck } from "../rule/Pseudonym.ts"
import { erasureRule } from "../rule/Rule.ts"
import { keyCheckIn, reclassifiedInErasures, withCurrentClasses } from "../rule/StoredRule.ts"
import { type Criterion, hashOf, hashOfRecord, matcherOf, storedForms } from "../rule/Suppression.ts"
import type { Erasure } from "../store/RedactionStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"
import {
  openRedaction,
  pause,
  redactChanges,
  redactedQuarantined,
  type RedactionProgress,
  redactRows,
  refuseDuringRewrite,
  replaceParts,
  requireKey,
  requireNoRewrite,
  type TextAfter,
  textAfter,
  writeCertificate
} from "./Redaction.ts"

export interface ErasureSearch {
  readonly criteria: ReadonlyArray<Criterion>
  /** The key of the suppression list, and of the pseudonyms if the destination has any. */
  readonly key: Redacted.Redacted<Uint8Array>
  readonly onProgress?: ((progress: RedactionProgress) => Effect.Effect<void>) | undefined
}

/** What to erase. */
export interface EraseOptions<E = never, R = never> extends ErasureSearch {
  /** Who runs the erasure, for the protocol. */
  readonly by: string
  /** Removes the personal data from what is made from the tables, such as files, before the erasure is complete. */
  readonly publish?: Effect.Effect<void, E, R> | undefined
}

/** What an erasure has done, with what interrupted runs of it did: an entry of the protocol for each criterion. */
export type Erased = ReadonlyArray<Erasure>

/** The number of records that a transaction erases. */
const chunkRecords = 100

/** With more needles than this, the database does not filter the texts: it would search each text for each needle. */
const maxNeedles = 30

/** Erases all records to which one of the criteria applies, now or in an earlier text. They stay as tombstones. */
export const erase = Effect.fn("Export.erase")(function*<E = never, R = never>(
  maintenance: Maintenance,
  { publish, ...options }: EraseOptions<E, R>
): Effect.fn.Return<Erased, SinkError | E, R> {
  const { by, criteria, key } = options
  const numbers = yield* beginErasures(maintenance, criteria, key, by)
  const match = matcherOf(key, criteria)
  const erasureOf: ErasureOf = (list, text) => numbers[match(list, text)]
  for (const list of Lists.all) {
    if ((yield* maintenance.columns(list)).length === 0) continue
    const redact = textAfter(list, erasureRule)
    yield* search(maintenance, list, options, (found) =>
      Effect.gen(function*() {
        const records = [
          ...new Map(found.flatMap(({ criterion, id }): ReadonlyArray<[string, number]> => {
            const erasure = numbers[criterion]
            return id === undefined || erasure === undefined ? [] : [[id, erasure]]
          }))
        ]
        for (let from = 0; from < records.length; from += chunkRecords) {
          const chunk = new Map(records.slice(from, from + chunkRecords))
          yield* eraseRecords(maintenance, list, chunk, { key, redact })
          yield* Effect.sleep(pause)
        }
      }))
    yield* eraseQuarantined(maintenance, list, { erasureOf, key, last: numbers.at(-1), redact })
    yield* eraseParts(maintenance, list, erasureOf)
  }
  if (publish !== undefined) yield* publish
  yield* maintenance.wipe
  yield* completeErasures(maintenance, numbers)
  const wanted = new Set(numbers)
  return (yield* maintenance.erasures).filter(({ erasure }) => wanted.has(erasure))
})

/**
 * Returns the number of records in each list that an erasure would erase. Writes nothing. Fails if a rewrite is not
 * complete, or with another key: the search would miss pseudonyms and count too few.
 */
export const previewErasure = Effect.fn("Export.previewErasure")(function*(
  maintenance: Pick<Maintenance, "columns" | "location" | "personal" | "search">,
  options: ErasureSearch
): Effect.fn.Return<ReadonlyArray<{ readonly list: string; readonly records: number }>, SinkError> {
  const state = yield* maintenance.personal
  if (state.rewriting) return yield* refuseDuringRewrite(maintenance, state.rule)
  yield* requireKey(maintenance, state.keyCheck ?? keyCheckIn(state.rule), options.key)
  const previewed: Array<{ readonly list: string; readonly records: number }> = []
  for (const list of Lists.all) {
    if ((yield* maintenance.columns(list)).length === 0) continue
    const ids = new Set<string>()
    let withoutId = 0
    yield* search(maintenance, list, options, (found) =>
      Effect.sync(() => {
        for (const { id } of found) {
          if (id === undefined) withoutId++
          else ids.add(id)
        }
      }))
    previewed.push({ list: list.label, records: ids.size + withoutId })
  }
  return previewed
})

interface FoundRecord {
  /** Undefined for a quarantined record without an id. */
  readonly id: string | undefined
  readonly criterion: number
}

/** Calls `use` with the records to which a criterion applies, a batch at a time. A record can be found repeatedly. */
const search = Effect.fnUntraced(function*(
  maintenance: Pick<Maintenance, "search" | "personal">,
  list: Lists.AnyList,
  { criteria, key, onProgress }: ErasureSearch,
  use: (found: ReadonlyArray<FoundRecord>) => Effect.Effect<void, SinkError>
): Effect.fn.Return<void, SinkError> {
  const { rule, suppressed } = yield* maintenance.personal
  // An erased record has lost the values that are searched. If it has to lose more fields, its id shows the erasure.
  const erased = new Set(reclassifiedInErasures(rule).length === 0 ? [] : suppressed)
  const forms = criteria.flatMap(({ value }) => storedForms(key, Redacted.value(value)))
  const needles = forms.length > maxNeedles || erased.size > 0 ? [] : forms
  const matching = matcherOf(key, criteria)
  const match = (id: string | undefined, texts: ReadonlyArray<string>): number | undefined =>
    texts.map((text) => matching(list, text)).find((index) => index >= 0) ??
      (id !== undefined && erased.size > 0 && erased.has(hashOfRecord(key, list, id)) ? criteria.length - 1 : undefined)
  for (const table of ["rows", "changes", "quarantine"] as const) {
    for (let after: string | undefined;;) {
      const { found, next } = yield* maintenance.search(list, table, needles, after)
      yield* use(found.flatMap(({ id, texts }) => {
        const criterion = match(id, texts)
        return criterion === undefined ? [] : [{ id, criterion }]
      }))
      if (onProgress !== undefined) {
        const isKnown = table !== "quarantine" && next !== undefined
        yield* onProgress({ list: list.label, table, position: isKnown ? Number(next) : undefined })
      }
      if (next === undefined) break
      after = next
    }
  }
})

/** Returns the erasure of the first criterion that applies to a record. */
type ErasureOf = (list: Lists.AnyList, text: string) => number | undefined

/** Puts the persons on the suppression list, so that no later commit writes them. Returns the erasures' numbers. */
const beginErasures = (
  maintenance: Maintenance,
  criteria: ReadonlyArray<Criterion>,
  key: EraseOptions["key"],
  by: string
): Effect.Effect<ReadonlyArray<number>, SinkError> =>
  Effect.flatMap(maintenance.source, (source) =>
    maintenance.redact(Effect.fnUntraced(function*(statements) {
      const state = yield* statements.state
      yield* requireNoRewrite(maintenance, state)
      yield* requireKey(maintenance, state.keyCheck ?? keyCheckIn(state.rule), key)
      const startedAt = yield* timestamp
      const hadSuppressed = yield* statements.hasSuppressed
      const numbers: Array<number> = []
      let isNew = false
      for (const criterion of criteria) {
        const hash = hashOf(key, criterion)
        const erasure = yield* statements.openErasure({ hash, kind: criterion.kind, by, startedAt })
        if (yield* statements.suppress([hash], erasure)) isNew = true
        numbers.push(erasure)
      }
      if (isNew) {
        yield* statements.setState({
          ...state,
          // The first erased records follow this program's table of classes. An empty destination has no rule yet.
          rule: hadSuppressed || source === undefined ? state.rule : withCurrentClasses(state.rule),
          keyCheck: keyCheck(key),
          edition: state.edition + 1
        })
      }
      return numbers
    })))

/** Erases records with all their changes in one transaction, each for an erasure, and suppresses their later texts. */
const eraseRecords = (
  maintenance: Maintenance,
  list: Lists.AnyList,
  records: ReadonlyMap<string, number>,
  { key, redact }: { readonly key: EraseOptions["key"]; readonly redact: TextAfter }
): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    yield* requireNoRewrite(maintenance, state)
    const redaction = yield* openRedaction(statements, list, redact)
    const ids = [...records.keys()]
    for (let after: number | undefined = -1; after !== undefined;) {
      after = yield* redactRows(redaction, yield* statements.rows(list, { after, ids }))
    }
    for (let after: number | undefined = 0; after !== undefined;) {
      after = yield* redactChanges(redaction, yield* statements.changes(list, redaction.certified, { after, ids }))
    }
    const { rows, changes } = redaction.redacted
    let isNew = false
    for (const [erasure, own] of Map.groupBy(records.keys(), (id) => records.get(id) ?? -1)) {
      if (yield* statements.suppress(own.map((id) => hashOfRecord(key, list, id)), erasure)) isNew = true
      const count = (redacted: ReadonlyArray<string>) => redacted.filter((id) => records.get(id) === erasure).length
      yield* statements.countErased(erasure, { records: count(rows), changes: count(changes), quarantined: 0 })
    }
    if (rows.length + changes.length > 0) {
      // Running scans and the certificates of earlier scans have hashes of the texts that are gone now.
      yield* statements.abandonScans(list, redaction.now)
      yield* statements.removeDigests(list)
      yield* writeCertificate(redaction)
    } else if (!isNew) return
    yield* statements.setState({ ...state, edition: state.edition + 1 })
  }))

/** Erases, in one transaction, the quarantined records to which a criterion applies, and those of erased records. */
const eraseQuarantined = (
  maintenance: Maintenance,
  list: Lists.AnyList,
  { erasureOf, key, last, redact }: {
    readonly erasureOf: ErasureOf
    readonly key: EraseOptions["key"]
    /** The erasure that counts the records of which only the id is known. */
    readonly last: number | undefined
    readonly redact: TextAfter
  }
): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    yield* requireNoRewrite(maintenance, state)
    const counts = new Map<number, number>()
    yield* statements.replaceQuarantined(
      list,
      Effect.fnUntraced(function*(batch) {
        const hashes = batch.flatMap(({ id }) => id === undefined ? [] : [hashOfRecord(key, list, id)])
        const suppressed = yield* statements.suppressedAmong(hashes)
        return batch.flatMap((record) => {
          const { id, raw } = record
          const erasure = erasureOf(list, raw) ??
            (id !== undefined && suppressed.has(hashOfRecord(key, list, id)) ? last : undefined)
          const redacted = erasure === undefined ? record : redactedQuarantined(list, record, redact)
          if (erasure === undefined || redacted === record) return []
          counts.set(erasure, (counts.get(erasure) ?? 0) + 1)
          return [redacted]
        })
      })
    )
    for (const [erasure, quarantined] of counts) {
      yield* statements.countErased(erasure, { records: 0, changes: 0, quarantined })
    }
    if (counts.size > 0) yield* statements.setState({ ...state, edition: state.edition + 1 })
  }))

/** Erases the persons whose records were scanned as a part of the list: a stored scan has the value of its part. */
const eraseParts = (
  maintenance: Maintenance,
  list: Lists.AnyList,
  erasureOf: ErasureOf
): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    yield* requireNoRewrite(maintenance, state)
    const isReplaced = yield* replaceParts(
      statements,
      list,
      (text) => erasureOf(list, text) === undefined ? text : "{}"
    )
    if (isReplaced) yield* statements.setState({ ...state, edition: state.edition + 1 })
  }))

const completeErasures = (maintenance: Maintenance, numbers: ReadonlyArray<number>): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    yield* statements.state
    yield* statements.completeErasures(numbers, yield* timestamp)
  }))
