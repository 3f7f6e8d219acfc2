/** The addresses of proxies, which Node programs read from the environment. */

/** The variables that contain the address of a proxy. */
export const proxyVariables = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"] as const

/**
 * Returns what is wrong with the address of a proxy, or undefined if nothing is. Does not repeat the address, because
 * it may contain a password.
 */
export const proxyProblem = (address: string | undefined): string | undefined => {
  if (address === undefined || address === "") return undefined
  const url = URL.canParse(address) ? new URL(address) : undefined
  return url !== undefined && schemes.has(url.protocol) && url.hostname !== "" && isDecodable(url.username) &&
      isDecodable(url.password)
    ? undefined
    : "is not the address of a proxy, such as http://proxy.example.com:3128. It must begin with http://, https:// or socks5://; encode special characters in the user name and password: @ as %40"
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
