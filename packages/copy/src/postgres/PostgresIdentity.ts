/** Which schema of which server a URL names. Only reads the server's catalog. */
import { Effect } from "effect"
import type { SinkError } from "../port/Sink.ts"
import { connect } from "./PostgresClient.ts"
import { settingsOf } from "./PostgresSettings.ts"
import type { PostgresUrl } from "./PostgresUrl.ts"

/** The moment when the server started, in microseconds, distinguishes servers. No privilege is needed to read it. */
const query = `SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
  (SELECT oid FROM pg_database WHERE datname = current_database())) AS place`

/** Returns a text that is the same for two URLs of one schema of one running server. */
export const identityOf = (url: PostgresUrl): Effect.Effect<string, SinkError> =>
  Effect.scoped(Effect.gen(function*() {
    const client = yield* connect(yield* settingsOf(url))
    const [row] = yield* client.once(query)
    return JSON.stringify(["postgres", String(row?.["place"]), url.schema])
  }))
