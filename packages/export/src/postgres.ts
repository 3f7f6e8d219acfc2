/** Connections to PostgreSQL, as `@payments/export/postgres`. Import it dynamically: it loads the driver. */
export { timeoutDetached } from "./engine/Timeouts.ts"
export {
  connect,
  iso,
  layerSqlClient,
  openSession,
  type PostgresClient,
  type Query,
  reasonOf,
  type Session,
  texts
} from "./postgres/PostgresClient.ts"
export { type PostgresSettings, settingsOf } from "./postgres/PostgresSettings.ts"
export { parse, type PostgresUrl } from "./postgres/PostgresUrl.ts"
export {
  copyToTable,
  copyToTablePromise,
  type TableCopied,
  TableCopyError,
  type TableCopyOptions
} from "./postgres/TableCopy.ts"
export { Unavailable } from "./Sink.ts"
