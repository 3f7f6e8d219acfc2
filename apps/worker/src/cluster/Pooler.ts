/**
 * Recognizes a connection pooler that does not keep a session on one connection to the server. Runners hold advisory
 * locks, which belong to such a connection. Behind such a pooler nobody knows who holds them.
 */
import { SinkError, SinkReason } from "@payments/copy"
import { openSession, type PostgresSettings, type PostgresUrl, type Session, settingsOf } from "@payments/copy/postgres"
import { type CommandExit, usage } from "@payments/program"
import { Duration, Effect, Exit, Fiber, Option, type Scope } from "effect"
import { randomUUID } from "node:crypto"

/** How a pooler shares its connections to the server. */
export type Pooling = "transaction" | "statement"

/** How long a session waits while another one has the only connection of a small pool. */
const queueTimeout = Duration.seconds(2)

/** How long the whole check may take. */
const totalTimeout = Duration.seconds(15)

/**
 * How many attempts are made behind something that is known to be a pooler. In a large pool, both sessions of one
 * attempt may by chance keep their connections.
 */
const attempts = 20

/** Returns how the pooler before the server shares connections, or undefined if each session keeps its own. */
export const findPooling = Effect.fnUntraced(
  function*(settings: PostgresSettings): Effect.fn.Return<Pooling | undefined, SinkError, Scope.Scope> {
    const open = openSession(settings)
    const first = yield* open
    const mark = randomUUID()
    const [marked] = yield* first.query("SELECT set_config('payments.session', $1, false), pg_backend_pid() AS pid", [
      mark
    ])
    const own: Connection = { pid: Number(marked?.["pid"]), mark }
    const isDirect = own.pid === first.announcedPid
    for (let attempt = 0; attempt < (isDirect ? 1 : attempts); attempt++) {
      const found = yield* Effect.scoped(attemptOn({ first, own, open, isDirect }))
      if (found !== undefined) return found
    }
    return undefined
  },
  Effect.scoped,
  // A pool in session mode may have no connection left for the second session.
  (effect, { location }) =>
    Effect.timeoutOrElse(effect, {
      duration: totalTimeout,
      orElse: () => new SinkError({ location, reason: new SinkReason.Unavailable({ code: "no answer" }) })
    })
)

/** Fails if a pooler does not keep each session on its own connection. */
export const refusePooler = Effect.fnUntraced(function*(
  url: PostgresUrl
): Effect.fn.Return<void, SinkError | CommandExit> {
  const settings = yield* settingsOf(url)
  const pooling = yield* findPooling(settings)
  if (pooling === undefined) return
  return yield* usage(
    `cluster: a connection pooler in ${pooling} mode is in front of ${
      settings.location.replace(/\?.*$/, "")
    }. Statements of one session ran on ` +
      "different connections to the server, and runners hold their locks on one connection. Name the server's own port, or " +
      "a pool in session mode."
  )
})

/** The connection to the server that a session's statement has used. */
interface Connection {
  readonly pid: number
  readonly mark: string | null
}

const connectionOf = ({ query }: Session): Effect.Effect<Connection, SinkError> =>
  Effect.map(
    query("SELECT pg_backend_pid() AS pid, current_setting('payments.session', true) AS mark"),
    ([row]) => ({ pid: Number(row?.["pid"]), mark: typeof row?.["mark"] === "string" ? row["mark"] : null })
  )

/**
 * Opens a transaction in a second session, and returns how a pooler is seen to share the connection of the first one.
 */
const attemptOn = Effect.fnUntraced(function*(
  { first, isDirect, open, own }: {
    readonly first: Session
    readonly own: Connection
    readonly open: Effect.Effect<Session, SinkError, Scope.Scope>
    /** Whether no pooler is known to be between. */
    readonly isDirect: boolean
  }
): Effect.fn.Return<Pooling | undefined, SinkError, Scope.Scope> {
  const second = yield* open
  const shared = (yield* connectionOf(second)).pid === own.pid
  const canBegin = yield* Effect.result(second.query("BEGIN"))
  if (canBegin._tag === "Failure") {
    // Only a pooler refuses this statement of a session that has just run another one.
    if (shared || !isDirect) return "statement"
    return yield* canBegin.failure
  }
  if (shared) return "transaction"
  // The transaction occupies the connection that a pooler lends it, which is the one that it got back last.
  yield* second.query("SELECT 1")
  const answer = yield* Effect.forkScoped(connectionOf(first))
  const answerInTime = Effect.timeoutOption(Fiber.await(answer), queueTimeout)
  let isKeptWaiting = Option.isNone(yield* answerInTime)
  if (isKeptWaiting) {
    // A slow server lets both sessions wait. So the time counts again from an answer to the second one.
    yield* second.query("SELECT 1")
    // A pooler may end a session that has waited for too long.
    isKeptWaiting = Option.match(yield* answerInTime, { onNone: () => true, onSome: Exit.isFailure })
  }
  yield* second.query("ROLLBACK")
  // A server has no reason to let the first session wait for the transaction of the second one.
  if (isKeptWaiting) return "transaction"
  const now = yield* Fiber.join(answer)
  return now.pid !== own.pid || now.mark !== own.mark ? "transaction" : undefined
})
