/** The addresses of proxies, as Node programs take them from the environment. */

/** The variables that name a proxy. */
export const proxyVariables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] as const

/** What is wrong with the address of a proxy, without repeating it: it may hold a password. */
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
