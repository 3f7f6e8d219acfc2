/** Connections to PostgreSQL, as `@payments/copy/postgres`. Import it dynamically: it loads the driver. */
export {
  copyToTable,
  copyToTablePromise,
  type TableCopied,
  TableCopyError,
  type TableCopyOptions
} from "./ask/TableCopy.ts"
export { Unavailable } from "./port/Sink.ts"
export { timeoutDetached } from "./port/Timeouts.ts"
export { accessProblem } from "./postgres/PostgresAccess.ts"
export {
  connect,
  iso,
  layerSqlClient,
  openSession,
  type PostgresClient,
  type ProbeSettings,
  type Query,
  reasonOf,
  type Session,
  textArray
} from "./postgres/PostgresClient.ts"
export { rateLimitTable } from "./postgres/PostgresSchema.ts"
export { type PostgresSettings, settingsOf } from "./postgres/PostgresSettings.ts"
export { parse, type PostgresUrl } from "./postgres/PostgresUrl.ts"
export { quoted } from "./sql/SqlStatement.ts"
export type { Row } from "./store/StoredRows.ts"
