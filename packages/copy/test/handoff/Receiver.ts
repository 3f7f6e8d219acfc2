/** A receiver of webhooks on this machine, and a sender to it. */
import { Lists } from "@payments/core"
import { listening } from "@payments/testkit/Listening"
import { type Array, Duration, Effect, Redacted, Result } from "effect"
import { randomBytes } from "node:crypto"
import { createServer } from "node:http"
import { handoffPolicy } from "../../src/handoff/Decision.ts"
import { makePost, type Post } from "../../src/handoff/Post.ts"
import { handOff, type SenderOptions } from "../../src/handoff/Sender.ts"
import { parseSigningKey, type SigningKey } from "../../src/handoff/Signature.ts"
import type { Maintenance } from "../../src/store/Store.ts"
import { consumer } from "./Subscribed.ts"

/**
 * How a receiver answers. `lost`: it stores the request and closes the connection. `late`: it stores the request and does
 * not answer. `endless`: it stores the request, and the body of its answer never ends. `recanted`: it stores the request
 * and refuses it.
 */
export type Reply = "ok" | "error" | "redirect" | "busy" | "refuse" | "gone" | "lost" | "late" | "endless" | "recanted"

const statuses: { readonly [reply in Reply]: number } = {
  ok: 200,
  error: 500,
  redirect: 307,
  busy: 429,
  refuse: 422,
  gone: 410,
  lost: 0,
  late: 0,
  endless: 202,
  recanted: 422
}

const stores: ReadonlySet<Reply> = new Set(["ok", "lost", "late", "endless", "recanted"])

/** A request that a receiver has stored. */
export interface Received {
  readonly id: string
  readonly body: string
  /** The numbers of its changes. */
  readonly numbers: ReadonlyArray<number>
  readonly headers: { readonly [name: string]: string }
}

/** Starts a receiver, which answers after a delay, or after a promise. Returns its URL and what it has stored, in order. */
export const receiver = Effect.fnUntraced(function*(
  replyTo: (numbers: ReadonlyArray<number>) => Reply,
  delayMs: () => number | Promise<void> = () => 0
) {
  const received: Array<Received> = []
  const paths: Array<string> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    paths.push(request.url ?? "")
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      const body = Buffer.concat(chunks).toString()
      const { changes }: { readonly changes: ReadonlyArray<{ readonly seq: number }> } = JSON.parse(body)
      const numbers = changes.map(({ seq }) => seq)
      const reply = replyTo(numbers)
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
      if (stores.has(reply)) received.push({ id: headers["webhook-id"] ?? "", body, numbers, headers })
      if (reply === "lost") request.socket.destroy()
      if (reply === "lost" || reply === "late") return
      const answer = () => {
        response.writeHead(statuses[reply], { location: "/elsewhere", "retry-after": "0" })
        if (reply === "endless") response.write("x")
        else response.end("no")
      }
      const delay = delayMs()
      if (typeof delay === "number") setTimeout(answer, delay)
      else void delay.then(answer)
    })
  })
  return { url: `http://127.0.0.1:${yield* listening(server)}/hook?a=b`, received, paths }
})

export const secretText = () => `whsec_${randomBytes(32).toString("base64")}`
export const keyOf = (text: string): SigningKey => Result.getOrThrow(parseSigningKey(Redacted.make(text)))

/** Makes a function that sends to a receiver. By default, no request times out only because the machine is busy. */
export const postTo = (url: string, timeout: Duration.Input = "1 minute") =>
  makePost({ url: new URL(url), timeout: Duration.fromInputUnsafe(timeout), allowPrivate: false })

/** Waits are so short that a receiver's faults do not take long. */
export const hasty = { ...handoffPolicy, firstWait: Duration.millis(1), longestWait: Duration.millis(20) }

/** Whatever is drawn, the next attempt is days away: a batch is given up in three days, and the last attempt is then. */
export const farAway = { firstWait: Duration.days(1_000_000), longestWait: Duration.days(1_000_000) }

/** Sends until nothing is left to send, or the hand-off stands still. */
export const sending = (
  maintenance: Maintenance,
  post: Post,
  { keys = [keyOf(secretText())], ...options }: Omit<Partial<SenderOptions>, "keys"> & {
    readonly keys?: Array.NonEmptyReadonlyArray<SigningKey>
  } = {}
) =>
  handOff({
    maintenance,
    consumer,
    lists: Lists.all,
    shape: { source: "north", isThin: false },
    policy: hasty,
    isFollowing: false,
    post,
    ...options,
    keys: Effect.succeed(keys)
  })
