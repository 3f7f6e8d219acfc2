/** The addresses of proxies, which Node programs read from the environment. */

/** The variables that contain the address of a proxy. */
export const proxyVariables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] as const

/** Says what is wrong with the address of a proxy. Does not repeat the address, because it may contain a password. */
export const proxyProblem = (address: string | undefined): string | undefined => {
  if (address === undefined || address === "") return undefined
  const url = URL.canParse(address) ? new URL(address) : undefined
  return url !== undefined && schemes.has(url.protocol) && url.hostname !== "" && isDecodable(url.username) &&
      isDecodable(url.password)
    ? undefined
    : "is not the address of a proxy, such as http://proxy.example.com:3128: it begins with http:// or https://, and special characters in a user name or password are written as %40 and so on"
}

const schemes = new Set(["http:", "https:", "socks5:", "socks:"])

const isDecodable = (text: string): boolean => {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
