import { randomInt } from "node:crypto"
import { createServer } from "node:net"

/** From here on, systems give ports to connections that go out (32768 on Linux, 49152 elsewhere). */
const ephemeral = 32_768

/** A port of this machine that nobody listens on, and that none of the tests' many connections will be given either. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = randomInt(10_000, ephemeral)
    // oxlint-disable-next-line no-await-in-loop -- one after the other, until one is free
    if (await isFree(port)) return port
  }
}

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })
