/** Connections to PostgreSQL, as `@payments/export/postgres`. Import it dynamically: it loads the driver. */
export { connect, openSession, type PostgresClient, type Query, type Session } from "./postgres/PostgresClient.ts"
export { type PostgresSettings, settingsOf } from "./postgres/PostgresSettings.ts"
export { parse, type PostgresUrl } from "./postgres/PostgresUrl.ts"
export { Unavailable } from "./Sink.ts"
