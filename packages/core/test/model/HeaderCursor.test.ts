/** Tests that the entry of a list alone says where its answers have the cursor. */
import { assert, describe, it } from "@effect/vitest"
import { temporaryFolder } from "@payments/testkit/Folder"
import { execFileSync } from "@payments/testkit/TestProcess"
import { Effect } from "effect"
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const core = join(import.meta.dirname, "../..")

/** Serves invoices over a socket, and reads them with both clients. Prints the ids and the headers of each page. */
const script = `
  import { Effect, Layer, Redacted, Stream } from "effect"
  import { FetchHttpClient } from "effect/http"
  import { createServer } from "node:http"
  import { Lists, PaymentsApi, PaymentsConfig } from "./src/index.ts"
  import { layerHttpClient } from "./src/node.ts"
  import { makeListService, MemoryList } from "./src/testing.ts"
  const invoices = MemoryList.recordsOf([1, 2, 3, 4, 5].map((index) => ({ id: "inv_" + index })))
  const service = makeListService({
    servers: Lists.map((list) => MemoryList.serve(list, invoices)),
    accepts: () => true
  }, 0)
  const bodies = []
  const server = createServer((request, response) => {
    const { reply } = service.answer({ target: request.url, authorization: request.headers.authorization, now: 0 })
    bodies.push(reply.body)
    response.writeHead(reply.status, reply.headers).end(reply.body)
  })
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve))
  const config = Layer.effect(PaymentsConfig, PaymentsConfig.fromSettings({
    PAYMENTS_BASE_URL: "http://127.0.0.1:" + server.address().port,
    PAYMENTS_API_KEY: Redacted.make("key")
  }))
  const read = ({ invoices }) => Stream.runCollect(Stream.map(invoices.pages({ limit: 2 }), ({ headers, items, next }) =>
    [items.map(({ id }) => id), Object.keys(headers).filter((name) => name.includes("cursor")), next !== null]))
  const results = []
  for (const client of [layerHttpClient, FetchHttpClient.layer]) {
    const api = PaymentsApi.layer.pipe(Layer.provide(client), Layer.provide(config))
    results.push(await Effect.runPromise(Effect.provide(PaymentsApi.use(read), api)))
  }
  server.close()
  console.log(JSON.stringify([results, bodies.some((body) => body.includes("cursor"))]))`

/** Runs the script over a copy of the sources in which the invoices have this layout. */
const readWith = (folder: string, layout: string): unknown => {
  for (const part of ["src", "package.json"]) cpSync(join(core, part), join(folder, part), { recursive: true })
  symlinkSync(join(core, "node_modules"), join(folder, "node_modules"))
  const lists = join(folder, "src/model/Lists.ts")
  const [before = "", entry = ""] = readFileSync(lists, "utf8").split("  invoices: define")
  writeFileSync(lists, `${before}  invoices: define${entry.replace("page: documentedPage", `page: ${layout}`)}`)
  return JSON.parse(
    execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: folder, encoding: "utf8" })
  )
}

const layouts = {
  "ends without one": `{ items: "data", cursor: { in: "header", name: "x-next-cursor" }, end: undefined }`,
  "ends with an empty one": `{ items: "data", cursor: { in: "header", name: "x-next-cursor" }, end: "" }`
}

describe.each(Object.entries(layouts))("a list with its cursors in a header, which %s", (_, layout) => {
  it.live("is read to its end, and shows no cursor among the headers of a page", () =>
    Effect.gen(function*() {
      const pages = [
        [["inv_1", "inv_2"], [], true],
        [["inv_3", "inv_4"], [], true],
        [["inv_5"], [], false]
      ]
      assert.deepStrictEqual(readWith(yield* temporaryFolder, layout), [[pages, pages], false])
    }).pipe(Effect.scoped))
})
