/**
 * What the pages of a scan show about the service: the order of the list, the sizes of its pages, what `count` counts, and where
 * new records appear. It is counted while the pages are read anyway, and costs no request. Pure.
 */
import { isJsonObject, Lists } from "@payments/core"
import { tooMany } from "../port/Judgement.ts"
import type { ScanProgress, Sighting } from "../port/Sink.ts"
import { stepBetween } from "./Instants.ts"

/** The dates of one field in a page, or in several. */
interface DateSteps {
  readonly last: string | undefined
  /** The records with a later, and with an earlier date than the one before. */
  readonly later: number
  readonly earlier: number
  /** Whether a record has no such date. */
  readonly isBroken: boolean
}

/** What one page shows. */
export interface PageSight {
  readonly records: number
  /** `count` of the answer, if it is an integer. */
  readonly count: number | undefined
  readonly dates: { readonly [field: string]: DateSteps }
}

/** What the pages of a list show, in the order in which they were read. */
export interface ListSight {
  /** Whether the first page of the list is among them. */
  readonly isWhole: boolean
  readonly pages: number
  readonly records: number
  /** The records of the first and of the last page. */
  readonly firstRecords: number
  readonly lastRecords: number
  /** The fewest and the most records of a page before the last. */
  readonly fewest: number
  readonly most: number
  readonly counts: Counts | undefined
  readonly dates: PageSight["dates"]
}

/** `count` of the pages. */
interface Counts {
  readonly first: number
  readonly last: number
  readonly least: number
  readonly most: number
  /** Whether each is the number of records of its page. */
  readonly isOfPage: boolean
}

const noStep: DateSteps = { last: undefined, later: 0, earlier: 0, isBroken: false }

/** Returns the fields of a list that have an instant. */
export const instantsOf = (list: Lists.AnyList): ReadonlyArray<string> =>
  Object.entries(Lists.dateFields(list)).flatMap(([field, kind]) => kind === "dateTime" ? [field] : [])

export const sightOf = (
  fields: ReadonlyArray<string>,
  count: number | undefined,
  records: ReadonlyArray<{ readonly value: unknown }>
): PageSight => ({
  records: records.length,
  count,
  dates: Object.fromEntries(fields.map((field) => [field, stepsIn(field, records)]))
})

const stepsIn = (field: string, records: ReadonlyArray<{ readonly value: unknown }>): DateSteps => {
  let [later, earlier] = [0, 0]
  let last: string | undefined
  for (const { value } of records) {
    const text = isJsonObject(value) ? value[field] : undefined
    if (typeof text !== "string") return { ...noStep, isBroken: true }
    const step = last === undefined ? 0 : stepBetween(last, text)
    if (step === undefined) return { ...noStep, isBroken: true }
    if (step > 0) later++
    else if (step < 0) earlier++
    last = text
  }
  return { last, later, earlier, isBroken: false }
}

export const firstSight = (isWhole: boolean): ListSight => ({
  isWhole,
  pages: 0,
  records: 0,
  firstRecords: 0,
  lastRecords: 0,
  fewest: Infinity,
  most: 0,
  counts: undefined,
  dates: {}
})

export const withPage = (sight: ListSight, page: PageSight): ListSight => ({
  isWhole: sight.isWhole,
  pages: sight.pages + 1,
  records: sight.records + page.records,
  firstRecords: sight.pages === 0 ? page.records : sight.firstRecords,
  lastRecords: page.records,
  fewest: sight.pages === 0 ? sight.fewest : Math.min(sight.fewest, sight.lastRecords),
  most: sight.pages === 0 ? sight.most : Math.max(sight.most, sight.lastRecords),
  counts: countsWith(sight, page),
  dates: Object.fromEntries(
    Object.entries(page.dates).map(([field, steps]) => [field, joined(sight.dates[field], steps)])
  )
})

const countsWith = ({ counts, pages }: ListSight, { count, records }: PageSight): Counts | undefined => {
  if (count === undefined || (counts === undefined && pages > 0)) return undefined
  const isOfPage = count === records
  return counts === undefined
    ? { first: count, last: count, least: count, most: count, isOfPage }
    : {
      first: counts.first,
      last: count,
      least: Math.min(counts.least, count),
      most: Math.max(counts.most, count),
      isOfPage: counts.isOfPage && isOfPage
    }
}

const joined = (before: DateSteps | undefined, page: DateSteps): DateSteps => {
  if (before === undefined || page.isBroken || before.isBroken) {
    return before === undefined
      ? page
      : { ...noStep, isBroken: true }
  }
  if (page.last === undefined || before.last === undefined) return before.last === undefined ? page : before
  // If records appear while the list is read, the next page may begin with some of the last one again.
  const step = stepBetween(before.last, page.last)
  if (step === undefined) return { ...noStep, isBroken: true }
  return {
    last: page.last,
    later: before.later + page.later + (step > 0 ? 1 : 0),
    earlier: before.earlier + page.earlier + (step < 0 ? 1 : 0),
    isBroken: false
  }
}

/** Fewer records, or fewer different dates, can be in an order by chance. Fewer new records can be together by chance. */
const [leastRecords, leastSteps, leastNew] = [20, 10, 3]
/** Fewer pages do not show what they have in common. */
const leastPages = 3
/** A list that changes while it is read may have so many records more or fewer than it says; of a list, this share. */
const [slackRecords, slackShare] = [3, 0.01]

