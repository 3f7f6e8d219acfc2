/**
 * A package registry for tests: stores what `npm publish` sends, and serves it to any npm client. It has only the scope
 * `@payments`; other packages come from the registry that npm is configured with.
 */
import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { text } from "node:stream/consumers"

/** The body of `npm publish`, and the answer to a reader. */
interface Packument {
  readonly name: string
  readonly "dist-tags": Readonly<Record<string, string>>
  readonly versions: Readonly<Record<string, { readonly dist: { readonly tarball: string } }>>
  readonly _attachments?: Readonly<Record<string, { readonly data: string }>>
}

/** A running registry. */
export interface Registry {
  /** Writes an `.npmrc` into a folder, so that npm uses this registry for the scope. */
  readonly use: (folder: string) => void
  readonly close: () => void
}

/** Starts a registry on a free port of this machine. */
export const startRegistry = async (): Promise<Registry> => {
  const packages = new Map<string, Packument>()
  const tarballs = new Map<string, Buffer>()

  const publish = async (name: string, request: IncomingMessage, response: ServerResponse) => {
    const { _attachments = {}, ...sent }: Packument = JSON.parse(await text(request))
    const known = packages.get(name)
    if (Object.keys(sent.versions).some((version) => known?.versions[version] !== undefined)) {
      return response.writeHead(409).end(`{"error":"this version is published already"}`)
    }
    for (const [file, { data }] of Object.entries(_attachments)) tarballs.set(file, Buffer.from(data, "base64"))
    packages.set(name, {
      ...sent,
      "dist-tags": { ...known?.["dist-tags"], ...sent["dist-tags"] },
      versions: { ...known?.versions, ...sent.versions }
    })
    return response.writeHead(201).end(`{"ok":true}`)
  }

  const server = createServer((request, response) => {
    const [path = ""] = (request.url ?? "").split("?")
    const [name = "", file] = decodeURIComponent(path.slice(1)).split("/-/")
    if (request.method === "PUT") return void publish(name, request, response)
    const found = file === undefined ? packages.get(name) : tarballs.get(file)
    if (found === undefined) return void response.writeHead(404).end(`{"error":"not found"}`)
    response.end(Buffer.isBuffer(found) ? found : JSON.stringify(found))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo // of a server that listens on TCP
  const address = `//127.0.0.1:${port}/`
  return {
    use: (folder) =>
      writeFileSync(join(folder, ".npmrc"), `@payments:registry=http:${address}\n${address}:_authToken=test\n`),
    close: () => {
      server.close()
      server.closeAllConnections()
    }
  }
}
