/** The tools that read the service: `list`, and `find` in the service or the copy. */
import { findInApi, findInCopy, findInCopyAt, type Found, searchedFields } from "@payments/copy"
import { type ListOperation, Lists, PaymentsApi } from "@payments/core"
import { Effect, Schema, Stream } from "effect"
import { optionalPointIn, pointProblems, pointWords } from "../listing/PointFlag.ts"
import type { Answer } from "./Answer.ts"
import { type Continuation, makeContinuations } from "./Continuations.ts"
import { type CopyState, copyStateAt, copyStateOf } from "./CopyAge.ts"
import { fitting, type Json } from "./Json.ts"
import {
  define,
  pointArgument,
  Refused,
  requireDestination,
  type Sources,
  type Tool,
  type ToolError,
  wholeNumber
} from "./Tool.ts"
import type { Visibility } from "./Visibility.ts"

export const apiTools = (sources: Sources): ReadonlyArray<Tool> => [listTool(sources), findTool(sources)]

export const ListLabel = Schema.Literals(Lists.all.map(({ label }) => label))

const listOf = (label: string): Lists.AnyList | undefined => Lists.all.find((list) => list.label === label)

const filterNames = ({ includes }: Visibility, list: Lists.AnyList): ReadonlyArray<string> =>
  Object.keys(list.filters).filter((field) => includes(list, field))

const ListArguments = Schema.Struct({
  list: Schema.optionalKey(ListLabel),
  filters: Schema.optionalKey(
    Schema.Record(Schema.String, Schema.String).annotate({
      description: "values by the name of the field; all must match"
    })
  ),
  limit: wholeNumber(1, Lists.pageLimit.maximum, "records of this page; default 20"),
  continue: Schema.optionalKey(Schema.String.annotate({
    description: "from `next` of the previous answer, without any other argument"
  }))
})

const listTool = ({ api, visibility }: Sources): Tool => {
  const continuations = makeContinuations()
  return define(
    "list",
    "Reads one page of a list from the service: the current records, in the service's order. Filters: " +
      Lists.all.map((list) => `${list.label}: ${filterNames(visibility, list).join(", ")}`).join("; ") +
      ". The total is known only at the end of the list: to count or to add up, use query or ask.",
    ListArguments,
    Effect.fnUntraced(function*(given) {
      const start = yield* startOf(given, visibility, continuations.get)
      const { filters, limit, list } = start
      const rows: Array<Json> = [...start.waiting]
      const notes: Array<string> = []
      let { next } = start
      if (rows.length === 0) {
        // The operations differ only in the types of their records and filters, which are passed on unchanged.
        const operation: ListOperation<{ readonly id: string }, object> = (yield* api)[list.name]
        const page = yield* operation.page({
          ...filters,
          limit,
          position: next ?? undefined,
          onBadRecord: "quarantine"
        })
        next = page.next
        for (const { text } of page.records()) rows.push(visibility.recordOf(list, text))
        if (page.bad.length > 0) {
          notes.push(`Records of this page that do not match the API's document: ${page.bad.length}.`)
        }
      }
      const data = fitting(rows)
      const returned = start.returned + data.length
      const waiting = rows.slice(data.length)
      const isAtEnd = next === null && waiting.length === 0
      if (!isAtEnd) notes.push("More records follow. Do not count or add up only these.")
      return {
        data,
        complete: isAtEnd && start.returned === 0,
        total: isAtEnd ? returned : null,
        source: "api",
        ageSeconds: 0,
        next: isAtEnd
          ? null
          : { tool: "list", arguments: { continue: continuations.add({ ...start, waiting, next, returned }) } },
        notes: isAtEnd && start.returned > 0
          ? [...notes, `This is the end of the list. The previous answers have its first ${start.returned} records.`]
          : notes
      } satisfies Answer
    })
  )
}

const startOf = Effect.fnUntraced(function*(
  given: typeof ListArguments.Type,
  visibility: Visibility,
  known: (name: string) => Continuation | undefined
): Effect.fn.Return<Continuation, Refused> {
  if (given.continue !== undefined) {
    if (Object.keys(given).length > 1) {
      return yield* new Refused({ problem: "continue: give it without any other argument." })
    }
    const continuation = known(given.continue)
    return continuation ??
      (yield* new Refused({ problem: "continue: this name is not known, or is too old. Start the listing again." }))
  }
  const list = listOf(given.list ?? "")
  if (list === undefined) return yield* new Refused({ problem: "list: give the name of a list." })
  const names = filterNames(visibility, list)
  const filters = given.filters ?? {}
  for (const field of Object.keys(filters)) {
    if (!names.includes(field)) {
      const isHidden = field in list.filters
      return yield* new Refused({
        problem: isHidden
          ? `filters: ${field} identifies a person, and this server does not filter by such fields.`
          : `filters: ${list.label} can be filtered by ${names.join(", ")}.`
      })
    }
  }
  return { list, filters, limit: given.limit ?? 20, waiting: [], next: null, returned: 0 }
})

