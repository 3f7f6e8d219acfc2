/**
 * Checks the pages and records of all answers of a list against the document (§2): bodies, envelopes, types, ids, amounts,
 * instants. It keeps counts and the first example of each kind, without its value. A record is judged as exports judge it, so
 * each record that an export quarantines is found here.
 */
import { Days, Lists, membersOf, parseText, recordProblem, rewriteItems, timestamp } from "@payments/core"
import { Option } from "effect"
import { createHash } from "node:crypto"
import type { Broken, Finding } from "./Finding.ts"

type Subject = "page" | "record"

interface ContentRule {
  readonly section: string
  readonly rule: string
  readonly subject: Subject
}

/** The rules, in the order of the report. */
const rules = {
  body: { section: "§2", rule: "every body is a JSON object", subject: "page" },
  id: { section: "§2", rule: "every record has an id that is text", subject: "record" },
  amount: { section: "§2", rule: "amounts are integers, in digits that JSON carries exactly", subject: "record" },
  date: { section: "§2", rule: "date-times and days have the documented format", subject: "record" },
  type: { section: "§2", rule: "all other fields have the documented type", subject: "record" },
  items: { section: "§2.5", rule: "items is an array of objects", subject: "page" },
  cursor: { section: "§2.5", rule: "cursor is a string or null", subject: "page" },
  count: { section: "§2.5", rule: "count is an integer", subject: "page" }
} as const satisfies { readonly [name: string]: ContentRule }

type RuleName = keyof typeof rules

type Json = { readonly [name: string]: unknown }

