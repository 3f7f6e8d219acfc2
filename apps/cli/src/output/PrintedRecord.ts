/** Reads the fields of a record from its exact text, because parsing rounds some numbers. */
import type { FieldPath } from "@payments/copy"
import { membersOf, parseText } from "@payments/core"

/** Returns the exact JSON text of a field, or undefined if the record does not have it. */
export type ReadField = (path: Pick<FieldPath, "names">) => string | undefined

/** Makes a reader of the fields of a record. It reads the members of each object once. */
export const fieldReader = (record: string): ReadField => {
  const objects = new Map<string, ReadonlyMap<string, string>>()
  const member = (object: string, name: string): string | undefined => {
    if (!object.startsWith("{")) return undefined
    let members = objects.get(object)
    if (members === undefined) objects.set(object, members = membersOf(object))
    return members.get(name)
  }
  return ({ names }) => {
    let text: string | undefined = record
    for (const name of names) {
      if (text === undefined) return undefined
      text = member(text, name)
    }
    return text
  }
}

/** Returns the text that people read: a string without quotes, any other value as its JSON text. */
export const plainText = (json: string): string => json.startsWith("\"") ? String(parseText(json)) : json

/** The fields to keep of an object, by name; `true` keeps the whole member. */
interface Kept extends ReadonlyMap<string, true | Kept> {}

/** Returns a function that keeps only these fields of a record, in this order. Their texts stay exact. */
export const projection = (paths: ReadonlyArray<FieldPath>): (record: string) => string => {
  const kept = keptFields(paths.map(({ names }) => names))
  return (record) => record.startsWith("{") ? project(record, kept) : record
}

const keptFields = (paths: ReadonlyArray<ReadonlyArray<string>>): Kept => {
  const inner = Map.groupBy(paths, ([name = ""]) => name)
  return new Map(Array.from(inner, ([name, group]) => [
    name,
    group.some(({ length }) => length === 1) || keptFields(group.map((names) => names.slice(1)))
  ]))
}

const project = (object: string, kept: Kept): string => {
  const members = membersOf(object)
  const texts: Array<string> = []
  for (const [name, inner] of kept) {
    const member = members.get(name)
    // Null is kept, because it is distinct from an absent object.
    if (member === undefined || (inner !== true && member !== "null" && !member.startsWith("{"))) continue
    texts.push(`${JSON.stringify(name)}:${inner === true || member === "null" ? member : project(member, inner)}`)
  }
  return `{${texts.join(",")}}`
}
