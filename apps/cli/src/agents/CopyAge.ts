/** How old and how whole a copy is. */
import { ageOf, Destination, freshnessOf, heldBackText, type ReachedPoint } from "@payments/copy"
import type { Lists } from "@payments/core"
import { DateTime, Duration, Effect } from "effect"
import { pointNotes } from "../listing/PointFlag.ts"
import { requireDestination, type Sources } from "./Tool.ts"

/** What every answer from the copy says about the copy. */
export interface CopyState {
  /** The age of the oldest list, or null if the age of one is unknown. */
  readonly ageSeconds: number | null
  /** Whether every list has had a complete scan, and the last one held no rows back. */
  readonly isWhole: boolean
  /** Whether the last complete scan of a list held rows back. */
  readonly hasHeldBack: boolean
  readonly notes: ReadonlyArray<string>
}

export const copyStateOf = (sources: Sources, lists: ReadonlyArray<Lists.AnyList>) =>
  Effect.scoped(Effect.gen(function*() {
    const reader = yield* Destination.reader(yield* requireDestination(sources))
    const now = yield* DateTime.now
    const states = yield* freshnessOf(reader, lists)
    const ages = states.map((list) => ageSecondsOf(list, now))
    const partial = states.filter(({ completeScan }) => completeScan === undefined).map(({ list }) => list)
    const heldBack = states.flatMap(({ completeScan, list }) => {
      const text = heldBackText(completeScan?.certificate)
      return text === undefined ? [] : [`${list}: ${text}. The service may no longer have them.`]
    })
    const quarantined = states.filter((list) => list.quarantined > 0)
    return {
      ageSeconds: ages.reduce((oldest, age) => oldest === null || age === null ? null : Math.max(oldest, age), 0),
      isWhole: partial.length + heldBack.length === 0,
      hasHeldBack: heldBack.length > 0,
      notes: [
        ...partial.length === 0
          ? []
          : [`No export has read these lists to the end: ${partial.join(", ")}. Records are absent.`],
        ...heldBack,
        ...quarantined.map(({ list, quarantined: records }) =>
          `Records of ${list} that do not match the API's document: ${records}. Their columns may be null.`
        )
      ]
    } satisfies CopyState
  }))

/** What the copy knew at an earlier point. The age is that of the list that was read longest ago by then. */
export const copyStateAt = Effect.fnUntraced(function*(point: ReachedPoint) {
  const now = DateTime.toEpochMillis(yield* DateTime.now)
  const ages = point.lists.map(({ readAt }) =>
    readAt === undefined ? null : Math.round((now - Date.parse(readAt)) / 1000)
  )
  return {
    ageSeconds: ages.reduce((oldest, age) => oldest === null || age === null ? null : Math.max(oldest, age), 0),
    isWhole: point.incompleteLists.length === 0 && point.lists.every(({ readAt }) => readAt !== undefined),
    hasHeldBack: false,
    notes: pointNotes(point)
  } satisfies CopyState
})

export const ageSecondsOf = (list: Parameters<typeof ageOf>[0], now: DateTime.DateTime): number | null => {
  const age = ageOf(list, now)
  return age === undefined ? null : Math.round(Duration.toSeconds(age))
}
