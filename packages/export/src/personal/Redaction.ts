/**
 * Erases persons from a destination, and rewrites its texts with another rule for personal data. Both replace texts of rows,
 * changes and quarantined records in short transactions, next to programs that export into the destination.
 *
 * After each transaction the destination is consistent: every row has a change for its new text, the certificate of the last
 * complete full scan is that of the new texts, and points before now are those of the new texts. Rows keep their numbers, so
 * the sets of seen rows stay valid. Each transaction increments the edition, so that no running export writes what it has read
 * before. A redaction may be killed at any moment, and the same call completes it.
 */
import { Lists, membersOf, parseText } from "@payments/core"
import { DateTime, Duration, Effect, Option, Redacted, Schema } from "effect"
import * as Certificate from "../engine/Certificate.ts"
import { amountsOf, cellsOf, type Layout, layoutOf, withoutRoundedAmounts } from "../engine/Columns.ts"
import { certificateWith } from "../engine/Personal.ts"
import { contentHash, differingMembers } from "../engine/Plan.ts"
import { pieceOf, RowSet } from "../engine/RowSet.ts"
import * as ScanTotals from "../engine/ScanTotals.ts"
import type { Maintenance } from "../engine/Store.ts"
import { OtherRule, SinkError, type SinkReason, WrongSetting } from "../Sink.ts"
import type {
  CertifiedTexts,
  ChangeText,
  Erasure,
  NewChange,
  PersonalRow,
  QuarantinedText,
  RedactedCounts,
  RedactionStatements,
  RowText,
  TextTable
} from "./RedactionStore.ts"
import {
  betweenRules,
  erasureRule,
  type FieldChange,
  fieldChanges,
  isSame,
  keepsAll,
  keyCheck,
  keyCheckIn,
  nameOf,
  type PersonalRule,
  pseudonym,
  redactorOf,
  toStored
} from "./Rule.ts"
import { type Criterion, hashOf, hashOfRecord, isJson, matcherOf } from "./Suppression.ts"

/** How far an erasure has searched, or a rewrite has rewritten. */
export interface RedactionProgress {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly table: TextTable
  /** The number of rows or changes up to here. Undefined if it is unknown. */
  readonly position: number | undefined
}

/** Whom to erase. */
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
  /** Removes the personal data from what is made from the tables, such as rendered files, before the erasure is complete. */
  readonly publish?: Effect.Effect<void, E, R> | undefined
}

/** What an erasure has done, with what interrupted runs of it did: an entry of the protocol for each criterion. */
export type Erased = ReadonlyArray<Erasure>

/** What to rewrite. */
export interface RewriteOptions<E = never, R = never> {
  /** The new rule. */
  readonly rule: PersonalRule
  readonly onProgress?: ((progress: RedactionProgress) => Effect.Effect<void>) | undefined
  /** Carries the rule out over what is made from the tables, such as rendered files, before the rewrite is complete. */
  readonly publish?: Effect.Effect<void, E, R> | undefined
}

/** What a rewrite has done, with what interrupted runs of it did. */
export interface Rewritten extends RedactedCounts {
  /** The names of the rules. */
  readonly from: string
  readonly to: string
}

/** The pause between two transactions, in which writers of an SQLite file can start theirs. */
const pause = Duration.millis(5)

/** The number of records that a transaction erases. */
const chunkRecords = 100

/** With more needles than this, the database does not filter the texts: it would search each text for each needle. */
const maxNeedles = 20

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
          yield* eraseRecords(maintenance, list, chunk, key, redact)
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

/** Returns the number of records in each list that an erasure would erase. Writes nothing. */
export const previewErasure = Effect.fn("Export.previewErasure")(function*(
  maintenance: Pick<Maintenance, "columns" | "search">,
  options: ErasureSearch
): Effect.fn.Return<ReadonlyArray<{ readonly list: string; readonly records: number }>, SinkError> {
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

/** A record to which a criterion applies. */
interface FoundRecord {
  /** Undefined for a quarantined record without an id. */
  readonly id: string | undefined
  /** The number of the criterion. */
  readonly criterion: number
}

/** Calls `use` with the records of a list to which a criterion applies, a batch at a time. A record can be found repeatedly. */
const search = Effect.fnUntraced(function*(
  maintenance: Pick<Maintenance, "search">,
  list: Lists.AnyList,
  { criteria, key, onProgress }: ErasureSearch,
  use: (found: ReadonlyArray<FoundRecord>) => Effect.Effect<void, SinkError>
): Effect.fn.Return<void, SinkError> {
  const needles = criteria.length > maxNeedles / 2 ? [] : criteria.flatMap(({ value }) => {
    const plain = Redacted.value(value)
    return [plain, pseudonym(key, plain)]
  })
  const match = matcherOf(key, criteria)
  for (const table of ["rows", "changes", "quarantine"] as const) {
    for (let after: string | undefined;;) {
      const { found, next } = yield* maintenance.search(list, table, needles, after)
      yield* use(found.flatMap(({ id, texts }) => {
        const criterion = texts.map((text) => match(list, text)).find((index) => index >= 0)
        return criterion === undefined ? [] : [{ id, criterion }]
      }))
      if (onProgress !== undefined) {
        yield* onProgress({ list: list.label, table, position: table === "quarantine" ? undefined : Number(next) })
      }
      if (next === undefined) break
      after = next
    }
  }
})

/** Returns the erasure of the first criterion that applies to a record. */
type ErasureOf = (list: Lists.AnyList, text: string) => number | undefined

/** Puts the persons on the suppression list, so that no later commit writes them. Returns the numbers of the erasures. */
const beginErasures = (
  maintenance: Maintenance,
  criteria: ReadonlyArray<Criterion>,
  key: EraseOptions["key"],
  by: string
): Effect.Effect<ReadonlyArray<number>, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    yield* requireNoRewrite(maintenance, state)
    yield* requireKey(maintenance, state.keyCheck ?? keyCheckIn(state.rule), key)
    const startedAt = yield* timestamp
    const numbers: Array<number> = []
    let isNew = false
    for (const criterion of criteria) {
      const hash = hashOf(key, criterion)
      const erasure = yield* statements.openErasure({ hash, kind: criterion.kind, by, startedAt })
      if (yield* statements.suppress([hash], erasure)) isNew = true
      numbers.push(erasure)
    }
    if (isNew) yield* statements.setState({ ...state, keyCheck: keyCheck(key), edition: state.edition + 1 })
    return numbers
  }))

/** Erases records with all their changes in one transaction, each for an erasure, and suppresses their later texts. */
const eraseRecords = (
  maintenance: Maintenance,
  list: Lists.AnyList,
  records: ReadonlyMap<string, number>,
  key: EraseOptions["key"],
  redact: TextAfter
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

/** Erases the quarantined records of a list to which a criterion applies, and those of erased records, in one transaction. */
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

/**
 * Replaces the values of parts that a rule does not keep. `redact` gets a text with the part's field only. A value that is left
 * out is replaced by the number of the part's first scan, so that parts stay distinct. A running scan of such a part has the
 * value in its checkpoint, so it is abandoned. Returns whether it has replaced any.
 */
const replaceParts = Effect.fnUntraced(function*(
  statements: RedactionStatements,
  list: Lists.AnyList,
  redact: (text: string) => string
): Effect.fn.Return<boolean, SinkError> {
  const replaced = (yield* statements.parts(list)).flatMap(({ firstScan, part }) => {
    const decoded = Schema.decodeOption(StoredPart)(part)
    if (Option.isNone(decoded)) return []
    const [field, value] = decoded.value
    const text = JSON.stringify({ [field]: value })
    const redacted = redact(text)
    if (redacted === text) return []
    const kept: unknown = JSON.parse(membersOf(redacted).get(field) ?? "null")
    const after = JSON.stringify([field, typeof kept === "string" ? kept : `(removed ${firstScan})`])
    return after === part ? [] : [{ before: part, after }]
  })
  if (replaced.length === 0) return false
  yield* statements.abandonScans(list, yield* timestamp)
  yield* statements.replaceParts(list, replaced)
  return true
})

const StoredPart = Schema.fromJsonString(Schema.Tuple([Schema.String, Schema.String]))

/** Notes in the protocol that the erasures are complete. */
const completeErasures = (maintenance: Maintenance, numbers: ReadonlyArray<number>): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    yield* statements.state
    yield* statements.completeErasures(numbers, yield* timestamp)
  }))

