/** What the system says of a connection that failed. */
import { type Reason, Timeout, Transport } from "../PaymentsError.ts"

/** The first system code along an error's chain of causes, such as `ECONNRESET`; messages may hold the address. */
export const systemCode = (error: unknown): string | undefined => {
  let current = error
  for (let depth = 0; depth < 8 && typeof current === "object" && current !== null; depth++) {
    if ("code" in current && typeof current.code === "string" && /^[A-Z0-9_]{1,64}$/.test(current.code)) {
      return current.code
    }
    current = "errors" in current && Array.isArray(current.errors) && current.errors.length > 0
      ? current.errors[0]
      : "reason" in current
      ? current.reason
      : "cause" in current
      ? current.cause
      : undefined
  }
  return undefined
}

/** Why no answer came, from the codes that Node and undici put on their errors. Their messages may hold the address. */
export const connectionReason = (error: unknown): Reason => {
  const code = systemCode(error)
  if (code === undefined) return new Transport({ kind: "other" })
  if (code === "UND_ERR_CONNECT_TIMEOUT" || code === "ETIMEDOUT") return new Timeout({ phase: "connect" })
  if (code === "ECONNREFUSED") return new Transport({ kind: "refused", code })
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return new Transport({ kind: "nameNotFound", code })
  if (code === "ECONNRESET" || code === "EPIPE" || code === "UND_ERR_SOCKET") {
    return new Transport({ kind: "reset", code })
  }
  if (/CERT|TLS|SSL|VERIFY|SIGNATURE/.test(code)) return new Transport({ kind: "tls", code })
  return new Transport({ kind: "other", code })
}
