/** The public surface of `@payments/core`. */
export { PaymentsApi } from "./api/PaymentsApi.ts"
export { BearerKey, PaymentsContract } from "./api/PaymentsContract.ts"
export { type Checked, checkKey, type KeySource, largestKeyBytes, makeKeyFile } from "./config/KeySource.ts"
export {
  type ConfigProblem,
  type Deadlines,
  PaymentsConfig,
  PaymentsConfigError,
  processSettings,
  type ProgressLimits,
  ProvenParameters,
  type Settings
} from "./config/PaymentsConfig.ts"
export { bitsOfOthers, type PlainFile, PlainFileError, readPlainFile } from "./config/PlainFile.ts"
export { makePaces, type Paces } from "./listing/Paces.ts"
export { BeforePage } from "./model/BeforePage.ts"
export * as Days from "./model/Days.ts"
export type {
  BadRecordOption,
  ListOperation,
  ListOperations,
  ListOptions,
  ListQuery,
  StreamQuery
} from "./model/ListOperation.ts"
export * as Lists from "./model/Lists.ts"
export { merchantIdOf } from "./model/MerchantId.ts"
export * as Monotonic from "./model/Monotonic.ts"
export type { BadRecord, DecodedRecord, Page, PageRecord, RecordProblem } from "./model/Page.ts"
export * as Reason from "./model/PaymentsError.ts"
export { type ErrorBody, PaymentsError } from "./model/PaymentsError.ts"
export * as Position from "./model/Position.ts"
export * from "./model/Records.ts"
export { type ObservedRequest, RequestObserver } from "./model/RequestObserver.ts"
export type { SlowDown } from "./pace/RateLimiter.ts"
export * as RetryPolicy from "./pace/RetryPolicy.ts"
export { compareNumbers, exactNumber, isNumber } from "./page/ExactNumber.ts"
export { isJson, isJsonObject, parseText, parseWithNumbers } from "./page/JsonParse.ts"
export { membersOf, rewriteItems } from "./page/JsonText.ts"
export { recordProblem } from "./page/PageDecoder.ts"
