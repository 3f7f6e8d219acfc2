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
