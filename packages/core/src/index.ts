/** The public surface of `@payments/core`. */
export { BeforePage } from "./BeforePage.ts"
export * as Days from "./Days.ts"
export { membersOf, parseText, parseWithNumbers, rewriteItems } from "./ExactText.ts"
export { type Checked, type KeySource, largestKeyBytes, makeKeyFile } from "./internal/KeySource.ts"
export { recordProblem } from "./internal/PageDecoder.ts"
export type { SlowDown } from "./internal/RateLimiter.ts"
export type {
  BadRecordOption,
  ListOperation,
  ListOperations,
  ListOptions,
  ListQuery,
  StreamQuery
} from "./ListOperation.ts"
export * as Lists from "./Lists.ts"
export { merchantIdOf } from "./MerchantId.ts"
export * as Monotonic from "./Monotonic.ts"
export type { BadRecord, DecodedRecord, Page, PageRecord, RecordProblem } from "./Page.ts"
export { PaymentsApi } from "./PaymentsApi.ts"
export {
  type ConfigProblem,
  type Deadlines,
  PaymentsConfig,
  PaymentsConfigError,
  processSettings,
  type ProgressLimits,
  type Settings
} from "./PaymentsConfig.ts"
export { BearerKey, PaymentsContract } from "./PaymentsContract.ts"
export * as Reason from "./PaymentsError.ts"
export { type ErrorBody, PaymentsError } from "./PaymentsError.ts"
export { bitsOfOthers, type PlainFile, PlainFileError, readPlainFile } from "./PlainFile.ts"
export * as Position from "./Position.ts"
export * from "./Records.ts"
export { type ObservedRequest, RequestObserver } from "./RequestObserver.ts"
export * as RetryPolicy from "./RetryPolicy.ts"