/** The rules about the content of a list's answers, and what was seen so far. */
export class ContentCheck {
  readonly #list: Lists.AnyList
  #pages = 0
  /** The ids of the records that were read; of a record without one, a digest. Rules read the same pages: each counts once. */
  readonly #records = new Set<string>()
  readonly #broken: {
    [Name in RuleName]?: { readonly by: Set<string>; readonly path: string; readonly kind: string }
  } = {}

  constructor(list: Lists.AnyList) {
    this.#list = list
  }

  /** Checks a successful answer. `page` is its body if that is a JSON object. */
  add(text: string, page: Json | undefined, headers: Readonly<Record<string, string | undefined>>): void {
    this.#pages++
    if (page === undefined) return this.#addOfPage("body", "body", "expected a JSON object")
    const { page: layout } = this.#list
    const items = page[layout.items]
    this.#addEnvelope(items, Lists.cursorOf(layout, page, headers), page["count"])
    if (!Array.isArray(items)) return
    rewriteItems(membersOf(text).get(layout.items) ?? "[]", (record) => {
      this.#addRecord(record)
      return record
    })
  }

  findings(): ReadonlyArray<Finding> {
    const hasAmounts = Lists.amountFields(this.#list).length > 0
    return Object.entries(rules).filter(([name]) => hasAmounts || name !== "amount").map(
      ([name, { rule, section, subject }]): Finding => {
        const of = subject === "page" ? this.#pages : this.#records.size
        // The keys of `rules` are the names.
        const first = this.#broken[name as RuleName]
        const broken = first === undefined
          ? undefined
          : { count: first.by.size, of, path: first.path, kind: first.kind }
        return {
          section,
          list: this.#list.name,
          rule,
          ...(of === 0
            ? { verdict: "could not be observed", seen: `no ${subject} was read` }
            : broken === undefined
            ? { verdict: "holds", seen: amount(of, subject) }
            : { verdict: "does not hold", seen: sentence(broken, subject), broken })
        }
      }
    )
  }

  #add(rule: RuleName, by: string, path: string, kind: string): void {
    const broken = this.#broken[rule] ??= { by: new Set(), path, kind }
    broken.by.add(by)
  }

  #addOfPage(rule: RuleName, path: string, kind: string): void {
    this.#add(rule, String(this.#pages), path, kind)
  }

  #addEnvelope(items: unknown, cursor: unknown, count: unknown): void {
    const { cursor: { name: cursorName }, items: itemsName } = this.#list.page
    if (!Array.isArray(items)) this.#addOfPage("items", itemsName, `expected array, found ${kindOf(items)}`)
    else {
      const other = items.find((item) => kindOf(item) !== "object")
      if (other !== undefined) this.#addOfPage("items", itemsName, `expected objects, found ${kindOf(other)}`)
    }
    if (cursor !== null && typeof cursor !== "string") {
      this.#addOfPage("cursor", cursorName, `expected string | null, found ${kindOf(cursor)}`)
    }
    if (!Number.isSafeInteger(count)) this.#addOfPage("count", "count", `expected integer, found ${kindOf(count)}`)
  }

  #addRecord(text: string): void {
    const record = parseText(text)
    // A rule about the envelope judges what is not an object.
    if (!isObject(record)) return
    const { id } = record
    const by = typeof id === "string" ? `id ${id}` : createHash("sha256").update(text).digest("base64")
    this.#records.add(by)
    const found = new Map<RuleName, readonly [path: string, kind: string]>()
    for (const [path, expected] of problemsOf(this.#list, text)) {
      const rule = path === "id" ? "id" : Lists.amountFields(this.#list).includes(path) ? "amount" : "type"
      if (!found.has(rule)) found.set(rule, [path, `${expected}, found ${kindAt(record, path)}`])
    }
    for (const [field, temporal] of Object.entries(Lists.dateFields(this.#list))) {
      const value = record[field]
      const isDocumented = temporal === "day" ? Days.isDay : isInstant(this.#list)
      if (typeof value === "string" && !isDocumented(value) && !found.has("date")) {
        found.set("date", [field, `expected ${formats[temporal]}, found text of another format`])
      }
    }
    for (const [rule, [path, kind]] of found) this.#add(rule, by, path, kind)
  }
}

const formats = { day: "a day YYYY-MM-DD", dateTime: "an ISO 8601 date-time in UTC, of the documented precision" }

const isInstant = ({ timestampPrecision }: Lists.AnyList) => (value: string): boolean =>
  /\.\d{3}Z$/.test(value) === (timestampPrecision === "milliseconds") &&
  /:\d\d(\.\d{3})?Z$/.test(value) && Option.isSome(timestamp(value))

/** Yields the path of each documented field of the record that does not decode, and what the document specifies there. */
function* problemsOf(list: Lists.AnyList, record: string): Generator<readonly [path: string, expected: string]> {
  let text = record
  for (let problem = recordProblem(list, text); problem !== undefined; problem = recordProblem(list, text)) {
    yield [problem.path, problem.expected]
    const before = text
    if (problem.path === "" || problem.path === "id") {
      // A record without an id is not decoded further, so it gets one.
      const others = rewriteItems(text, (value, name) => name === "id" ? undefined : value)
      if (problem.path === "" || others === `{"id":""}`) return
      text = others === "{}" ? `{"id":""}` : `{"id":"",${others.slice(1)}`
    } else {
      const [member] = problem.path.split(".")
      text = rewriteItems(text, (value, name) => name === member ? undefined : value)
    }
    if (text === before) return
  }
}

const isObject = (value: unknown): value is Json => kindOf(value) === "object"

const kindOf = (value: unknown): string => {
  if (value === undefined) return "nothing"
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value
}

/** Returns the kind of the value at the path. A number that is not exact in JSON has its own kind. */
const kindAt = (record: Json, path: string): string => {
  const value = path.split(".").reduce<unknown>((parent, name) => isObject(parent) ? parent[name] : undefined, record)
  return typeof value !== "number" ? kindOf(value) : Number.isSafeInteger(value) ? "number" : "number of another kind"
}

const amount = (count: number, subject: Subject): string =>
  `${count.toLocaleString("en-US")} ${subject}${count === 1 ? "" : "s"}`

const sentence = ({ count, kind, of, path }: Broken, subject: Subject): string =>
  `${count.toLocaleString("en-US")} of ${amount(of, subject)}; the first: ${path}: ${kind}`
