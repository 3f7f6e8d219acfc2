/** Measures the memory of an export of 30 MB pages over HTTP, in a child process. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { rowsOf } from "@payments/testkit/Folder"
import { execFile } from "@payments/testkit/TestProcess"
import { Effect, FileSystem } from "effect"
import { once } from "node:events"
import { createServer } from "node:http"
import { join } from "node:path"

const pages = 10
const pageBytes = 30 * 1024 * 1024

/** Serves pages of 30 MB with the given number of records. */
const serverOf = (records: number) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const filler = Buffer.alloc(Math.floor(pageBytes / records), "x")
      const server = createServer((request, response) => {
        const page = Number(new URL(request.url ?? "", "http://server").searchParams.get("cursor") ?? 0)
        response.writeHead(200, { "content-type": "application/json" })
        for (let index = 0; index < records; index++) {
          response.write(`${index === 0 ? `{"items":[` : ","}{"id":"${page}-${index}","x":"`)
          response.write(filler)
          response.write(`"}`)
        }
        response.end(`],"cursor":${page + 1 < pages ? `"${page + 1}"` : null}}`)
      })
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      const address = server.address()
      return { server, url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}` }
    }),
    ({ server }) =>
      Effect.sync(() => {
        server.close()
        server.closeAllConnections()
      })
  )

const scanIn = (...args: ReadonlyArray<string>) =>
  Effect.promise(() =>
    new Promise<{ readonly megabytes: number; readonly codes: ReadonlyArray<number> }>((resolve, reject) =>
      execFile(
        process.execPath,
        // The flags with which the programs run.
        ["--max-semi-space-size=4", "--heap-growing-percent=60", join(import.meta.dirname, "MemoryChild.ts"), ...args],
        (error, stdout) => error === null ? resolve(JSON.parse(stdout)) : reject(error)
      )
    )
  )

describe("a scan of pages of 30 MB", () => {
  // 20 pages took 1,350 MB when the queue between reader and writer was bounded by pages instead of characters.
  it.live.each([1, 100])("keeps few of them in memory, with %s records each", (records) =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = join(yield* fs.makeTempDirectoryScoped(), "payments.db")
      const { url } = yield* serverOf(records)
      const { codes, megabytes } = yield* scanIn(url, `sqlite:${file}`, "invoices")
      assert.deepStrictEqual(codes, [0])
      assert.deepStrictEqual(rowsOf(file, "SELECT count(*) AS n FROM invoices"), [{ n: pages * records }])
      // The limit leaves room for other versions of Node and other machines.
      assert.isBelow(megabytes, 600)
    }).pipe(Effect.scoped, Effect.provide(NodeServices.layer)))
})
