/**
 * Keeps the page up to date: receives the changed fragments and puts them into the page. A hidden page is disconnected.
 * When the connection is lost, the page says so, because its numbers are then old.
 */
import type { Beat, Container, Message } from "../Message.ts"
import { applyFilter, startFilter } from "./Filter.ts"
import { morph, parse } from "./Morph.ts"

const root = document.documentElement
const byId = (id: string) => document.getElementById(id)

/** After this silence, the connection is lost. The worker sends an event every 10 s. */
const silenceMs = 25_000
const retryMs = 3_000
/** Screen readers hear a new summary at most this often. */
const speakMs = 10_000

let events: EventSource | undefined
let version = root.dataset["version"] ?? ""
let heardAt = performance.now()

const connect = () => {
  events?.close()
  heardAt = performance.now()
  const query = new URLSearchParams({ since: version })
  const { source } = root.dataset
  if (source !== undefined && source !== "") query.set("source", source)
  events = new EventSource(`/events?${query}`)
  events.addEventListener("message", ({ data, lastEventId }: MessageEvent<string>) => {
    version = lastEventId
    const message = JSON.parse(data) as Message // the worker's own format
    heard(message)
    apply(message)
  })
  events.addEventListener("beat", ({ data }: MessageEvent<string>) => heard(JSON.parse(data) as Beat)) // the same
  events.addEventListener("error", showLost)
}

const setLive = (state: "live" | "lost", text: string) => {
  const live = byId("live")
  const label = byId("live-text")
  if (live === null || label === null) return
  live.dataset["state"] = state
  root.dataset["live"] = state
  label.textContent = text
}

const heard = ({ at }: Beat) => {
  heardAt = performance.now()
  root.dataset["at"] = at.slice(11, 19)
  setLive("live", `Live, ${at.slice(11, 19)} UTC`)
}

const showLost = () => {
  const { at } = root.dataset
  setLive("lost", `No connection${at === undefined ? "" : ` since ${at} UTC`}, trying again`)
}

// The browser connects again by itself, unless the answer was no stream, such as an error of a proxy. If the network is
// gone, there is no error at all.
setInterval(() => {
  if (events === undefined) return
  const isSilent = performance.now() - heardAt > silenceMs
  if (isSilent) showLost()
  if (isSilent || events.readyState === EventSource.CLOSED) connect()
}, retryMs)

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return connect()
  events?.close()
  events = undefined
})

const apply = ({ build, changed, order }: Message) => {
  if (build !== root.dataset["build"]) return location.reload()
  const added = new Map<string, Element>()
  for (const { html, id } of changed) {
    const element = parse(html)
    if (element === undefined) continue
    const existing = byId(id)
    if (existing === null) added.set(id, element)
    else morph(existing, element)
  }
  if (order !== undefined) {
    for (const [container, ids] of Object.entries(order) as Array<[Container, ReadonlyArray<string>]>) { // of Message
      arrange(container, ids, added)
    }
  }
  document.dispatchEvent(new Event("page:changed"))
  applyFilter()
  showSummary()
}

/** Orders the elements, adds new ones and removes others. */
const arrange = (container: Container, ids: ReadonlyArray<string>, added: ReadonlyMap<string, Element>) => {
  const parent = byId(container)
  if (parent === null) return
  const focused = document.activeElement
  // The head of the table stays the first child.
  const head = parent.querySelector(":scope > thead")
  const wanted = new Set(ids)
  for (const child of Array.from(parent.children)) if (child !== head && !wanted.has(child.id)) child.remove()
  let next = head === null ? parent.firstElementChild : head.nextElementSibling
  for (const id of ids) {
    const element = added.get(id) ?? byId(id)
    if (element === null) continue
    if (element === next) next = next.nextElementSibling
    else parent.insertBefore(element, next)
  }
  // An element that is moved loses the focus.
  if (focused instanceof HTMLElement && focused.isConnected && focused !== document.activeElement) {
    focused.focus({ preventScroll: true })
  }
}

let spoken = byId("verdict")?.textContent ?? ""
let spokenAt = -speakMs

/** The browser's tab shows it, and screen readers hear it when it has changed. */
const showSummary = () => {
  const verdict = byId("verdict")?.textContent ?? ""
  document.title = `${verdict} · payments-worker`
  const tone = byId("summary-text")?.dataset["tone"] ?? "idle"
  document.querySelector("link[rel=icon]")?.setAttribute("href", `/assets/${root.dataset["build"] ?? ""}/${tone}.svg`)
  const now = performance.now()
  const region = byId("spoken")
  if (region === null || verdict === spoken || now - spokenAt < speakMs) return
  spoken = verdict
  spokenAt = now
  region.textContent = verdict
}

startFilter()
if (!document.hidden) connect()