/** Returns what a complete scan of the whole list has shown. What a change of the list may explain is left out. */
export const sightings = (
  sight: ListSight,
  limit: number,
  progress: Pick<ScanProgress, "behindHead" | "inserted" | "places" | "records" | "repeats">
): ReadonlyArray<Sighting> =>
  [
    // A run that was resumed has not seen the first pages.
    ...(sight.isWhole ? [orderIn(sight), pagesIn(sight, limit), countIn(sight, progress)] : []),
    placesIn(progress)
  ].flatMap((one) => one === undefined ? [] : [{ ...one, records: progress.records }])

/** Returns that the list has skipped records which a filter found, if it has. */
export const skippedIn = (
  { records, skipped }: Pick<ScanProgress, "records" | "skipped">
): ReadonlyArray<Sighting> =>
  skipped === 0 ? [] : [{
    fact: "skipped-records",
    answer: "yes",
    seen: `a filter found ${skipped} that the list did not return`,
    records
  }]

type Seen = Omit<Sighting, "records"> | undefined

export const ordered = (field: string, isNewestFirst: boolean): string =>
  `${field}, ${isNewestFirst ? "newest" : "oldest"} first`

/** A date that is missing in some records, or is nearly sorted, shows nothing. The other dates may still show an answer. */
const orderIn = ({ dates, records }: ListSight): Seen => {
  if (records < leastRecords) return undefined
  const judged = Object.entries(dates).map(([field, { earlier, isBroken, later }]) => {
    if (isBroken || earlier + later < leastSteps) return { field, isKnown: false }
    if (later === 0 || earlier === 0) return { field, isKnown: true, order: ordered(field, later === 0) }
    return { field, isKnown: Math.min(later, earlier) > Math.max(slackRecords, records * slackShare) }
  })
  const orders = judged.flatMap(({ order = [] }) => order)
  const others = judged.filter(({ isKnown, order }) => isKnown && order === undefined).map(({ field }) => field)
  const without = others.length === judged.length ? "no date" : `not by ${others.join(" or ")}`
  const [answer = others.length === 0 ? undefined : without] = orders
  return answer === undefined || orders.length > 1
    ? undefined
    : { fact: "list-order", answer, seen: `${records} records` }
}

const pagesIn = ({ fewest, most, pages }: ListSight, limit: number): Seen => {
  // The last page may always have fewer records.
  if (pages <= leastPages) return undefined
  // That no page was shorter does not show that none ever is.
  return fewest < most
    ? { fact: "short-pages", answer: "yes", seen: `${fewest} to ${most} records in a page` }
    : {
      fact: "page-records",
      answer: most === limit ? "as many as the limit" : String(most),
      seen: `${most} records in each of ${pages - 1} pages`
    }
}

/** The answers are those of the fact `count`, and one that contradicts them all: the list should have more records. */
const countIn = (
  { counts, firstRecords, lastRecords, most, pages }: ListSight,
  { inserted, records, repeats }: Pick<ScanProgress, "inserted" | "records" | "repeats">
): Seen => {
  if (counts === undefined || pages < leastPages) return undefined
  const read = records - repeats
  const slack = Math.max(slackRecords, read * slackShare)
  /** A service may count a record twice that it returns twice. */
  const isNear = (count: number) => count >= read - slack && count <= records + slack
  const answer = (text: string): Seen => ({
    fact: "count",
    answer: text,
    seen: `${counts.first} to ${counts.last}, ${pages} pages of ${read} records`
  })
  if (counts.isOfPage) return answer("the page")
  // Other explanations differ by one page, so a small page does not tell them apart.
  if (most <= 2 * slack) return undefined
  if (isNear(counts.least) && isNear(counts.most)) return answer("the list")
  // Nothing follows the last page, whatever has changed before.
  const falls = (expected: number) => Math.abs(counts.first - expected) <= Math.max(slack, read / 10)
  if (counts.last === 0 && falls(read - firstRecords)) return answer("what follows the page")
  if (counts.last === lastRecords && falls(read)) return answer("the page and what follows")
  // More on each page than were read, which nothing that has changed meanwhile explains.
  return counts.least > records + slack + 2 * (counts.most - counts.least + inserted)
    ? { fact: "count", answer: tooMany, seen: `${counts.least}, but ${read} records were read` }
    : undefined
}

const placesIn = (
  { behindHead, places: { fresh, freshAtEnd, freshAtStart, known } }: Pick<ScanProgress, "behindHead" | "places">
): Seen => {
  if (behindHead > 0) return { fact: "places", answer: "in several places", seen: `${behindHead} behind a head pass` }
  if (known < leastRecords || fresh === 0) return undefined
  const seen = `${fresh} new ${fresh === 1 ? "record" : "records"}`
  if (freshAtStart === fresh || freshAtEnd === fresh) {
    return fresh < leastNew ? undefined : { fact: "places", answer: freshAtStart === fresh ? "first" : "last", seen }
  }
  // A page that shifts while a list is read skips records, which the next scan then finds in their old places.
  const elsewhere = fresh - Math.max(freshAtStart, freshAtEnd)
  return elsewhere > slackRecords && 3 * elsewhere >= fresh
    ? { fact: "places", answer: "in several places", seen }
    : undefined
}
