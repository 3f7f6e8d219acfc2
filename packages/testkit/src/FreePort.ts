import { randomInt } from "node:crypto"
import { createServer } from "node:net"

/** The first port that the system assigns to outgoing connections (32768 on Linux, 49152 elsewhere). */
const firstEphemeralPort = 32_768

/** Returns a port of this machine that is free and that the system will not assign to an outgoing connection. */
export const freePort = async (): Promise<number> => {
  for (;;) {
    const port = randomInt(10_000, firstEphemeralPort)
    // oxlint-disable-next-line no-await-in-loop -- try one port after the other
    if (await isFree(port)) return port
  }
}

const isFree = (port: number) =>
  new Promise<boolean>((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)))
  })