/** The state of an unfinished rewrite. */
const Rewriting = Schema.fromJsonString(Schema.Struct({
  /** The stored form of the earlier rule. */
  from: Schema.NullOr(Schema.String),
  /** The list and table that are rewritten next, and the last position that was rewritten. */
  list: Schema.String,
  table: Schema.Literals(["rows", "changes", "quarantine", "none"]),
  after: Schema.Int,
  /** The last change before the rewrite. Later ones have rewritten texts. */
  through: Schema.Int,
  records: Schema.Int,
  changes: Schema.Int,
  quarantined: Schema.Int
}))
type Rewriting = typeof Rewriting.Type

const decodeRewriting = Schema.decodeOption(Rewriting)
const encodeRewriting = Schema.encodeSync(Rewriting)

/** What a rewrite would do. */
export interface RewritePreview {
  /** The names of the rules. */
  readonly from: string
  readonly to: string
  /** Whether the destination has the rule already, and no rewrite is to be completed. */
  readonly same: boolean
  /** Whether a rewrite with this rule has begun and is not complete. */
  readonly unfinished: boolean
  readonly fields: ReadonlyArray<FieldChange>
}

/** Returns what a rewrite would do. Writes nothing. Fails if the rewrite would be refused. */
export const previewRewrite = Effect.fn("Export.previewRewrite")(function*(
  maintenance: Pick<Maintenance, "location" | "personal">,
  rule: PersonalRule
): Effect.fn.Return<RewritePreview, SinkError> {
  const { keyCheck: known, rewriting, rule: bound, suppressed } = yield* maintenance.personal
  if (suppressed.length > 0 && rule.key !== undefined) yield* requireKey(maintenance, known, rule.key)
  const hasRule = isSame(bound, rule)
  if (rewriting && !hasRule) return yield* refuseOtherRewrite(maintenance, bound, rule)
  return {
    from: nameOf(bound),
    to: nameOf(rule),
    same: hasRule && !rewriting,
    unfinished: rewriting,
    fields: fieldChanges(bound, rule)
  }
})

/**
 * Carries a rule out over all texts of the destination, each exactly once. Exports are refused until it is complete. Returns
 * undefined if the destination has the rule already.
 */
export const rewrite = Effect.fn("Export.rewrite")(function*<E = never, R = never>(
  maintenance: Maintenance,
  { onProgress, publish, rule }: RewriteOptions<E, R>
): Effect.fn.Return<Rewritten | undefined, SinkError | E, R> {
  const begun = yield* beginRewrite(maintenance, rule)
  if (begun === undefined) return undefined
  const between = betweenRules(begun.from ?? undefined, rule)
  const stored = storedForm(rule)
  let last = begun
  while (last.table !== "none") {
    yield* onProgress?.({
      list: last.list,
      table: last.table,
      position: last.table === "quarantine" ? undefined : last.after
    }) ?? Effect.void
    const next = yield* rewriteBatch(maintenance, stored, between)
    // Another program has completed the rewrite.
    if (next === undefined) break
    last = next
    yield* Effect.sleep(pause)
  }
  if (publish !== undefined) yield* publish
  yield* maintenance.wipe
  yield* completeRewrite(maintenance, stored)
  const { changes, from, quarantined, records } = last
  return { from: nameOf(from ?? undefined), to: nameOf(stored), records, changes, quarantined }
})

