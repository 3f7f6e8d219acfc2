/**
 * The state of the page for all browsers. Once per second, one fiber takes a snapshot and renders it once per view. The
 * message about what has changed since a version is encoded once for all browsers with that version. A browser takes a
 * message when it has received the one before, so a slow one skips states. Without browsers nothing is rendered.
 */
import { Monotonic } from "@payments/core"
import { Clock, Context, Deferred, Effect, Latch, Layer, Stream } from "effect"
import { randomUUID } from "node:crypto"
import { Status } from "../state/Status.ts"
import type { Snapshot } from "../state/StatusSnapshot.ts"
import { Assets } from "./Assets.ts"
import { document } from "./Document.ts"
import type { Beat, Container, Fragment, Message } from "./Message.ts"
import { fragments } from "./View.ts"

/** The time between two updates of the views. A browser gets at most one message per update. */
const pauseMs = 1000

/** Without a change, a browser gets a message after this time, so that it notices a connection that is gone. */
const heartbeatMs = 10_000

/** The messages of one version that are kept. Almost all browsers have the last version or none. */
const mostMessages = 4

export const mostClients = 200

/** The fragment, with the version of its last change. */
interface Sent extends Fragment {
  readonly version: number
}

/** A snapshot, with the monotonic time when it was taken. */
interface Taken {
  readonly snapshot: Snapshot
  readonly takenMs: number
}

/** The page of all sources, or of one. */
interface View {
  snapshot: Snapshot | undefined
  version: number
  /** Whether the source of the view was removed. */
  isGone: boolean
  order: ReadonlyArray<Sent>
  orderVersion: number
  clients: number
  /** The encoded messages since older versions, at most {@link mostMessages}. Cleared with each version. */
  readonly messages: Map<number, Uint8Array>
  /** Done when the next version is there, or when a heartbeat is due. All browsers that have everything wait for it. */
  next: Deferred.Deferred<void>
  /** When `next` was last done, monotonic. */
  sentMs: number
}

export class Feed extends Context.Service<Feed, {
  /** The whole page of all sources, or of the one with this name. Undefined if there is no such source. */
  readonly page: (source: string | undefined) => Effect.Effect<string | undefined>
  /**
   * The encoded messages since the version, which the page or the last message had. Undefined if there are too many
   * browsers. If there is no such source, the only message makes the browser load the page again.
   */
  readonly events: (source: string | undefined, since: string) => Effect.Effect<Stream.Stream<Uint8Array> | undefined>
}>()("@payments/worker/Feed") {
  static readonly layer = Layer.effect(
    Feed,
    Effect.gen(function*() {
      const status = yield* Status
      const { build } = yield* Assets
      const clock = yield* Clock.Clock
      /** Versions of another process of the worker mean nothing here. */
      const sender: Sender = { process: randomUUID().slice(0, 8), build }
      const views = new Map<string | undefined, View>()
      const clients = makeClients()
      let latest: Taken | undefined

      const take = Effect.map(status.current, (snapshot) => {
        latest = { snapshot, takenMs: Monotonic.millisUnsafe(clock) }
        for (const [name, view] of views) if (view.clients === 0 && !has(snapshot, name)) views.delete(name)
        return latest
      })
      /** A snapshot that is at most as old as the pause, so that many requests cost as much as one. */
      const recent = Effect.suspend(() =>
        latest !== undefined && Monotonic.millisUnsafe(clock) - latest.takenMs < pauseMs ? Effect.succeed(latest) : take
      )

      const viewOf = (name: string | undefined, current: Taken): View | undefined => {
        const view = views.get(name) ?? (has(current.snapshot, name) ? emptyView() : undefined)
        if (view === undefined) return undefined
        views.set(name, view)
        update(view, name, current)
        return view.isGone ? undefined : view
      }

      const updateViews = Effect.map(take, (current) => {
        for (const [name, view] of views) {
          if (view.clients === 0) continue
          update(view, name, current)
          if (current.takenMs - view.sentMs >= heartbeatMs) wake(view, current.takenMs)
        }
      })
      yield* Effect.forkScoped(Effect.forever(
        Effect.andThen(clients.untilSome, updateViews).pipe(
          // A bug in the page must not end its updates for ever: it may be able to show the next state.
          Effect.catchDefect((defect) => Effect.logError("the page cannot show the state", defect)),
          Effect.andThen(Effect.sleep(pauseMs))
        )
      ))

      return Feed.of({
        page: Effect.fnUntraced(function*(source) {
          const current = yield* recent
          const view = viewOf(source, current)
          if (view === undefined) return undefined
          return document({
            build,
            version: idOf(sender, view),
            source,
            snapshot: current.snapshot,
            fragments: view.order
          })
        }),
        events: Effect.fnUntraced(function*(source, since) {
          const view = viewOf(source, yield* recent)
          if (view === undefined) return Stream.succeed(encode(`data: ${JSON.stringify(unknownSource)}\n\n`))
          if (clients.areTooMany()) return undefined
          return Stream.unwrap(
            Effect.as(clients.connection(view), messages(sender, view, since))
          )
        })
      })
    })
  )
}

