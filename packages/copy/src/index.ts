/** The public surface of `@payments/copy`. */
export { generationSince } from "./ask/BegunGeneration.ts"
export { type ColumnValues, columnValues } from "./ask/ColumnValues.ts"
export { type FieldCondition, mayBePersonal } from "./ask/Conditions.ts"
export {
  BeyondLastChange,
  type ChangeBatch,
  changesAfter,
  ChangesLost,
  ChangesRemoved,
  ChangesUnsent,
  describeGeneration,
  isConsumerName,
  moveConsumer,
  type MoveError,
  OtherGeneration,
  requireCurrent,
  requirePosition
} from "./ask/Consumers.ts"
export {
  comparedLists,
  type ComparedTotals,
  type ListComparison,
  type MemberDifference,
  type RecordDifference,
  recordDifferences,
  type TotalDifference,
  totalDifferences
} from "./ask/Diff.ts"
export { type Excerpt, excerptTables, queryExcerpt, queryExcerptAt } from "./ask/Excerpt.ts"
export {
  type Comparison,
  findInApi,
  findInCopy,
  findInCopyAt,
  type Found,
  type Includes,
  type Match,
  searchedFields
} from "./ask/Find.ts"
export {
  ChangesBeginLater,
  current,
  HistoryRemoved,
  MissingRowsRemoved,
  type NamedPoint,
  pointAt,
  type PointError,
  type PointInTime,
  type ReachedPoint
} from "./ask/PointInTime.ts"
export { query, queryAt, type ResultAt } from "./ask/Query.ts"
export * as Questions from "./ask/Questions.ts"
export { type HeldBack, prune, pruneAll, type Pruned, type Retention } from "./ask/Retention.ts"
export {
  type Difference,
  exportedLists,
  unfilledColumns,
  type Verified,
  verify,
  verifyAgainstApi
} from "./ask/Verify.ts"
export * as Destination from "./destination/Destination.ts"
export { copyFile } from "./files/FileSink.ts"
export { Manifest } from "./files/Manifest.ts"
export { type FileDifference, verifyFiles } from "./files/VerifyFiles.ts"
export { makeFolder, replaceFile, replaceFileWith } from "./filesystem/AtomicFile.ts"
export { errorCode } from "./filesystem/ErrorCode.ts"
export { denialProblem } from "./filesystem/Permission.ts"
export { realPathIfAny, realPathOf } from "./filesystem/RealPath.ts"
export { systemProblem } from "./filesystem/SystemProblem.ts"
export { writeProblem } from "./filesystem/WriteProblem.ts"
export { erase, type Erased, type EraseOptions, previewErasure } from "./personal/Erase.ts"
export type { RedactionProgress } from "./personal/Redaction.ts"
export {
  previewRewrite,
  rewrite,
  type RewriteOptions,
  type RewritePreview,
  type Rewritten
} from "./personal/Rewrite.ts"
export { Certificate } from "./port/Certificate.ts"
export { type Drift, driftLine, type DriftName, driftText, driftWithoutSecrets } from "./port/Drift.ts"
export {
  type Generation,
  type GenerationReason,
  isLost,
  type KnownChange,
  type Lineage,
  type Numbered
} from "./port/Generations.ts"
export type {
  ConsumerState,
  FinalStates,
  ListFreshness,
  OpenQuestion,
  OpenRecords,
  OpenStatus,
  Overview
} from "./port/ListFreshness.ts"
export { recheckWords } from "./port/Recheck.ts"
export { scanDefaults } from "./port/ScanDefaults.ts"
export * as SinkReason from "./port/Sink.ts"
export {
  type Batch,
  type PassKind,
  type ScanKind,
  type ScanProgress,
  type ScanRequest,
  type ScanStart,
  type Session,
  Sink,
  SinkError
} from "./port/Sink.ts"
export * as PostgresUrl from "./postgres/PostgresUrl.ts"
export type { DecimalMark } from "./reconcile/Amounts.ts"
export { dayNumber, dayText, recordDay } from "./reconcile/Dates.ts"
export { type Entry, type EntryRow, openClasses } from "./reconcile/Entries.ts"
export { type EntryClass, entryClasses } from "./reconcile/Ledger.ts"
export type { ClassTotal, Totals } from "./reconcile/Match.ts"
export { dateOrders, decimalsOf, encodings, separatorNames } from "./reconcile/Notations.ts"
export type { MappedColumn, StatementNotation, StatementShape } from "./reconcile/ReadStatement.ts"
export { reconcile, type Reconciled, type ReconcileOptions } from "./reconcile/Reconcile.ts"
export { StatementError } from "./reconcile/StatementError.ts"
export { type OpenPersonal, openPersonal, whilePersonalDataChanges } from "./rule/OpenPersonal.ts"
export { keyCheck, pseudonym, pseudonymOnce } from "./rule/Pseudonym.ts"
export { type FieldAction, keepAll, type PersonalRule } from "./rule/Rule.ts"
export {
  bothRuleWords,
  type FieldChange,
  hasPseudonyms,
  keyCheckIn,
  nameOf as ruleNameOf,
  omittedIn,
  ruleWords
} from "./rule/StoredRule.ts"
export type { Criterion } from "./rule/Suppression.ts"
export type { PassSummary } from "./scan/Passes.ts"
export {
  type ListScanner,
  openScanner,
  type PartsOptions,
  type PassOutcome,
  scan,
  scanAll,
  scanAllParts,
  type ScanEvent,
  type ScanOptions,
  type ScanOutcome,
  scanParts,
  type ScanSummary
} from "./scan/Scan.ts"
export { makeSourceGuard, type SourceGuard } from "./scan/SourceGuard.ts"
export { requestOf } from "./sqlite/ChildRequest.ts"
export { ProcessStart, startAhead } from "./sqlite/FileQuery.ts"
export { lockFile } from "./sqlite/SqliteClient.ts"
export { type Dialect, sqliteDialect } from "./statement/Dialect.ts"
export { mentionsOf } from "./statement/Mentions.ts"
export { QueryError, type QueryResult } from "./statement/Statement.ts"
export { suggestion, type UnknownName, unknownName } from "./statement/Suggestion.ts"
export { type Table, type TableColumn, tables } from "./statement/Tables.ts"
export * as Stdout from "./stdout/Stdout.ts"
export { systemCodeOf } from "./stdout/Stdout.ts"
export { ageOf, freshnessOf, heldBackText, isFresh, overviewOf, skippedText } from "./store/Freshness.ts"
export {
  ageSince,
  finalStatesText,
  type OldestOpen,
  oldestOpen,
  openRecordsOf,
  openRecordsSql,
  undatedIn
} from "./store/OpenRecords.ts"
export type { Erasure, RedactedCounts } from "./store/RedactionStore.ts"
export type { ChangeRow, FullRow, Maintenance, QuarantinedRow, Reader } from "./store/Store.ts"
export { certainIn } from "./store/StoredFacts.ts"
export type { Cell } from "./text/Cell.ts"
export { namesForLogs, namesForTerminal, otherCode, storedCode } from "./text/FieldNames.ts"
export { type FieldPath, intended, pathText, readPath, readPaths, unquoted } from "./text/FieldPath.ts"
export { folded } from "./text/Folded.ts"
export { nearest } from "./text/Nearest.ts"
export { printable } from "./text/Printable.ts"
