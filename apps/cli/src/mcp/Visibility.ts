/**
 * Which fields an agent may see. With `omit`, these are the documented fields that identify no person, and nothing else: a
 * field that the document does not have may contain anything.
 */
import { Lists, membersOf } from "@payments/core"
import type { Excerpt } from "@payments/export"
import { exactValue, type Json } from "./Json.ts"

/** Whether fields that identify a person are shown. */
export type Personal = "omit" | "include"

/** What an agent may see of records. */
export interface Visibility extends Excerpt {
  /** Returns the visible part of a record. */
  readonly recordOf: (list: Lists.AnyList, text: string) => Json
  /** Returns the visible name of a record's member. */
  readonly memberName: (list: Lists.AnyList, name: string) => string
}

/** Makes the visibility of a server. */
export const make = (personal: Personal): Visibility => {
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
  return {
    hasTexts: false,
    includes: (list, field) => visible[list.name].has(field),
    recordOf: visiblePart,
    memberName: (list, name) => documented[list.name].has(name) ? name : "(undocumented)"
  }
}

const visibleFields = (list: Lists.AnyList) =>
  Lists.fieldMeanings(list).filter(({ identifies }) => identifies !== "person")

/** Returns the visible fields. A value that is not of its documented type is left out: it could be anything. */
const visiblePart = (list: Lists.AnyList, text: string): Json => {
  const part: { [field: string]: Json } = {}
  const outer = objectMembers(text)
  for (const { kind, path: [field, inner] } of visibleFields(list)) {
    const member = outer.get(field)
    const value = inner === undefined ? member : objectMembers(member).get(inner)
    if (value === undefined || !(value === "null" || starts[kind].test(value))) continue
    if (inner === undefined) part[field] = exactValue(value)
    else part[field] = { ...asObject(part[field]), [inner]: exactValue(value) }
  }
  return part
}

/** How the JSON text of a value of each kind starts. */
const starts = { text: /^"/, integer: /^[-\d]/, boolean: /^[tf]/ }

const objectMembers = (text: string | undefined): ReadonlyMap<string, string> =>
  text?.startsWith("{") === true ? membersOf(text) : new Map()

const asObject = (value: Json | undefined): object => typeof value === "object" && value !== null ? value : {}
