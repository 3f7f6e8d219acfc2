/** The memory that hostile pages take, measured in a process of its own. */
import { assert, describe, it } from "@effect/vitest"
import { scriptedServer } from "@payments/testkit/ScriptedServer"
import { execFile } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import type { ServerResponse } from "node:http"
import { join } from "node:path"

/** Reads one page in a child process. */
const readIn = (client: string, url: string) =>
  Effect.promise(() =>
    new Promise<{ readonly megabytes: number; readonly outcome: string }>((resolve, reject) =>
      execFile(
        process.execPath,
        ["--max-old-space-size=1024", join(import.meta.dirname, "MemoryChild.ts"), client, url],
        // If the process fails, for example out of memory, the test fails.
        (error, stdout) => error === null ? resolve(JSON.parse(stdout)) : reject(error)
      )
    )
  )

/** Writes a body in chunks of one byte each, as fast as the client reads. */
const inTinyChunks = (response: ServerResponse, chunks: number) => {
  const some = Buffer.from("1\r\n \r\n".repeat(10_000))
  const { socket } = response
  socket?.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
  const write = (left: number): void => {
    if (left <= 0) socket?.end("1d\r\n{\"items\":[],   \"cursor\":null}\r\n0\r\n\r\n")
    else socket?.write(some, () => write(left - 10_000))
  }
  write(chunks)
}

describe.each(["node", "fetch"])("the %s client takes little memory for", (client) => {
  it.live("a body in millions of chunks", () =>
    Effect.gen(function*() {
      const server = yield* scriptedServer((_, response) => inTinyChunks(response, 3_000_000))
      const { megabytes, outcome } = yield* readIn(client, server.url)
      assert.strictEqual(outcome, "0 records")
      assert.isBelow(megabytes, 300)
    }).pipe(Effect.scoped))

  it.live("a page of millions of records", () =>
    Effect.gen(function*() {
      const body = Buffer.from(`{"items":[${"{},".repeat(10_000_000)}{}],"cursor":null}`)
      const server = yield* scriptedServer((_, response) => response.writeHead(200).end(body))
      const { megabytes, outcome } = yield* readIn(client, server.url)
      assert.strictEqual(outcome, "MalformedResponse")
      assert.isBelow(megabytes, 400)
    }).pipe(Effect.scoped))
})
