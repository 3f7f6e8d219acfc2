/**
 * Which fields an agent may see. With `pseudonymize`, each value of a documented field that identifies a person is a
 * pseudonym. Equal values have equal ones, and nobody can compute them without the key. With `omit`, only the
 * documented fields that identify no person are visible. A field that the document does not have may contain anything.
 */
import { type Excerpt, pseudonymOnce } from "@payments/copy"
import { Lists, membersOf } from "@payments/core"
import { Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { exactValue, type Json } from "./Json.ts"

/** Whether fields that identify a person are left out, shown as pseudonyms, or shown. */
export type Personal = "omit" | "pseudonymize" | "include"

type Key = Redacted.Redacted<Uint8Array>

export interface Visibility extends Excerpt {
  readonly recordOf: (list: Lists.AnyList, text: string) => Json
  readonly memberName: (list: Lists.AnyList, name: string) => string
}

/** Makes the visibility of a server. `key` is that of the pseudonyms; by default one that lasts as long as the server. */
export const make = (personal: Personal, key: Key = Redacted.make(randomBytes(32))): Visibility => {
  if (personal === "include") {
    return {
      includes: () => true,
      hasTexts: true,
      recordOf: (_list, text) => exactValue(text),
      memberName: (_list, name) => name
    }
  }
  const visible = Lists.map((list) => new Set(visibleFields(list).map(({ path }) => path.join("."))))
  const documented = Lists.map((list) => new Set(Lists.fieldMeanings(list).map(({ path: [field] }) => field)))
  const pseudonyms = personal === "omit" ? undefined : { key, includes: isPersonal }
  return {
    hasTexts: false,
    pseudonyms,
    includes: (list, field) => visible[list.name].has(field),
    recordOf: (list, text) => visiblePart(list, text, pseudonyms?.key),
    memberName: (list, name) => documented[list.name].has(name) ? name : "(undocumented)"
  }
}

const isPersonal: Excerpt["includes"] = (list, field) => Lists.personalFields(list).includes(field)

/** Whether an agent sees the values of a field, or pseudonyms of them. */
export const shows = ({ includes, pseudonyms }: Visibility, list: Lists.AnyList, field: string): boolean =>
  includes(list, field) || pseudonyms?.includes(list, field) === true

const visibleFields = (list: Lists.AnyList) =>
  Lists.fieldMeanings(list).filter(({ identifies }) => identifies !== "person")

/** Returns the visible fields, and with a key the pseudonyms of those that identify a person. A value that is not of its documented type is left out: it could be anything. */
const visiblePart = (list: Lists.AnyList, text: string, key: Key | undefined): Json => {
  const part: { [field: string]: Json } = {}
  const outer = objectMembers(text)
  for (
    const { identifies, kind, path: [field, inner] } of key === undefined
      ? visibleFields(list)
      : Lists.fieldMeanings(list)
  ) {
    const member = outer.get(field)
    const value = inner === undefined ? member : objectMembers(member).get(inner)
    if (value === undefined || !(value === "null" || starts[kind].test(value))) continue
    const shown = identifies === "person" && key !== undefined && value !== "null"
      ? pseudonymOnce(key, String(JSON.parse(value)))
      : exactValue(value)
    if (inner === undefined) part[field] = shown
    else part[field] = { ...asObject(part[field]), [inner]: shown }
  }
  return part
}

/** How the JSON text of a value of each kind starts. */
const starts = { text: /^"/, integer: /^[-\d]/, boolean: /^[tf]/ }

const objectMembers = (text: string | undefined): ReadonlyMap<string, string> =>
  text?.startsWith("{") === true ? membersOf(text) : new Map()

const asObject = (value: Json | undefined): object => typeof value === "object" && value !== null ? value : {}
