/**
 * Finds the records of erased persons. A destination stores keyed hashes of what an erasure was asked for, and of the records
 * that it erased, because the API returns them again. Without the key, nobody can guess the values from the hashes.
 */
import { isJson, Lists, rewriteItems } from "@payments/core"
import { Function, Redacted } from "effect"
import { hmac, pseudonym } from "./Pseudonym.ts"

/** What an erasure is asked for. The id is that of a record of any list. */
export interface Criterion {
  readonly kind: NonNullable<Lists.FieldMeaning["identifier"]> | "id"
  readonly value: Redacted.Redacted<string>
}

type Key = Redacted.Redacted<Uint8Array>

/** The same key gives the same hash. */
export const hashOf = (key: Key, { kind, value }: Criterion): string => hashOfText(key, kind, Redacted.value(value))

/** Lists may have records with the same id. */
export const hashOfRecord = (key: Key, list: Lists.AnyList, id: string): string =>
  hashOfText(key, "record", `${list.label}\0${id}`)

const hashOfText = (key: Key, kind: string, value: string): string => hmac(key, `suppress ${kind}\0${value}`)

/** Returns the hashes under which a record may be suppressed. `text` is the record before any rule. */
export const hashesIn = (key: Key, list: Lists.AnyList, text: string): ReadonlyArray<string> => [
  ...new Set(
    identifiersIn(list, text).flatMap(({ kind, value }) => [
      hashOfText(key, kind, value),
      ...kind === "id" ? [hashOfRecord(key, list, value)] : []
    ])
  )
]

/**
 * Returns the texts that a copy may have for a value: the value, its pseudonym, and the pseudonym of its pseudonym, which
 * earlier versions wrote when a rewrite kept the values and a later one replaced them again.
 */
export const storedForms = (key: Key, value: string): ReadonlyArray<string> => {
  const replaced = pseudonym(key, value)
  return [value, replaced, pseudonym(key, replaced)]
}

/**
 * Returns the function that gives the index of the first criterion that applies to a record, or -1. A stored text may have the
 * pseudonym of a value instead of the value. The function takes the same time for any number of criteria. To a damaged text that
 * is not JSON, a criterion applies if the text contains its value.
 */
export const matcherOf = (
  key: Key,
  criteria: ReadonlyArray<Criterion>
): (list: Lists.AnyList, text: string) => number => {
  const indexes = new Map<string, number>()
  for (const [index, { kind, value }] of criteria.entries()) {
    const wanted = Redacted.value(value)
    for (const text of storedForms(key, wanted)) {
      const identifier = `${kind}\0${text}`
      indexes.set(identifier, indexes.get(identifier) ?? index)
    }
  }
  return (list, text) => {
    // Another program may have damaged the text.
    if (!isJson(text)) {
      return criteria.findIndex(({ value }) => {
        const wanted = Redacted.value(value)
        return storedForms(key, wanted).some((form) => text.includes(form))
      })
    }
    const found = identifiersIn(list, text).flatMap(({ kind, value }) => indexes.get(`${kind}\0${value}`) ?? [])
    return found.length === 0 ? -1 : Math.min(...found)
  }
}

/** A value that identifies a customer or a record. */
interface Identifier {
  readonly kind: Criterion["kind"]
  readonly value: string
}

/** Every occurrence of a repeated name counts. Numbers are compared as their text. */
const identifiersIn = (list: Lists.AnyList, text: string): ReadonlyArray<Identifier> => {
  const found: Array<Identifier> = []
  const fields = identifierFields(list)
  const search = (object: string, prefix: string): void => {
    rewriteItems(object, (value, name) => {
      const path = name === undefined ? prefix : `${prefix}${name}`
      const kind = fields.kinds.get(path)
      if (kind !== undefined && !/^[[{n]/.test(value)) found.push({ kind, value: textIn(value) })
      if (name !== undefined && prefix === "" && fields.objects.has(name)) {
        if (value.startsWith("{")) search(value, `${name}.`)
        else if (value.startsWith("[")) {
          rewriteItems(value, (element) => {
            if (element.startsWith("{")) search(element, `${name}.`)
            return element
          })
        }
      }
      return value
    })
  }
  if (text.startsWith("{")) search(text, "")
  return found
}

const textIn = (value: string): string => value.startsWith("\"") ? String(JSON.parse(value)) : value

interface IdentifierFields {
  readonly kinds: ReadonlyMap<string, Criterion["kind"]>
  /** The embedded objects that contain some of these fields. */
  readonly objects: ReadonlySet<string>
}

const identifierFields = Function.memoize((list: Lists.AnyList): IdentifierFields => {
  const identifying = Lists.fieldMeanings(list).flatMap(({ identifier, path }) => {
    const kind = path.join(".") === "id" ? "id" : identifier
    return kind === undefined ? [] : [{ kind, path } as const]
  })
  return {
    kinds: new Map(identifying.map(({ kind, path }) => [path.join("."), kind])),
    objects: new Set(identifying.flatMap(({ path }) => path.length === 2 ? [path[0]] : []))
  }
})
