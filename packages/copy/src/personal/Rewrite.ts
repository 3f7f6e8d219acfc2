/** Rewrites all texts of a destination with another rule for personal data. */
import { Lists } from "@payments/core"
import { Effect, Option, Schema } from "effect"
import * as Certificate from "../port/Certificate.ts"
import { type SinkError, WrongSetting } from "../port/Sink.ts"
import { keyCheck, pseudonym, pseudonymOnce, type ToPseudonym } from "../rule/Pseudonym.ts"
import { erasureRule, keepsAll, type PersonalRule } from "../rule/Rule.ts"
import {
  bothRuleWords,
  earlierErasureRule,
  type FieldChange,
  fieldChanges,
  isSame,
  keepText,
  keyCheckIn,
  nameOf,
  omitsPersons,
  reclassifiedInErasures,
  toStored
} from "../rule/StoredRule.ts"
import { certificateWith } from "../store/PersonalBinding.ts"
import type { PersonalRow, RedactedCounts, RedactionStatements } from "../store/RedactionStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"
import {
  failed,
  openRedaction,
  pause,
  redactChanges,
  redactedQuarantined,
  type RedactionProgress,
  redactRows,
  replaceParts,
  requireKey,
  type TextAfter,
  textAfter,
  writeCertificate
} from "./Redaction.ts"

/** What to rewrite. */
export interface RewriteOptions<E = never, R = never> {
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
  /** The rules in words, for people. */
  readonly words: readonly [from: string, to: string]
}

const Rewriting = Schema.fromJsonString(Schema.Struct({
  /** The stored form of the earlier rule. */
  from: Schema.NullOr(Schema.String),
  /** The check value of the key of the pseudonyms that the texts may have. Earlier versions did not store it. */
  fromKey: Schema.optionalKey(Schema.String),
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
  /** The fields that erased records still have, because an earlier version did not count them as personal. */
  readonly erasedFields: ReadonlyArray<string>
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
  const erasedFields = suppressed.length === 0 || rewriting ? [] : reclassifiedInErasures(bound)
  return {
    from: nameOf(bound),
    to: nameOf(rule),
    same: hasRule && !rewriting && erasedFields.length === 0,
    unfinished: rewriting,
    fields: fieldChanges(bound, rule),
    erasedFields
  }
})

/**
 * Carries a rule out over all texts of the destination, each exactly once. Exports are refused until it is complete.
 * Returns undefined if the destination has the rule already.
 */
export const rewrite = Effect.fn("Export.rewrite")(function*<E = never, R = never>(
  maintenance: Maintenance,
  { onProgress, publish, rule }: RewriteOptions<E, R>
): Effect.fn.Return<Rewritten | undefined, SinkError | E, R> {
  const begun = yield* beginRewrite(maintenance, rule)
  if (begun === undefined) return undefined
  const stored = storedForm(rule)
  let last = begun
  while (last.table !== "none") {
    yield* onProgress?.({
      list: last.list,
      table: last.table,
      position: last.table === "quarantine" ? undefined : last.after
    }) ?? Effect.void
    const next = yield* rewriteBatch(maintenance, stored, rule)
    // Another program has completed the rewrite.
    if (next === undefined) break
    last = next
    yield* Effect.sleep(pause)
  }
  if (publish !== undefined) yield* publish
  yield* maintenance.wipe
  yield* completeRewrite(maintenance, stored)
  const { changes, from, quarantined, records } = last
  const before = from ?? undefined
  const words = bothRuleWords(before, stored)
  return { from: nameOf(before), to: nameOf(stored), words, records, changes, quarantined }
})

const storedForm = (rule: PersonalRule): string | undefined => {
  const stored = toStored(rule)
  return stored === keepText ? undefined : stored
}

/**
 * Returns how a rewrite makes pseudonyms. Pseudonyms of the same key stay: an erasure would not find pseudonyms of
 * pseudonyms. Pseudonyms of another key get pseudonyms of the new key.
 */
const toPseudonymAfter = (fromKey: string | undefined, { key }: PersonalRule): ToPseudonym =>
  key !== undefined && keyCheck(key) === fromKey ? pseudonymOnce : pseudonym

/**
 * Returns the check value of the key of the pseudonyms that the texts may have after a rewrite. A rule that keeps
 * personal data leaves earlier pseudonyms in the changes.
 */
const keyAfter = (fromKey: string | undefined, rule: PersonalRule): string | undefined =>
  keyCheckIn(storedForm(rule)) ?? (omitsPersons(rule) ? undefined : fromKey)

/**
 * Returns the function that turns the texts of a list before a rewrite into texts after the rule. Erasures may
 * leave out more fields than under the stored table of classes. Then the function leaves them out of each text that
 * looks erased: one without any field that identifies a person or a payment. A record may have been exported after the
 * erasure of its person. Its id is not on the suppression list, so only the text shows it. If it is of another record,
 * the next export restores the field.
 */
const rewriterOf = (
  list: Lists.AnyList,
  { from, fromKey = keyCheckIn(from ?? undefined) }: Rewriting,
  rule: PersonalRule,
  hasSuppressed: boolean
): TextAfter => {
  const redact = textAfter(list, rule, toPseudonymAfter(fromKey, rule))
  const earlier = hasSuppressed ? earlierErasureRule(from ?? undefined, list) : undefined
  if (earlier === undefined) return redact
  const [wasErased, erase] = [textAfter(list, earlier), textAfter(list, erasureRule)]
  return (text, id) => redact(wasErased(text, id) === text ? erase(text, id) : text, id)
}

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
    const hasOutdatedErasures = hasSuppressed && reclassifiedInErasures(state.rule).length > 0
    if (isSame(state.rule, rule) && !hasOutdatedErasures) return undefined
    const now = yield* timestamp
    const fromKey = state.keyCheck ?? keyCheckIn(state.rule)
    for (const list of Lists.all) {
      yield* statements.abandonScans(list, now)
      yield* statements.removeDigests(list)
      const redact = textAfter(list, rule, toPseudonymAfter(fromKey, rule))
      yield* replaceParts(statements, list, (text) => redact(text, undefined))
    }
    const rewriting: Rewriting = {
      from: state.rule ?? null,
      ...fromKey === undefined ? {} : { fromKey },
      list: Lists.all[0]?.label ?? "",
      table: !hasOutdatedErasures && keepsAll(rule) ? "none" : "rows",
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
      keyCheck: hasSuppressed ? state.keyCheck : keyAfter(fromKey, rule)
    })
    return rewriting
  }))

