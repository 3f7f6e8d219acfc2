/** A receiver of webhooks, and a bare loop that sends the same requests again. */
import * as Listening from "@payments/testkit/Listening"
import { createHmac } from "node:crypto"
import { once } from "node:events"
import { appendFileSync, readFileSync } from "node:fs"
import { Agent, createServer, type IncomingHttpHeaders, type IncomingMessage, request } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { WorkloadResult } from "../harness/WorkloadResult.ts"

/** The key of all senders. */
export const secret = Buffer.alloc(32, 7)

/** A request as it arrived, which a bare loop sends again. */
interface Captured {
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

interface Body {
  readonly changes: ReadonlyArray<{ readonly seq: number; readonly id: string; readonly after: unknown }>
}

export interface ReceiverOptions {
  readonly folder: string
  /** Whether it verifies each batch, and applies it in a transaction on disk. Otherwise it answers at once. */
  readonly isApplying: boolean
  /** A file for the requests. */
  readonly capture?: string | undefined
}

/** Listens on a free port of this machine. Returns the address. */
export const receive = async ({ capture, folder, isApplying }: ReceiverOptions): Promise<string> => {
  const apply = isApplying ? makeApply(join(folder, "receiver.db")) : undefined
  const server = createServer({ keepAliveTimeout: 600_000 }, (message, response) => {
    void bodyOf(message).then((body) => {
      const isAccepted = apply?.(message.headers, body) ?? true
      const captured: Captured = { headers: message.headers, body }
      if (capture !== undefined) appendFileSync(capture, `${JSON.stringify(captured)}\n`)
      response.writeHead(isAccepted ? 204 : 401).end()
    })
  })
  const { port } = await Listening.listen(server)
  return `http://127.0.0.1:${port}`
}

export const bodyOf = async (message: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  message.on("data", (chunk: Buffer) => chunks.push(chunk))
  await once(message, "end")
  return Buffer.concat(chunks).toString()
}

/** Returns a function that applies a batch once, as `docs/handoff.md` recommends. */
const makeApply = (file: string) => {
  const db = new DatabaseSync(file)
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, text TEXT);
    CREATE TABLE IF NOT EXISTS applied (path TEXT PRIMARY KEY, seq INTEGER NOT NULL)`)
  const upsert = db.prepare("INSERT OR REPLACE INTO records VALUES (?, ?)")
  const last = db.prepare("SELECT seq FROM applied")
  const move = db.prepare("INSERT OR REPLACE INTO applied VALUES ('one', ?)")
  return (headers: IncomingHttpHeaders, body: string): boolean => {
    const content = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body}`
    const signature = `v1,${createHmac("sha256", secret).update(content).digest("base64")}`
    if (headers["webhook-signature"] !== signature) return false
    const { changes }: Body = JSON.parse(body)
    db.exec("BEGIN IMMEDIATE")
    const { seq: applied } = last.get() ?? { seq: 0 }
    for (const { after, id, seq } of changes) if (seq > Number(applied)) upsert.run(id, JSON.stringify(after))
    move.run(Math.max(Number(applied), changes.at(-1)?.seq ?? 0))
    db.exec("COMMIT")
    return true
  }
}

/** Reads captured requests, and returns a loop that sends them, one after the other over one connection. */
export const bareLoop = (file: string) => {
  const requests = readFileSync(file, "utf8").trimEnd().split("\n").map((line) => {
    const { body, headers }: Captured = JSON.parse(line)
    return { headers, body: Buffer.from(body), changes: body.split(`{"seq":`).length - 1 }
  })
  return async (url: string): Promise<WorkloadResult> => {
    const agent = new Agent({ keepAlive: true })
    let records = 0
    for (const { body, changes, headers } of requests) {
      const sent = request(new URL("/bare", url), { agent, method: "POST", headers })
      sent.end(body)
      const [response]: ReadonlyArray<IncomingMessage> = await once(sent, "response") as [IncomingMessage] // its type
      response?.resume()
      if (response?.statusCode === 204) records += changes
    }
    agent.destroy()
    return { records, sum: 0, characters: 0 }
  }
}
