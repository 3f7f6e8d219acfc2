/**
 * Redacts texts: replaces those of rows, changes, quarantined records and parts by the texts after a rule for personal
 * data. An erasure (`Erase.ts`) redacts the records of persons, a rewrite (`Rewrite.ts`) all records. Both consist of
 * short transactions, next to programs that export into the destination.
 *
 * After each transaction the destination is consistent. Every row has a change for its new text. The certificate of the
 * last complete full scan covers the new texts, and points before now show them. Rows keep their numbers, so the sets
 * of seen rows stay valid. Each transaction increments the edition, so that no running export writes what it has read
 * before. A redaction may be killed at any moment, and the same call completes it.
 */
import { isJson, Lists, membersOf } from "@payments/core"
import { Duration, Effect, Option, type Redacted, Schema } from "effect"
import { amountsOf, cellsOf, type Layout, layoutOf, recordIn } from "../plan/Columns.ts"
import { contentHash, differingMembers } from "../plan/Plan.ts"
import { pieceOf, RowSet } from "../plan/RowSet.ts"
import * as ScanTotals from "../plan/ScanTotals.ts"
import * as Certificate from "../port/Certificate.ts"
import { OtherRule, SinkError, type SinkReason, WrongSetting } from "../port/Sink.ts"
import { keyCheck, type ToPseudonym } from "../rule/Pseudonym.ts"
import { type PersonalRule, redactorOf } from "../rule/Rule.ts"
import { ruleWords } from "../rule/StoredRule.ts"
import type {
  CertifiedTexts,
  ChangeText,
  NewChange,
  PersonalRow,
  QuarantinedText,
  RedactionStatements,
  RowText,
  TextTable
} from "../store/RedactionStore.ts"
import type { Maintenance } from "../store/Store.ts"
import { timestamp } from "../store/StoredRows.ts"

/** How far an erasure has searched, or a rewrite has rewritten. */
export interface RedactionProgress {
  /** The list's name, as on the command line. */
  readonly list: string
  readonly table: TextTable
  /** The number of rows or changes up to here. Undefined if it is unknown. */
  readonly position: number | undefined
}

/** The pause between two transactions, in which writers of an SQLite file can start theirs. */
export const pause = Duration.millis(5)

export const refuseDuringRewrite = (maintenance: Pick<Maintenance, "location">, rule: string | undefined) =>
  failed(maintenance, new OtherRule({ bound: ruleWords(rule), given: ruleWords(rule), isRewriting: true }))

export const requireNoRewrite = (maintenance: Maintenance, { rewriting, rule }: PersonalRow) =>
  rewriting === undefined ? Effect.void : refuseDuringRewrite(maintenance, rule)

/** Fails if the destination has hashes or pseudonyms of another key. */
export const requireKey = (
  maintenance: Pick<Maintenance, "location">,
  known: string | undefined,
  key: Redacted.Redacted<Uint8Array>
) =>
  known === undefined || known === keyCheck(key)
    ? Effect.void
    : failed(
      maintenance,
      new WrongSetting({
        problem:
          "the personal key (PAYMENTS_PERSONAL_KEY, personal_key_file) is not the one of its suppression list and pseudonyms. Give that key."
      })
    )

export const failed = ({ location }: Pick<Maintenance, "location">, reason: SinkReason) =>
  Effect.fail(new SinkError({ location, reason }))

export type TextAfter = (text: string, id: string | undefined) => string

/** A text that was altered and is not JSON is replaced: no rule can be applied to it. */
export const textAfter = (list: Lists.AnyList, rule: PersonalRule, toPseudonym?: ToPseudonym): TextAfter => {
  const redact = redactorOf(list, rule, toPseudonym)
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
  /** The ids. */
  readonly redacted: { readonly rows: Array<string>; readonly changes: Array<string> }
}

export const openRedaction = Effect.fnUntraced(function*(
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

export const writeCertificate = (
  { certified, correction, statements }: Redaction
): Effect.Effect<void, SinkError> =>
  certified === undefined || correction?.isNeeded !== true
    ? Effect.void
    : statements.setCertificate(certified.scan, Certificate.toJson(correction.certificate))

/** Returns the number of the last row. */
export const redactRows = Effect.fnUntraced(function*(
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
        cells: cellsOf(layout, recordIn(layout, text), []).cells,
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

/** Returns the number of the last change. */
export const redactChanges = Effect.fnUntraced(function*(
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
 * Returns the members that a change may name: documented ones and those that its texts still have. A service may use
 * values as names.
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
export const redactedQuarantined = (
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

/**
 * Replaces the values of parts that a rule does not keep. `redact` gets a text with the part's field only. A value that
 * is left out is replaced by the number of the part's first scan, so that parts stay distinct. A running scan of such a
 * part has the value in its checkpoint, so it is abandoned. Returns whether it has replaced any.
 */
export const replaceParts = Effect.fnUntraced(function*(
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
