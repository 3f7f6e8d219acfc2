/**
 * The lists as promises and async iterables, for teams that don't write Effect. Runs wherever `fetch` does; on Node,
 * `connectFromEnvironment` of `@payments/core/node` brings the tuned client and reads the settings.
 */
export type { Abortable, PromiseApiOf } from "./internal/PromiseAdapter.ts"
export type { BadRecord, DecodedRecord, Page, PageRecord, RecordProblem } from "./Page.ts"
export { PaymentsConfigError } from "./PaymentsConfig.ts"
export { PaymentsError } from "./PaymentsError.ts"
export * as Position from "./Position.ts"
export { connect, type ConnectOptions, connectWith, type Payments } from "./PromiseApi.ts"
export type { Invoice, PayinSource, PayoutRequest } from "./Records.ts"
