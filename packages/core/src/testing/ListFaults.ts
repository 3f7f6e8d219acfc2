/**
 * The behaviours of faults of records and cursors. Each wraps a {@link ListServer}. The texts of records stay
 * unchanged, except for the field that a fault names.
 */
import { Option, Result, Schema } from "effect"
import { Base64Url } from "effect/encoding"
import { ListName } from "../model/Lists.ts"
import { membersOf } from "../page/JsonText.ts"
import type { listFaults } from "./Fault.ts"
import type { Behaviours, FaultContext } from "./FaultContext.ts"
import type { ListPage, ListRequest, ListServer } from "./ListServer.ts"

/** Wraps a server so that `change` is applied to its pages. */
const onPage =
  (change: (page: ListPage, request: ListRequest, server: ListServer) => ListPage) =>
  (server: ListServer): ListServer =>
  (request) => {
    const answer = server(request)
    return answer._tag === "Page" ? change(answer, request, server) : answer
  }

const pageOf = (items: ReadonlyArray<string>, next: string | null): ListPage => ({
  _tag: "Page",
  items,
  next,
  count: items.length
})

export const listBehaviours: Behaviours<keyof typeof listFaults, ListServer> = {
  cursorCycle: ({ length }, { history, list }) =>
    onPage((page) => {
      if (history.requested.length < length) return page
      return { ...page, next: history.requested.at(-length) ?? detour({ list, cursor: undefined, skip: 0, round: 1 }) }
    }),
  emptyPage: (_, { list }) => () => ({ cursor }) => {
    const at = readDetour(list, cursor)
    return pageOf([], detour({ ...at, round: at.round + 1 }))
  },
  shortPage: ({ records }, { list }) =>
    onPage((page, { cursor }) => {
      if (page.items.length <= records) return page
      const at = readDetour(list, cursor)
      return pageOf(page.items.slice(0, records), detour({ ...at, skip: at.skip + records }))
    }),
  largePage: ({ joined }) =>
    onPage((first, request, server) => {
      let page = first
      for (let count = 1; count < joined && page.next !== null; count++) {
        const more = server({ ...request, cursor: page.next })
        if (more._tag === "CursorRefused") break
        page = pageOf([...page.items, ...more.items], more.next)
      }
      return page
    }),
  emptyList: () => () => () => pageOf([], null),
  ignoreFilter: ({ field, share = 1 }, { chance }) => (server) => (request) => {
    const filters = Object.fromEntries(
      Object.entries(request.filters).filter(([name]) => field !== undefined && name !== field)
    )
    if (share === 1) {
      const answer = server({ ...request, filters })
      return answer._tag === "Page" ? answer : server(request)
    }
    const answer = server(request)
    const unfiltered = server({ ...request, filters, cursor: undefined })
    if (answer._tag === "CursorRefused" || unfiltered._tag === "CursorRefused") return answer
    const nonMatching = unfiltered.items.filter((item) => !answer.items.includes(item))
    const items = answer.items.map((item, index) =>
      chance(index) < share ? nonMatching[index % nonMatching.length] ?? item : item
    )
    return { ...answer, items }
  },
  duplicate: ({ records }, { history }) =>
    onPage((page) => pageOf([...history.before.slice(-records), ...page.items], page.next)),
  skip: ({ records }) => onPage((page) => pageOf(page.items.slice(records), page.next)),
  reorder: (_, { history }) =>
    onPage((page, request, server) => {
      const following = page.next === null ? undefined : server({ ...request, cursor: page.next })
      const other = following?._tag === "Page" ? following.items[0] : undefined
      const last = page.items.at(-1)
      if (page.next === null || other === undefined || last === undefined) return page
      history.displaced.set(page.next, last)
      return pageOf([...page.items.slice(0, -1), other], page.next)
    }),
  field: ({ field, share = 1, value }, { chance }) =>
    onPage((page) => ({
      ...page,
      items: page.items.map((item, index) => chance(index) < share ? withMember(item, field, value) : item)
    }))
}

/** Returns the object with the member `name` set to `value`, or without it if `value` is undefined. */
export const withMember = (object: string, name: string, value: string | undefined): string => {
  const members = new Map(membersOf(object))
  if (value === undefined) members.delete(name)
  else members.set(name, value)
  return `{${Array.from(members, ([key, text]) => `${JSON.stringify(key)}:${text}`).join(",")}}`
}

/** The content of a cursor that a fault issued: the page at `cursor` without its first `skip` records. */
interface Detour {
  readonly list: ListName
  readonly cursor: string | undefined
  readonly skip: number
  /** Distinguishes cursors that lead to the same page. */
  readonly round: number
}

const Detour = Schema.fromJsonString(Schema.Tuple([ListName, Schema.NullOr(Schema.String), Schema.Int, Schema.Int]))
/** The first character of all cursors that faults issue. */
const detourPrefix = "~"

const detour = ({ cursor, list, round, skip }: Detour): string =>
  detourPrefix + Base64Url.encode(JSON.stringify([list, cursor ?? null, skip, round]))

/** A cursor of another list is returned as it is. The server refuses it. */
const readDetour = (list: ListName, cursor: string | undefined): Detour => {
  const plain: Detour = { list, cursor, skip: 0, round: 0 }
  if (!cursor?.startsWith(detourPrefix)) return plain
  const text = Base64Url.decodeString(cursor.slice(detourPrefix.length))
  const parts = Result.isFailure(text) ? undefined : Option.getOrUndefined(Schema.decodeOption(Detour)(text.success))
  return parts === undefined || parts[0] !== list
    ? plain
    : { list, cursor: parts[1] ?? undefined, skip: parts[2], round: parts[3] }
}

/**
 * Wraps a server so that it also accepts the cursors that faults issued, and moves displaced records to their new page.
 */
export const followingDetours =
  (server: ListServer, { history, list }: Pick<FaultContext, "history" | "list">): ListServer => (request) => {
    const at = readDetour(list, request.cursor)
    const answer = server({ ...request, cursor: at.cursor })
    if (answer._tag === "CursorRefused") return answer
    const displaced = request.cursor === undefined ? undefined : history.displaced.get(request.cursor)
    if (at.skip === 0 && displaced === undefined) return answer
    const items = answer.items.slice(at.skip)
    return pageOf(displaced === undefined ? items : [displaced, ...items.slice(1)], answer.next)
  }
