/**
 * A list as its server sees it: a request in, a page out (§4.4). What `layerTest` and the sandbox answer with, whatever
 * holds the records; faults are laid over it. Pure, but for what its clock says.
 */
import { Schema } from "effect"
import { type ListName, PageLimit, pageLimit } from "./Lists.ts"

/** One page asked for, by field names. */
export interface ListRequest {
  /** Those that were sent. */
  readonly filters: Readonly<Record<string, string>>
  /** 1 or more. Whether the API allows it is checked before. */
  readonly limit: number
  /** The cursor that was sent; none asks for the first page. */
  readonly cursor: string | undefined
}

/** A page, or a cursor that does not belong to the request. */
export type ListAnswer = ListPage | { readonly _tag: "CursorRefused" }

/** One page of records, each as JSON text, since parsing would lose what a test is about. */
export interface ListPage {
  readonly _tag: "Page"
  /** The records' texts. */
  readonly items: ReadonlyArray<string>
  /** The cursor of the next page, or null at the end. */
  readonly next: string | null
  /** What the envelope says of the number of items (§2.5). */
  readonly count: number
}

/** Answers requests of one list. */
export type ListServer = (request: ListRequest) => ListAnswer

/** All lists of a service. */
export type ListServers = { readonly [Name in ListName]: ListServer }

/** The page as the envelope of §2.5. */
export const renderPage = ({ count, items, next }: ListPage): string =>
  `{"items":[${items.join(",")}],"cursor":${JSON.stringify(next)},"count":${count}}`

/** The limit that a request's parameter means; undefined where the API allows no such limit (§8). */
export const limitOf = (parameter: string | undefined, whenAbsent: number = pageLimit.default): number | undefined => {
  const limit = parameter === undefined ? whenAbsent : parameter === "" ? Number.NaN : Number(parameter)
  return Schema.is(PageLimit)(limit) ? limit : undefined
}