const refuseOtherRewrite = (
  maintenance: Pick<Maintenance, "location">,
  bound: string | undefined,
  rule: PersonalRule
): Effect.Effect<never, SinkError> => {
  const [first, second] = bothRuleWords(bound, rule)
  return failed(
    maintenance,
    new WrongSetting({
      problem: `its texts are being rewritten with the rule "${first}", and the settings have ${
        first === second ? "another personal key" : `the rule "${second}"`
      }. Complete the rewrite with the settings of the first one; then a rewrite with the second one can begin.`
    })
  )
}

/** One transaction. Returns the state after it, or undefined if another program has finished. */
const rewriteBatch = (
  maintenance: Maintenance,
  stored: string | undefined,
  rule: PersonalRule
): Effect.Effect<Rewriting | undefined, SinkError> =>
  maintenance.redact(Effect.fnUntraced(function*(statements) {
    const state = yield* statements.state
    const rewriting = state.rule === stored ? yield* rewritingOf(maintenance, state) : undefined
    const list = Lists.all.find(({ label }) => label === rewriting?.list)
    if (rewriting === undefined || list === undefined || rewriting.table === "none") return rewriting
    const redact = rewriterOf(list, rewriting, rule, yield* statements.hasSuppressed)
    const counts = { records: 0, changes: 0, quarantined: 0 }
    let position: Pick<Rewriting, "list" | "table" | "after">
    if (!(yield* statements.hasTable(list))) position = positionAfter(list)
    else if (rewriting.table === "quarantine") {
      yield* statements.replaceQuarantined(list, (batch) =>
        Effect.sync(() => {
          const changed = batch.map((record) => redactedQuarantined(list, record, redact))
            .filter((record, index) => record !== batch[index])
          counts.quarantined += changed.length
          return changed
        }))
      position = positionAfter(list)
    } else {
      const redaction = yield* openRedaction(statements, list, redact)
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
