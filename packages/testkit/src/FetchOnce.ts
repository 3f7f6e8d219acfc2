/**
 * Fetches over a connection of its own. A server closes a kept connection after 5 s, which may be the moment of the next
 * request if the test did not run meanwhile.
 */
export const fetchOnce = (url: string): Promise<Response> => fetch(url, { headers: { connection: "close" } })