const makeClients = () => {
  const hasClients = Latch.makeUnsafe()
  let count = 0
  return {
    untilSome: hasClients.await,
    areTooMany: () => count >= mostClients,
    /** A browser that watches a view, until the scope closes. */
    connection: (view: View) =>
      Effect.acquireRelease(
        Effect.sync(() => {
          view.clients++
          if (++count === 1) hasClients.openUnsafe()
        }),
        () =>
          Effect.sync(() => {
            view.clients--
            if (--count === 0) hasClients.closeUnsafe()
          })
      )
  }
}

/** The process that sends the messages, and its build of the page. */
interface Sender {
  readonly process: string
  readonly build: string
}

const idOf = ({ process }: Sender, { version }: View) => `${process}.${version}`

const messageSince = (sender: Sender, view: View, since: number): Uint8Array => {
  const known = view.messages.get(since)
  if (known !== undefined) return known
  const message: Message = {
    // A page of a source that was removed loads again, and so becomes the page of all sources.
    build: view.isGone ? "" : sender.build,
    at: view.snapshot?.at ?? "",
    ...view.orderVersion > since && { order: orderOf(view) },
    changed: view.order.filter(({ version }) => version > since).map(fragmentOf)
  }
  const encoded = encode(`id: ${idOf(sender, view)}\ndata: ${JSON.stringify(message)}\n\n`)
  if (view.messages.size < mostMessages) view.messages.set(since, encoded)
  return encoded
}

/** The messages of a browser that has the version `since`. */
const messages = (sender: Sender, view: View, since: string): Stream.Stream<Uint8Array> => {
  const [process, number] = since.split(".")
  const known = process === sender.process && /^\d{1,15}$/.test(number ?? "") ? Number(number) : 0
  const changes = Stream.unfold(
    Math.min(known, view.version),
    (sent) =>
      Effect.map(view.version === sent ? Deferred.await(view.next) : Effect.void, () =>
        // Without a change the message says only that the worker still answers, and when.
        [view.version === sent ? beat(view) : messageSince(sender, view, sent), view.version] as const)
  )
  // The first event says that the connection works.
  return Stream.concat(Stream.sync(() => beat(view)), changes)
}

const unknownSource: Message = { build: "", at: "", changed: [] }

const fragmentOf = ({ html, id, in: container }: Sent): Fragment => ({ id, in: container, html })

const encoder = new TextEncoder()
const encode = (text: string): Uint8Array => encoder.encode(text)

const beat = ({ snapshot }: View): Uint8Array =>
  encode(`event: beat\ndata: ${JSON.stringify({ at: snapshot?.at ?? "" } satisfies Beat)}\n\n`)

const has = ({ sources }: Snapshot, name: string | undefined): boolean =>
  name === undefined || sources.some((source) => source.name === name)

const emptyView = (): View => ({
  snapshot: undefined,
  version: 0,
  isGone: false,
  order: [],
  orderVersion: 0,
  clients: 0,
  messages: new Map(),
  next: Deferred.makeUnsafe(),
  sentMs: 0
})

/** Renders a new snapshot. If a fragment or their order has changed, this makes a new version. */
const update = (view: View, name: string | undefined, { snapshot, takenMs }: Taken): void => {
  if (view.snapshot === snapshot) return
  view.snapshot = snapshot
  view.isGone = !has(snapshot, name)
  const sources = name === undefined ? snapshot.sources : snapshot.sources.filter((source) => source.name === name)
  const before = new Map(view.order.map((sent) => [sent.id, sent]))
  const version = view.version + 1
  const order = fragments({ ...snapshot, sources }).map((fragment): Sent => {
    const sent = before.get(fragment.id)
    return sent !== undefined && sent.html === fragment.html ? sent : { ...fragment, version }
  })
  const isReordered = order.length !== view.order.length || order.some(({ id }, index) => view.order[index]?.id !== id)
  if (!isReordered && order.every((sent) => sent.version < version)) return
  view.version = version
  view.order = order
  if (isReordered) view.orderVersion = version
  view.messages.clear()
  wake(view, takenMs)
}

/** Continues all browsers that wait for the next message. */
const wake = (view: View, now: number): void => {
  view.sentMs = now
  const { next } = view
  view.next = Deferred.makeUnsafe()
  Deferred.doneUnsafe(next, Effect.void)
}

const orderOf = ({ order }: View): { readonly [container in Container]: ReadonlyArray<string> } => ({
  summary: idsIn(order, "summary"),
  findings: idsIn(order, "findings"),
  sources: idsIn(order, "sources"),
  details: idsIn(order, "details")
})

const idsIn = (order: ReadonlyArray<Fragment>, container: Container): ReadonlyArray<string> =>
  order.filter((fragment) => fragment.in === container).map(({ id }) => id)