const mostMatches = 100

const FindArguments = Schema.Struct({
  text: Schema.NonEmptyString,
  where: Schema.optionalKey(
    Schema.Literals(["copy", "api"]).annotate({
      description: "default: the copy if the server has one"
    })
  ),
  at: pointArgument(`only in the copy: search the rows of an earlier point: ${pointWords}`),
  limit: wholeNumber(1, mostMatches, "matches of each list; default 20")
})

interface Searched {
  readonly found: ReadonlyArray<Found>
  /** The state of what was searched. */
  readonly searched: Omit<CopyState, "hasHeldBack">
}

/** Searches the service, or the copy as it is or as it was at a point. */
const search = Effect.fnUntraced(function*(
  sources: Sources,
  { at, limit, text, where }: Required<Omit<typeof FindArguments.Type, "at">> & {
    readonly at: string | number | undefined
  }
): Effect.fn.Return<Searched, ToolError> {
  const { api, visibility } = sources
  const point = yield* optionalPointIn(at, "at")
  if (where === "api") {
    if (point !== undefined) {
      return yield* new Refused({ problem: "at: only the copy has a history. Search it with where: copy." })
    }
    const found = yield* Stream.runCollect(findInApi(text, limit, visibility.includes)).pipe(
      Effect.provideService(PaymentsApi, PaymentsApi.of(yield* api))
    )
    return { found, searched: { ageSeconds: 0, isWhole: true, notes: [] } }
  }
  const destination = yield* requireDestination(sources)
  const wanted = { text, limit, includes: visibility.includes }
  if (point === undefined) {
    return { found: yield* findInCopy(destination, wanted), searched: yield* copyStateOf(sources, Lists.all) }
  }
  const { found, point: reached } = yield* Effect.catchTags(findInCopyAt(destination, wanted, point), pointProblems)
  // A copy without lists has no point.
  return {
    found,
    searched: reached === undefined ? yield* copyStateOf(sources, Lists.all) : yield* copyStateAt(reached)
  }
})

const findTool = (sources: Sources): Tool => {
  const { destination, visibility } = sources
  return define(
    "find",
    "Looks up a text in all lists: records of which a field equals it. In the copy it searches all text fields, in the service " +
      `only ${
        [
          ...new Set(
            Lists.all.flatMap((list) => searchedFields(list).filter((field) => visibility.includes(list, field)))
          )
        ]
          .join(", ")
      }. Fields that are left out are not searched.`,
    FindArguments,
    Effect.fnUntraced(function*({ at, limit = 20, text, where = destination === undefined ? "api" : "copy" }) {
      const { found, searched } = yield* search(sources, { at, limit, text, where })
      const rows = found.flatMap(({ list, matches }) =>
        matches.map(({ fields, id, isMissing, raw }): Json => ({
          list: list.label,
          id: id ?? null,
          fields,
          ...(where === "copy" ? { isMissing } : {}),
          record: visibility.recordOf(list, raw)
        }))
      )
      const data = fitting(rows)
      const isSearched = found.every((list) => list.complete)
      const isShown = data.length === rows.length
      const failed = found.flatMap(({ error, list }) =>
        error === undefined ? [] : [`${list.label} could not be searched: ${error.reason.message}`]
      )
      const isLimited = found.some((list) => !list.complete && list.error === undefined)
      const isMoreAllowed = isLimited && limit < mostMatches
      const nextSearch = isMoreAllowed || failed.length > 0
        ? {
          tool: "find",
          arguments: { text, where, ...(at === undefined ? {} : { at }), limit: isMoreAllowed ? mostMatches : limit }
        }
        : null
      return {
        data,
        complete: isSearched && isShown && searched.isWhole,
        total: isSearched ? rows.length : null,
        source: where,
        ageSeconds: searched.ageSeconds,
        next: isSearched && isShown ? null : nextSearch,
        notes: [
          ...searched.notes,
          ...visibility.hasTexts ? [] : ["Fields that are left out were not searched: there may be more records."],
          ...failed,
          ...isSearched && isShown ? [] : ["Not all matches are here. For more, query the copy, or list with a filter."]
        ]
      } satisfies Answer
    })
  )
}
