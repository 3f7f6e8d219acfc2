/**
 * The lists as promises and async iterables, for teams that do not use Effect. Runs on every platform with `fetch`. On
 * Node, `connectFromEnvironment` of `@payments/core/node` uses the tuned client and reads the settings from the
 * environment.
 */
export type { Abortable, PromiseApiOf } from "./api/PromiseAdapter.ts"
export { connect, type ConnectOptions, connectWith, type Payments } from "./api/PromiseApi.ts"
export { PaymentsConfigError } from "./config/PaymentsConfig.ts"
export type { BadRecord, DecodedRecord, Page, PageRecord, RecordProblem } from "./model/Page.ts"
export { PaymentsError } from "./model/PaymentsError.ts"
export * as Position from "./model/Position.ts"
export type { Invoice, PayinSource, PayoutRequest } from "./model/Records.ts"
