// Receives hand-offs: verifies the exact bytes, and stores each change once. Node 22.20 or later: node receiver.ts
// SECRET has the keys (whsec_…, one per line). PORT and DATABASE are optional.
import { createHmac, timingSafeEqual } from "node:crypto"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { DatabaseSync } from "node:sqlite"

const { DATABASE = "received.db", PORT = "8790", SECRET = "" } = process.env
const texts = SECRET.split(/\s+/).filter(Boolean)
if (texts.length === 0 || !texts.every((key) => key.startsWith("whsec_"))) throw new Error("SECRET needs keys whsec_…")
const keys = texts.map((key) => Buffer.from(key.slice("whsec_".length), "base64"))
const mostBytes = 16_000_000 // A batch has at most max_bytes, unless one change is larger.
const db = new DatabaseSync(DATABASE)
db.exec(`PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS changes (
  generation TEXT, seq INTEGER, list TEXT, id TEXT, change TEXT, amount TEXT, PRIMARY KEY (generation, seq))`)
const insert = db.prepare("INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?, ?, ?)")

const isSigned = (headers: IncomingHttpHeaders, body: Buffer) => {
  const [id, time, given] = ["id", "timestamp", "signature"].map((name) => String(headers[`webhook-${name}`] ?? ""))
  if (!(Math.abs(Date.now() / 1000 - Number(time)) <= 300)) return false
  return keys.map((key) => createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest("base64"))
    .flatMap((own) => (given ?? "").split(" ").map((one) => [Buffer.from(one), Buffer.from(`v1,${own}`)] as const))
    .some(([one, own]) => one.length === own.length && timingSafeEqual(one, own))
}

const apply = (body: Buffer) => {
  // Integers become BigInts, because amounts may exceed 2^53.
  const exact = (_: string, value: unknown, { source = "" } = {}) => /^-?\d+$/.test(source) ? BigInt(source) : value
  const { changes, generation = "", list = "" } = JSON.parse(body.toString(), exact as (key: string) => unknown)
  db.exec("BEGIN IMMEDIATE")
  for (const { after, change, id, seq } of changes) {
    const { changes: inserted } = insert.run(generation, seq, list, id, change, after?.amount?.toString() ?? null)
    if (inserted === 1) {
      // A change that is no repeat: do what it means to you here, in the same transaction. After "erased", erase the record.
    }
  }
  db.exec("COMMIT")
}

createServer((request, response) => {
  if (!(Number(request.headers["content-length"]) <= mostBytes)) {
    return response.writeHead(413, { connection: "close" }).end()
  }
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
    const body = Buffer.concat(chunks)
    if (!isSigned(request.headers, body)) return response.writeHead(401).end()
    try {
      apply(body)
      response.writeHead(204).end() // only after the commit
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK")
      console.error(error instanceof Error ? error.name : "error")
      response.writeHead(500).end() // the sender repeats it
    }
  })
}).listen(Number(PORT), "127.0.0.1")
