/** The messages of Effect Cluster, in the words of this program and without causes, which may contain statements. */
import { Effect, Logger } from "effect"

interface Message {
  readonly level: "Info" | "Warn"
  readonly text: string
  /** Whether the cluster's database can be used from now on. */
  readonly isHealthy?: boolean
  /** Whether the message means nothing while the database does not answer. */
  readonly needsHealth?: boolean
}

/** By the messages of Effect Cluster. */
const messages: { readonly [text: string]: Message } = {
  "Shard lock storage is unhealthy": {
    level: "Warn",
    text: "the cluster's database does not answer: the sources of this runner stop until it does",
    isHealthy: false
  },
  "Shard lock storage has recovered": {
    level: "Info",
    text: "the cluster's database answers again",
    isHealthy: true
  },
  "Shard lock storage is still unhealthy": { level: "Warn", text: "the cluster's database still does not answer" },
  "Could not release shards, retrying": { level: "Warn", text: "sources could not be handed over yet" },
  "Could not acquire/release shards": { level: "Warn", text: "sources could not be taken or handed over yet" },
  "Forced shard release is still pending; reacquisition is blocked until release completes": {
    level: "Warn",
    text: "this runner takes no source yet: its earlier ones have not ended",
    needsHealth: true
  },
  "No healthy runners available": { level: "Warn", text: "the cluster knows no healthy runner" }
}

/** The shortest time between two lines with the same message. */
const pauseMs = 60_000

/**
 * Writes the messages of Effect Cluster with `log`, each at most once per minute, except those about the database's
 * state.
 */
export const clusterLogger = (log: (effect: Effect.Effect<void>) => void): Logger.Logger<unknown, void> => {
  let isUp = true
  const lastAt = new Map<string, number>()
  return Logger.make(({ message }) => {
    const now = performance.now()
    const [given] = Array.isArray(message) ? message : [message]
    if (typeof given !== "string") return
    const { isHealthy, level, needsHealth, text }: Message = messages[given] ??
      { level: "Warn", text: `cluster: ${given}` }
    if (isHealthy !== undefined) {
      isUp = isHealthy
      lastAt.clear()
    } else if ((needsHealth === true && !isUp) || now - (lastAt.get(text) ?? -Infinity) < pauseMs) return
    lastAt.set(text, now)
    log(Effect.logWithLevel(level)(text))
  })
}