const storedForm = (rule: PersonalRule): string | undefined => keepsAll(rule) ? undefined : toStored(rule)

/** Binds the destination to the new rule, or finds the unfinished rewrite to it. */
const beginRewrite = (maintenance: Maintenance, rule: PersonalRule): Effect.Effect<Rewriting | undefined, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    const hasSuppressed = yield* statements.hasSuppressed
    if (hasSuppressed && rule.key !== undefined) yield* requireKey(maintenance, state.keyCheck, rule.key)
    const unfinished = yield* rewritingOf(maintenance, state)
    if (unfinished !== undefined) {
      if (state.rule === storedForm(rule)) return unfinished
      return yield* refuseOtherRewrite(maintenance, state.rule, rule)
    }
    if (isSame(state.rule, rule)) return undefined
    const now = yield* timestamp
    for (const list of Lists.all) {
      yield* statements.abandonScans(list, now)
      yield* statements.removeDigests(list)
      const redact = textAfter(list, betweenRules(state.rule, rule))
      yield* replaceParts(statements, list, (text) => redact(text, undefined))
    }
    const rewriting: Rewriting = {
      from: state.rule ?? null,
      list: Lists.all[0]?.label ?? "",
      table: keepsAll(betweenRules(state.rule, rule)) ? "none" : "rows",
      after: -1,
      through: yield* statements.lastChange,
      records: 0,
      changes: 0,
      quarantined: 0
    }
    if (rewriting.table === "none") yield* nameRule(statements, storedForm(rule))
    yield* statements.setState({
      rule: storedForm(rule),
      rewriting: encodeRewriting(rewriting),
      edition: state.edition + 1,
      keyCheck: hasSuppressed ? state.keyCheck : keyCheckIn(storedForm(rule))
    })
    return rewriting
  }))

/** Fails, because a rewrite with another rule or key is not complete. */
const refuseOtherRewrite = (
  maintenance: Pick<Maintenance, "location">,
  bound: string | undefined,
  rule: PersonalRule
): Effect.Effect<never, SinkError> => {
  const [first, second] = [nameOf(bound), nameOf(rule)]
  return failed(
    maintenance,
    new WrongSetting({
      problem: `its texts are being rewritten with the rule ${first}, and the settings have ${
        first === second ? "another personal key" : `the rule ${second}`
      }. Complete the rewrite with the settings of the first one; then a rewrite with the second one can begin.`
    })
  )
}

/** Rewrites the next texts in one transaction. Returns the state after it, or undefined if another program has finished. */
const rewriteBatch = (
  maintenance: Maintenance,
  stored: string | undefined,
  between: PersonalRule
): Effect.Effect<Rewriting | undefined, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    const rewriting = state.rule === stored ? yield* rewritingOf(maintenance, state) : undefined
    const list = Lists.all.find(({ label }) => label === rewriting?.list)
    if (rewriting === undefined || list === undefined || rewriting.table === "none") return rewriting
    const counts = { records: 0, changes: 0, quarantined: 0 }
    let position: Pick<Rewriting, "list" | "table" | "after">
    if (!(yield* statements.hasTable(list))) position = positionAfter(list)
    else if (rewriting.table === "quarantine") {
      const redact = textAfter(list, between)
      yield* statements.replaceQuarantined(list, (batch) =>
        Effect.sync(() => {
          const changed = batch.map((record) => redactedQuarantined(list, record, redact))
            .filter((record, index) => record !== batch[index])
          counts.quarantined += changed.length
          return changed
        }))
      position = positionAfter(list)
    } else {
      const redaction = yield* openRedaction(statements, list, textAfter(list, between))
      const { after, table, through } = rewriting
      const last = table === "rows"
        ? yield* redactRows(redaction, yield* statements.rows(list, { after }))
        : yield* redactChanges(redaction, yield* statements.changes(list, redaction.certified, { after, through }))
      yield* writeCertificate(redaction)
      counts.records = redaction.redacted.rows.length
      counts.changes = redaction.redacted.changes.length
      position = last !== undefined
        ? { list: list.label, table, after: last }
        : table === "rows"
        ? { list: list.label, table: "changes", after: 0 }
        : { list: list.label, table: "quarantine", after: 0 }
    }
    const next: Rewriting = {
      ...rewriting,
      ...position,
      records: rewriting.records + counts.records,
      changes: rewriting.changes + counts.changes,
      quarantined: rewriting.quarantined + counts.quarantined
    }
    if (next.table === "none") yield* nameRule(statements, stored)
    yield* statements.setState({ ...state, rewriting: encodeRewriting(next), edition: state.edition + 1 })
    return next
  }))

