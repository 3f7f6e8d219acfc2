/** The behaviours of faults of answers. Each wraps the function that creates the answer. */
import { byName } from "../model/Lists.ts"
import { membersOf } from "../page/JsonText.ts"
import type { FaultOf, replyFaults } from "./Fault.ts"
import type { Behaviours } from "./FaultContext.ts"
import { json, type Reply } from "./Reply.ts"
import { hash32 } from "./SeededRandom.ts"

export const replyBehaviours: Behaviours<keyof typeof replyFaults, () => Reply, Reply> = {
  latency: ({ jitterMs = 0, ms }, { chance }) => (answer) => {
    const reply = answer()
    return { ...reply, delayMs: (reply.delayMs ?? 0) + ms + chance(0) * jitterMs }
  },
  status: ({ retryAfter, retryAfterDate, shape = "code", status }, { now, query }) => () => {
    const reply = errorBody(shape, status, query)
    const header = retryAfterDate === undefined ? retryAfter : new Date(now + retryAfterDate * 1000).toUTCString()
    return header === undefined ? reply : withHeader(reply, "retry-after", String(header))
  },
  rateLimit: ({ burst = 1, headers = false, perSecond }, { buckets, key, now }) => (answer) => {
    const owner = hash32(key)
    const bucket = buckets.get(owner) ?? { tokens: burst, at: now }
    const tokens = Math.min(burst, bucket.tokens + (now - bucket.at) / 1000 * perSecond)
    const left = tokens >= 1 ? tokens - 1 : tokens
    buckets.set(owner, { tokens: left, at: now })
    const reset = String(Math.ceil(Math.max(0, 1 - left) / perSecond))
    const named = (reply: Reply): Reply =>
      headers
        ? withHeader(withHeader(reply, "ratelimit-remaining", String(Math.floor(left))), "ratelimit-reset", reset)
        : reply
    return named(tokens >= 1 ? answer() : withHeader(errorBody("code", 429, ""), "retry-after", reset))
  },
  reset: () => (answer) => ({ ...answer(), truncation: { after: "nothing", connection: "reset" } }),
  close: () => (answer) => ({ ...answer(), truncation: { after: "nothing", connection: "closed" } }),
  truncate: ({ bytes, framing = "length" }) => (answer) => {
    const reply = answer()
    const after = bytes ?? Math.floor(reply.body.length / 2)
    return { ...reply, sized: framing === "length", truncation: { after, connection: "closed" } }
  },
  stall: ({ at }) => (answer) => {
    const reply = answer()
    const after = at === "headers" ? "nothing" : Math.floor(reply.body.length / 2)
    return { ...reply, truncation: { after, connection: "open" } }
  },
  drip: ({ bytes, everyMs }) => (answer) => ({ ...answer(), drip: { bytes, everyMs } }),
  compress: ({ encoding }) => (answer) => ({ ...answer(), encoding }),
  bomb: ({ encoding, mebibytes }, { list }) => () => ({
    ...json(`{"${byName[list].page.items}":[`),
    encoding,
    padding: mebibytes
  }),
  body: ({ contentType = "text/html", status = 200, text }) => () => ({
    status,
    headers: { "content-type": contentType },
    body: text
  }),
  contentType: ({ value }) => (answer) => withHeader(answer(), "content-type", value),
  header: ({ name, value }) => (answer) => withHeader(answer(), name, value),
  clock: ({ aheadSeconds }, { now }) => (answer) =>
    withHeader(answer(), "date", new Date(now + aheadSeconds * 1000).toUTCString()),
  etag: ({ conditional = false }, { ifNoneMatch = "" }) => (answer) => {
    const reply = answer()
    const etag = `"${hash32(reply.body).toString(16)}"`
    // RFC 9110 §13.1.2: a list of tags, each of which may be weak, or an asterisk for any.
    const isUnchanged = conditional && reply.status === 200 &&
      ifNoneMatch.split(",").some((tag) => ["*", etag, `W/${etag}`].includes(tag.trim()))
    return isUnchanged
      ? { status: 304, headers: { etag }, body: "", delayMs: reply.delayMs }
      : withHeader(reply, "etag", etag)
  },
  redirect: ({ location, status = 302 }) => () => ({ status, headers: { location }, body: "" }),
  cursorExpires: ({ cursorMs, cursorPages, status = 400 }, { now, request, history }) => (answer) => {
    if (request.cursor === undefined) return answer()
    const issued = history.issued.get(request.cursor)
    const stale = cursorMs !== undefined && (issued === undefined || now - issued > cursorMs)
    const spent = cursorPages !== undefined && history.pages > cursorPages
    return stale || spent ? json(`{"code":"CURSOR_EXPIRED"}`, status) : answer()
  },
  envelope: ({ duplicate = false, member, name, value }) => (answer) => {
    const reply = answer()
    if (reply.status !== 200) return reply
    const members: ReadonlyArray<readonly [string, string]> = Array.from(membersOf(reply.body))
    const own = members.find(([key]) => key === member)?.[1]
    const text = value ?? (name === undefined ? undefined : own)
    const others = duplicate ? members : members.filter(([key]) => key !== member)
    const added: typeof members = text === undefined ? [] : [[name ?? member, text]]
    const changed = [...others, ...added].map(([key, memberText]) => `${JSON.stringify(key)}:${memberText}`)
    return { ...reply, body: `{${changed.join(",")}}` }
  }
}

const withHeader = (reply: Reply, name: string, value: string): Reply => ({
  ...reply,
  headers: { ...reply.headers, [name]: value }
})

/**
 * Returns an error answer. The document specifies no shape (§7), so there are six. Each repeats the query, as real
 * services do.
 */
export const errorBody = (shape: NonNullable<FaultOf<"status">["shape"]>, status: number, query: string): Reply => {
  const code = `STATUS_${status}`
  const detail = `cannot answer ${query}`
  // These statuses have no body (RFC 9110 §15.3.5, §15.3.6, §15.4.5).
  if ([204, 205, 304].includes(status)) return { status, headers: {}, body: "" }
  return {
    code: json(JSON.stringify({ code, message: detail }), status),
    nested: json(JSON.stringify({ error: { code, message: detail } }), status),
    list: json(JSON.stringify({ errors: [{ code, detail }] }), status),
    problem: {
      status,
      headers: { "content-type": "application/problem+json" },
      body: JSON.stringify({ type: "about:blank", title: code, status, detail })
    },
    text: { status, headers: { "content-type": "text/plain" }, body: detail },
    html: { status, headers: { "content-type": "text/html" }, body: `<html><body>${detail}</body></html>` }
  }[shape]
}
