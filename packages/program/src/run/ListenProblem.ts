/** The messages of both programs about the addresses that they listen on. */
import { errorCode } from "@payments/copy"
import { isIP } from "node:net"

/** Whether only programs of this machine reach a server that listens on the address. A name can mean any address. */
export const isLoopback = (host: string): boolean =>
  host.toLowerCase() === "localhost" || (isIP(host) !== 0 && /^(127\.|(0*:)+0*1$)/.test(host))

/** An address at which a program cannot listen, and the flags that choose another one. */
export interface ListenProblem {
  readonly host: string
  readonly port: number
  readonly cause: unknown
  readonly hostFlag: string
  readonly portFlag: string
}

/** Describes the problem of the address and its remedy. */
export const listenProblem = ({ cause, host, hostFlag, port, portFlag }: ListenProblem): string => {
  const place = `${host} port ${port}`
  const otherPort = `choose another port (${portFlag}; 0 selects a free port)`
  const code = errorCode(cause) ?? "unknown"
  switch (code) {
    case "EADDRINUSE":
      return `${place} is in use: another program listens there (${code}). Stop it, or ${otherPort}.`
    case "EACCES":
      return `Listening on ${place} needs a privilege, as on all ports below 1024 (${code}): ${otherPort}.`
    case "EADDRNOTAVAIL":
      return `${place} cannot be listened on: this machine has no such address (${code}). Choose another one (${hostFlag}).`
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `${place} cannot be listened on: the host's name cannot be looked up (${code}). Choose another one (${hostFlag}).`
    default:
      return `${place} cannot be listened on (${code}). Choose another one (${hostFlag}, ${portFlag}).`
  }
}