/** Names the rule in the certificates, when all texts are rewritten. */
const nameRule = Effect.fnUntraced(function*(
  statements: RedactionStatements,
  stored: string | undefined
): Effect.fn.Return<void, SinkError> {
  for (const list of Lists.all) {
    const scan = yield* statements.certified(list)
    const certificate = Certificate.ofScan(scan)
    if (scan === undefined || certificate === undefined) continue
    yield* statements.setCertificate(scan.scan, Certificate.toJson(certificateWith(certificate, stored)))
  }
})

/** The start of the next list, or the end. */
const positionAfter = (list: Lists.AnyList): Pick<Rewriting, "list" | "table" | "after"> => {
  const next = Lists.all[Lists.all.indexOf(list) + 1]
  return next === undefined
    ? { list: list.label, table: "none", after: -1 }
    : { list: next.label, table: "rows", after: -1 }
}

/** Allows exports again, unless another program has done so. */
const completeRewrite = (maintenance: Maintenance, stored: string | undefined): Effect.Effect<void, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    if (state.rule !== stored || (yield* rewritingOf(maintenance, state))?.table !== "none") return
    yield* statements.setState({ ...state, rewriting: undefined })
  }))

const rewritingOf = (
  maintenance: Maintenance,
  { rewriting }: PersonalRow
): Effect.Effect<Rewriting | undefined, SinkError> =>
  rewriting === undefined ? Effect.succeed(undefined) : Option.match(decodeRewriting(rewriting), {
    onNone: () =>
      failed(
        maintenance,
        new WrongSetting({ problem: "a later version of this program has begun to rewrite it. Use that version." })
      ),
    onSome: Effect.succeed
  })

const requireNoRewrite = (maintenance: Maintenance, { rewriting, rule }: PersonalRow) =>
  rewriting === undefined
    ? Effect.void
    : failed(maintenance, new OtherRule({ bound: nameOf(rule), given: nameOf(rule), isRewriting: true }))

/** Fails if the destination has hashes or pseudonyms of another key. */
const requireKey = (maintenance: Pick<Maintenance, "location">, known: string | undefined, key: EraseOptions["key"]) =>
  known === undefined || known === keyCheck(key)
    ? Effect.void
    : failed(
      maintenance,
      new WrongSetting({
        problem:
          "the personal key (PAYMENTS_PERSONAL_KEY, personal_key_file) is not the one of its suppression list and pseudonyms. Give that key."
      })
    )

const failed = ({ location }: Pick<Maintenance, "location">, reason: SinkReason) =>
  Effect.fail(new SinkError({ location, reason }))

const timestamp = Effect.map(DateTime.now, DateTime.formatIso)

/** Returns a record's text after a rule. */
type TextAfter = (text: string, id: string | undefined) => string

/** Returns the function that applies a rule. A text that was altered and is not JSON is replaced: no rule can be applied to it. */
const textAfter = (list: Lists.AnyList, rule: PersonalRule): TextAfter => {
  const redact = redactorOf(list, rule)
  return (text, id) => isJson(text) ? redact(text).text : JSON.stringify({ id })
}

/** The redaction of a list in one transaction. */
interface Redaction {
  readonly statements: RedactionStatements
  readonly list: Lists.AnyList
  readonly redact: TextAfter
  readonly now: string
  readonly isLoaded: boolean
  readonly certified: CertifiedTexts | undefined
  readonly correction: Correction | undefined
  /** The ids of the rows and changes that were redacted. */
  readonly redacted: { readonly rows: Array<string>; readonly changes: Array<string> }
}

const openRedaction = Effect.fnUntraced(function*(
  statements: RedactionStatements,
  list: Lists.AnyList,
  redact: TextAfter
): Effect.fn.Return<Redaction, SinkError> {
  const certified = yield* statements.certified(list)
  const found = Certificate.ofScan(certified)
  const certificate = found !== undefined && /^[0-9a-f]+$/.test(found.digest) ? found : undefined
  return {
    statements,
    list,
    redact,
    now: yield* timestamp,
    isLoaded: yield* statements.isLoaded(list),
    certified,
    correction: certificate === undefined ? undefined : new Correction(layoutOf(list), certificate),
    redacted: { rows: [], changes: [] }
  }
})

/** Writes the corrected certificate. */
const writeCertificate = (
  { certified, correction, statements }: Redaction
): Effect.Effect<void, SinkError> =>
  certified === undefined || correction?.isNeeded !== true
    ? Effect.void
    : statements.setCertificate(certified.scan, Certificate.toJson(correction.certificate))

/** Redacts rows. Returns the number of the last one. */
const redactRows = Effect.fnUntraced(function*(
  redaction: Redaction,
  rows: ReadonlyArray<RowText>
): Effect.fn.Return<number | undefined, SinkError> {
  const { correction, isLoaded, list, now, statements } = redaction
  const layout = layoutOf(list)
  const redacted = rows.flatMap((row) => {
    const text = redaction.redact(row.raw, row.id)
    return text === row.raw ? [] : [{ ...row, text }]
  })
  if (redacted.length > 0) {
    redaction.redacted.rows.push(...redacted.map(({ id }) => id))
    const certified = yield* certifiedAmong(redaction, redacted.map(({ row }) => row))
    const counted = redacted.filter(({ row }) => certified.has(row))
    const later = redaction.certified === undefined || counted.length === 0
      ? new Set<string>()
      : yield* statements.changedSince(list, redaction.certified, counted.map(({ id }) => id))
    for (const { id, raw, text } of counted) if (!later.has(id)) correction?.replace(raw, text)
    yield* statements.writeRows(
      list,
      redacted.map(({ id, row, text }) => ({
        row,
        id,
        cells: cellsOf(layout, recordIn(layout, text)).cells,
        raw: text,
        hash: contentHash(text)
      })),
      isLoaded ? now : undefined
    )
    if (isLoaded) yield* statements.appendChanges(list, redacted.flatMap((row) => changesOf(list, row)), now)
  }
  return rows.at(-1)?.row
})

/**
 * Returns the changes for a redacted row. Their text before is also the redacted one. The row of a missing record stays
 * missing: an update alone would tell readers of changes that it is not.
 */
const changesOf = (
  list: Lists.AnyList,
  { id, missing, raw, text }: RowText & { readonly text: string }
): ReadonlyArray<NewChange> => {
  const differing = isJson(raw) ? differingMembers(raw, text, new Set()) : ["(text)"]
  const fields = shownFields(list, differing, [text])
  return missing
    ? [
      { kind: "returned", id, fields, before: text, after: text },
      { kind: "missing", id, fields: [], before: undefined, after: undefined }
    ]
    : [{ kind: "update", id, fields, before: text, after: text }]
}

