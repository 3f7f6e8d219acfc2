/**
 * The lists as promises and async iterables, for teams that do not use Effect. Runs on every platform with `fetch`. On
 * Node, `connectFromEnvironment` of `@payments/core/node` uses the tuned client and reads the settings from the
 * environment.
 */
export type { Abortable, PromiseApiOf } from "./internal/PromiseAdapter.ts"
export type { BadRecord, DecodedRecord, Page, PageRecord, RecordProblem } from "./Page.ts"
export { PaymentsConfigError } from "./PaymentsConfig.ts"
export { PaymentsError } from "./PaymentsError.ts"
export * as Position from "./Position.ts"
export { connect, type ConnectOptions, connectWith, type Payments } from "./PromiseApi.ts"
export type { Invoice, PayinSource, PayoutRequest } from "./Records.ts"
