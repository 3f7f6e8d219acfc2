/**
 * The server side of a list: a function from a request to a page (§4.4). `layerTest` and the sandbox call it for each
 * request, and apply faults to the page that it returns.
 */
import type { ListName, PageLayout } from "../model/Lists.ts"
import { json, type Reply } from "./Reply.ts"

/** A request for one page. */
export interface ListRequest {
  /** The filters that were sent, by field name. */
  readonly filters: Readonly<Record<string, string>>
  /** 1 or more. The caller has checked that the API allows it. */
  readonly limit: number
  /** The cursor that was sent; undefined for the first page. */
  readonly cursor: string | undefined
  /** The key, if a cursor is valid only with the key that it was issued to. */
  readonly key?: string | undefined
}

/** A page, or the refusal of a cursor that does not belong to the request. */
export type ListAnswer = ListPage | { readonly _tag: "CursorRefused" }

/** One page. The records are JSON texts, so that tests can use numbers and spellings that parsing would change. */
export interface ListPage {
  readonly _tag: "Page"
  /** The records' texts. */
  readonly items: ReadonlyArray<string>
  /** The cursor of the next page, or null on the last page. */
  readonly next: string | null
  /** The envelope's `count` (§2.5). */
  readonly count: number
}

/** Answers requests of one list. */
export type ListServer = (request: ListRequest) => ListAnswer

/** The server of each list. */
export type ListServers = { readonly [Name in ListName]: ListServer }

/** Returns the answer with a page, in the layout of its list. */
export const renderPage = ({ cursor: { in: place, name }, end, items }: PageLayout, page: ListPage): Reply => {
  const cursor = page.next ?? end
  const member = place === "body" && cursor !== undefined ? `,"${name}":${JSON.stringify(cursor)}` : ""
  const reply = json(`{"${items}":[${page.items.join(",")}]${member},"count":${page.count}}`)
  return place === "header" && typeof cursor === "string"
    ? { ...reply, headers: { ...reply.headers, [name]: cursor } }
    : reply
}
