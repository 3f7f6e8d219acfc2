/** The public surface of `@payments/export`. */
export { generationSince } from "./BegunGeneration.ts"
export type { Cell } from "./Cell.ts"
export {
  BeyondLastChange,
  type ChangeBatch,
  changesAfter,
  ChangesLost,
  ChangesRemoved,
  describeGeneration,
  isConsumerName,
  moveConsumer,
  type MoveError,
  OtherGeneration,
  requireCurrent,
  requirePosition
} from "./Consumers.ts"
export * as Destination from "./Destination.ts"
export {
  comparedLists,
  type ComparedTotals,
  type ListComparison,
  type MemberDifference,
  type RecordDifference,
  recordDifferences,
  type TotalDifference,
  totalDifferences
} from "./Diff.ts"
export * as Doctor from "./Doctor.ts"
export { Certificate } from "./engine/Certificate.ts"
export {
  type Generation,
  type GenerationReason,
  isLost,
  type KnownChange,
  type Lineage,
  type Numbered
} from "./engine/Generations.ts"
export type { ChangeRow, FullRow, Maintenance, QuarantinedRow, Reader } from "./engine/Store.ts"
export { ExitCode, exitCodeOf, lowestExitCode } from "./ExitCode.ts"
export { namesForLogs, namesForTerminal } from "./FieldNames.ts"
export { replaceFile } from "./files/AtomicFile.ts"
export { Manifest } from "./files/Manifest.ts"
export { type FileDifference, verifyFiles } from "./files/VerifyFiles.ts"
export { folded } from "./Folded.ts"
export { ageOf, freshnessOf, heldBackText, isFresh, overviewOf } from "./Freshness.ts"
export type { ConsumerState, ListFreshness, Overview } from "./ListFreshness.ts"
export { makeSourceGuard, type SourceGuard } from "./MerchantGuard.ts"
export * as MetricDefinitions from "./MetricDefinitions.ts"
export { Metrics, observeSink } from "./Metrics.ts"
export type { PassSummary } from "./Passes.ts"
export { erase, type Erased, type EraseOptions, previewErasure } from "./personal/Erase.ts"
export { type OpenPersonal, openPersonal, whilePersonalDataChanges } from "./personal/OpenPersonal.ts"
export type { RedactionProgress } from "./personal/Redaction.ts"
export type { Erasure, RedactedCounts } from "./personal/RedactionStore.ts"
export {
  previewRewrite,
  rewrite,
  type RewriteOptions,
  type RewritePreview,
  type Rewritten
} from "./personal/Rewrite.ts"
export {
  bothRuleWords,
  type FieldAction,
  type FieldChange,
  keepAll,
  keyCheck,
  keyCheckIn,
  nameOf as ruleNameOf,
  type PersonalRule,
  pseudonym,
  pseudonymOnce,
  ruleWords
} from "./personal/Rule.ts"
export type { Criterion } from "./personal/Suppression.ts"
export { ChangesBeginLater, current, MissingRowsRemoved, pointAt, type PointInTime } from "./PointInTime.ts"
export { type ColumnValues, columnValues } from "./query/ColumnValues.ts"
export type { FieldCondition } from "./query/Conditions.ts"
export { type Excerpt, excerptTables, queryExcerpt } from "./query/Excerpt.ts"
export {
  type Comparison,
  findInApi,
  findInCopy,
  type Found,
  type Includes,
  type Match,
  searchedFields
} from "./query/Find.ts"
export { ProcessStart, query, QueryError, type QueryResult, startAhead } from "./query/Query.ts"
export * as Questions from "./query/Questions.ts"
export { suggestion, type UnknownName, unknownName } from "./query/Suggestion.ts"
export { type Table, type TableColumn, tables } from "./query/Tables.ts"
export { type HeldBack, prune, type Pruned, type Retention } from "./Retention.ts"
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
} from "./Scan.ts"
export { scanDefaults } from "./ScanDefaults.ts"
export * as SinkReason from "./Sink.ts"
export {
  type Batch,
  type PassKind,
  type ScanKind,
  type ScanProgress,
  type ScanRequest,
  type ScanSession,
  type ScanStart,
  Sink,
  SinkError
} from "./Sink.ts"
export { printable, systemCodeOf } from "./Stdout.ts"
export { type Difference, exportedLists, unfilledColumns, type Verified, verify, verifyAgainstApi } from "./Verify.ts"
export { writeProblem } from "./WriteProblem.ts"