/** Redacts changes. Returns the number of the last one. */
const redactChanges = Effect.fnUntraced(function*(
  redaction: Redaction,
  changes: ReadonlyArray<ChangeText>
): Effect.fn.Return<number | undefined, SinkError> {
  const { correction, list, redact, statements } = redaction
  const redacted = changes.flatMap((change) => {
    const { after, before, fields, id } = change
    const texts = {
      before: before === undefined ? undefined : redact(before, id),
      after: after === undefined ? undefined : redact(after, id)
    }
    if (texts.before === before && texts.after === after) return []
    return [{ change, ...texts, seq: change.seq, fields: shownFields(list, fields, [texts.before, texts.after]) }]
  })
  if (redacted.length > 0) {
    redaction.redacted.changes.push(...redacted.map(({ change: { id } }) => id))
    const rows = redacted.flatMap(({ change: { certifiedRow } }) => certifiedRow === undefined ? [] : [certifiedRow])
    const certified = yield* certifiedAmong(redaction, rows)
    for (const { before, change } of redacted) {
      if (before === undefined || change.before === undefined || !certified.has(change.certifiedRow ?? -1)) continue
      correction?.replace(change.before, before)
    }
    yield* statements.writeChanges(redacted)
  }
  return changes.at(-1)?.seq
})

/**
 * Returns the members that a change may name: documented ones and those that its texts still have. A service may use values as
 * names.
 */
const shownFields = (
  list: Lists.AnyList,
  fields: ReadonlyArray<string>,
  texts: ReadonlyArray<string | undefined>
): ReadonlyArray<string> => {
  const known = new Set(["(text)", ...Lists.fieldMeanings(list).map(({ path: [field] }) => field)])
  for (const text of texts) for (const name of text === undefined ? [] : membersOf(text).keys()) known.add(name)
  const shown = fields.filter((field) => known.has(field))
  return shown.length === 0 && fields.length > 0 ? ["(text)"] : shown
}

/** Returns the quarantined record after a rule, or the same object if nothing changes. */
const redactedQuarantined = (
  list: Lists.AnyList,
  record: QuarantinedText,
  redact: TextAfter
): QuarantinedText => {
  const raw = redact(record.raw, record.id)
  if (raw === record.raw) return record
  return { ...record, raw, path: Lists.fieldPaths(list).includes(record.path) ? record.path : "" }
}

/** Returns those of the rows that the certified scan has seen. */
const certifiedAmong = Effect.fnUntraced(function*(
  { certified, correction, statements }: Redaction,
  rows: ReadonlyArray<number>
): Effect.fn.Return<RowSet, SinkError> {
  if (certified === undefined || correction === undefined || rows.length === 0) return new RowSet()
  return new RowSet(yield* statements.seen(certified.scan, [...new Set(rows.map(pieceOf))]))
})

/** Corrects a certificate when texts that it covers are replaced. */
class Correction {
  readonly #layout: Layout
  readonly #certificate: Certificate.Certificate
  readonly #totals: ScanTotals.RunningTotals
  isNeeded = false

  constructor(layout: Layout, certificate: Certificate.Certificate) {
    this.#layout = layout
    this.#certificate = certificate
    this.#totals = new ScanTotals.RunningTotals(layout.amounts, {
      // Only amounts that the certificate has sums of are summed: a scan may have begun before a column was added.
      counts: { ...ScanTotals.none.counts, records: certificate.records + 1 },
      sums: Object.fromEntries(Object.entries(certificate.sums).map(([column, sum]) => [column, BigInt(sum)])),
      digest: BigInt(`0x${certificate.digest}`)
    })
  }

  replace(before: string, after: string): void {
    this.isNeeded = true
    this.#totals.remove(contentHash(before), amountsIn(this.#layout, before))
    this.#totals.add(contentHash(after), amountsIn(this.#layout, after))
  }

  get certificate(): Certificate.Certificate {
    return {
      ...this.#certificate,
      sums: Object.fromEntries(Object.entries(this.#totals.sums).map(([column, sum]) => [column, String(sum)])),
      digest: ScanTotals.digestText(this.#totals.digest)
    }
  }
}

const amountsIn = (layout: Layout, text: string): ReadonlyArray<number> => amountsOf(layout, recordIn(layout, text))

/** Parses a text as `verify` does. */
const recordIn = (layout: Layout, text: string): unknown => {
  try {
    return withoutRoundedAmounts(layout, parseText(text), text)
  } catch {
    return undefined
  }
}
