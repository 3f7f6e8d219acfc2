/**
 * A service whose records have canaries, and a search for them. A canary is a text that occurs nowhere else. It stands
 * in every documented field and in undocumented fields: nested, in arrays, in escaped spelling and under repeated
 * names. It also stands in values of a wrong type, in records without an id, and in records that nest too deep. Some
 * texts with canaries are longer than a page of a database.
 */
import { Lists } from "@payments/core"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { gunzipSync, zstdDecompressSync } from "node:zlib"
import { listen } from "../Listening.ts"
import { pageOf } from "../ScriptedServer.ts"
import type { Dice } from "../Seed.ts"

/** Each half of a prefix is searched, so a canary is found even if a page of a database ends in it. */
const halfLength = 8

/** The two persons of the service. One of them is erased. */
export const persons = ["erased", "other"] as const
export type Person = typeof persons[number]

/**
 * What a canary stands in. `person`: a field that identifies a person, an undocumented one, or a value of a wrong type.
 * `payment`: a field that identifies a payment.
 */
export const places = ["person", "payment"] as const
export type Place = typeof places[number]

/** The canaries of one person in one kind of place have a prefix that no other canary has. */
export interface Canaries {
  /** Returns the canary of a field, the same one for the same name. */
  readonly of: (person: Person, place: Place, name: string) => string
  readonly prefixOf: (person: Person, place: Place) => string
  /** All canaries that were made. */
  readonly made: () => ReadonlySet<string>
}

const groupOf = (person: Person, place: Place): string => `${person} ${place}`

const groups = persons.flatMap((person) => places.map((place) => groupOf(person, place)))

export const makeCanaries = (dice: Dice): Canaries => {
  const letters = "abcdefghijklmnopqrstuvwxyz"
  const prefixes = new Map(
    groups.map((group) => [group, Array.from({ length: 2 * halfLength }, () => letters[dice.below(26)]).join("")])
  )
  const prefixOf = (person: Person, place: Place): string => prefixes.get(groupOf(person, place)) ?? ""
  const made = new Map<string, string>()
  return {
    prefixOf,
    made: () => new Set(made.values()),
    of: (person, place, name) => {
      const key = `${groupOf(person, place)} ${name}`
      const canary = made.get(key) ?? `${prefixOf(person, place)}${String(made.size).padStart(4, "0")}`
      made.set(key, canary)
      return canary
    }
  }
}

/** The id of a payout request of the erased person that names no person in a documented field. */
export const soloId = "payout-requests-erased-solo"

/** What an erasure of the person gets as its arguments. */
export const criteriaOf = (canaries: Canaries, person: Person) => ({
  customerId: canaries.of(person, "person", "customerId"),
  documentNumber: canaries.of(person, "person", "documentNumber")
})

const shapes = [
  "plain",
  "escaped",
  "repeated",
  "array",
  "wrong",
  "noId",
  "nullId",
  "deep",
  "long",
  "gone",
  "changing",
  "solo"
] as const
type Shape = typeof shapes[number]

/** With `escaped`, all characters are spelled as escapes (RFC 8259 §7). */
const stringText = (value: string, escaped: boolean): string =>
  escaped
    ? `"${value.split("").map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`
    : JSON.stringify(value)

/** `version` is the number of the scan that reads the records, from 1. */
const recordsOf = (canaries: Canaries, list: Lists.AnyList, person: Person, version: number): ReadonlyArray<string> =>
  shapes.flatMap((shape) => {
    const isHere = shape === "gone" ? version === 1 : shape === "solo" ? list.name === "payoutRequests" : true
    return isHere ? [recordOf({ canaries, list, person, shape, version })] : []
  })

const recordOf = ({ canaries, list, person, shape, version }: {
  readonly canaries: Canaries
  readonly list: Lists.AnyList
  readonly person: Person
  readonly shape: Shape
  readonly version: number
}): string => {
  const id = `${list.label}-${person}-${shape}`
  const isEscaped = shape === "escaped"
  const canary = (name: string, place: Place = "person") => canaries.of(person, place, `${list.label} ${shape} ${name}`)
  const text = (value: string) => stringText(value, isEscaped)
  const valueOf = ({ identifies, kind, path }: Lists.FieldMeaning): string | undefined => {
    const name = path.join(".")
    const last = path.at(-1) ?? ""
    if (name === "id") return shape === "noId" ? undefined : shape === "nullId" ? "null" : text(id)
    if (last === "customerId" || /documentNumber$/i.test(last)) {
      // Records of this shape name the person in no documented field.
      if (shape === "solo") return undefined
      return text(canaries.of(person, "person", last === "customerId" ? "customerId" : "documentNumber"))
    }
    if (name === "paymentUrl") return text(`https://pay.example.com/pay/m1/${id}?token=${canary(name, "payment")}`)
    if (identifies === "payment") return text(canary(name, "payment"))
    if (identifies === "person") {
      const value = canary(shape === "changing" && last === "description" ? `${name} ${version}` : name)
      return text(shape === "long" ? longText(value) : value)
    }
    if (shape === "wrong") return kind === "text" ? `{${text("x")}:${text(canary(name))}}` : text(canary(name))
    if (shape === "changing" && last === "status") return text(`state${version}`)
    return kind === "text" ? text("2024-05-01T10:00:00Z") : kind === "integer" ? String(1000 + path.length) : "true"
  }
  const objects = new Map<string, Array<string>>()
  const members: Array<string> = []
  for (const field of Lists.fieldMeanings(list)) {
    const value = valueOf(field)
    if (value === undefined) continue
    const [outer, inner] = field.path
    if (inner === undefined) members.push(`${text(outer)}:${value}`)
    else objects.set(outer, [...objects.get(outer) ?? [], `${text(inner)}:${value}`])
  }
  for (const [name, inner] of objects) {
    const object = `{${[...inner, `${text("nickname")}:${text(canary(`${name}.nickname`))}`].join(",")}}`
    if (shape === "repeated") {
      members.push(`${stringText(name, true)}:{${text("email")}:${text(canary(`${name} first`))}}`)
    }
    members.push(`${text(name)}:${shape === "array" ? `[${object},${text(canary(`${name} element`))}]` : object}`)
  }
  members.push(
    `${text("metadata")}:{${text("owner")}:{${text("mail")}:[${text(canary("metadata"))},{${text("x")}:${
      text(canary("metadata element"))
    }}]}}`,
    // A name that is a value, such as a document number.
    `${text(`n-${canary("name of a field")}`)}:1`
  )
  if (shape === "deep") members.push(`${text("deep")}:${"[".repeat(600)}${text(canary("deep"))}${"]".repeat(600)}`)
  return `{${members.join(",")}}`
}

/** The text needs several pages of a database. */
const longText = (canary: string): string => `${"x".repeat(1500)}${canary}${"y".repeat(3000)}${canary}`

/** Records that name nobody: enough that lists have several pages. */
const othersOf = (list: Lists.AnyList, count: number): ReadonlyArray<string> =>
  Array.from({ length: count }, (_, index) => {
    const id = `${list.label}-${index}`
    const paymentUrl = `https://pay.example.com/pay/m1/${id}`
    return JSON.stringify({
      id,
      amount: index,
      ...list.merchantIdIn === undefined ? { customerId: `customer${index % 50}` } : { paymentUrl }
    })
  })

/** Records that are no objects. They name no person, so no erasure finds them. */
const looseRecords = (canaries: Canaries, list: Lists.AnyList): ReadonlyArray<string> => [
  JSON.stringify(canaries.of("other", "person", `${list.label} text`)),
  JSON.stringify([canaries.of("other", "person", `${list.label} array`)])
]

export interface CanaryService {
  readonly url: string
  /** Serves the records of that version. */
  readonly serve: (version: number) => void
  readonly close: () => void
}

/** `others` is the number of records of each list that have no canary. */
export const startCanaryService = async (canaries: Canaries, others: number): Promise<CanaryService> => {
  const textsOf = (version: number) =>
    Lists.map((list) => [
      ...othersOf(list, others),
      ...persons.flatMap((person) => recordsOf(canaries, list, person, version)),
      ...looseRecords(canaries, list)
    ])
  let texts = textsOf(1)
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://localhost")
    const list = Lists.all.find(({ path }) => path === url.pathname)
    if (list === undefined) return void response.writeHead(404).end()
    const from = Number(url.searchParams.get("cursor") ?? 0)
    const end = from + Number(url.searchParams.get("limit") ?? 100)
    const all = texts[list.name]
    pageOf(response, all.slice(from, end), end < all.length ? String(end) : null)
  })
  const { close, port } = await listen(server)
  return { url: `http://127.0.0.1:${port}`, serve: (version) => void (texts = textsOf(version)), close }
}

/** The forms in which bytes may contain the text. */
const formsOf = (text: string): ReadonlyArray<Buffer> => {
  const bytes = Buffer.from(text)
  const hex = bytes.toString("hex")
  const escaped = stringText(text, true).slice(1, -1)
  // In base64, the characters depend on the position of the text. The first and the last depend on its neighbours too.
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.concat([Buffer.alloc(shift), bytes]).toString("base64").replaceAll("=", "").slice(shift === 0 ? 0 : 4, -2)
  )
  return [
    bytes,
    Buffer.from(text.toUpperCase()),
    Buffer.from(text, "utf16le"),
    Buffer.from(text, "utf16le").swap16(),
    ...[hex, hex.toUpperCase(), escaped, escaped.toUpperCase().replaceAll("\\U", "\\u"), ...base64].map((form) =>
      Buffer.from(form)
    )
  ]
}

/** What a search looks for: the canaries of one person in one kind of place. */
export interface Wanted {
  readonly person: Person
  readonly place: Place
}

/** The function says where bytes with a name contain these canaries, in any form. */
export const makeSearch = (canaries: Canaries, wanted: ReadonlyArray<Wanted>) => {
  const forms = wanted.flatMap(({ person, place }) => {
    const prefix = canaries.prefixOf(person, place)
    return [prefix.slice(0, halfLength), prefix.slice(halfLength)].flatMap(formsOf)
      .map((form) => ({ form, what: groupOf(person, place) }))
  })
  return (name: string, bytes: Buffer): ReadonlyArray<string> =>
    layersOf(bytes).flatMap((layer, depth) => {
      const found = forms.find(({ form }) => layer.includes(form))
      return found === undefined
        ? []
        : [
          `${name}${depth === 0 ? "" : " (decompressed)"}: ${found.what} as ${
            found.form.toString("latin1").slice(0, 24)
          }`
        ]
    })
}

/** The bytes, and what they contain in gzip or zstd. */
const layersOf = (bytes: Buffer): ReadonlyArray<Buffer> => {
  const layers = [bytes]
  for (let at = bytes.indexOf(gzipMagic); at !== -1; at = bytes.indexOf(gzipMagic, at + 1)) {
    const layer = decompressed(() => gunzipSync(bytes.subarray(at)))
    if (layer !== undefined) layers.push(layer)
  }
  const layer = bytes.subarray(0, 4).equals(zstdMagic) ? decompressed(() => zstdDecompressSync(bytes)) : undefined
  return layer === undefined ? layers : [...layers, layer]
}

const gzipMagic = Buffer.from([0x1f, 0x8b, 0x08])
const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd])

const decompressed = (decompress: () => Buffer): Buffer | undefined => {
  try {
    return decompress()
  } catch {
    // These bytes only begin like compressed ones.
    return undefined
  }
}

/** Returns the bytes by relative path. Leaves out folders of the names in `except`. */
export const filesIn = (folder: string, except: ReadonlyArray<string> = []): ReadonlyArray<readonly [string, Buffer]> =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry): ReadonlyArray<readonly [string, Buffer]> => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) {
      if (except.includes(entry.name)) return []
      return filesIn(path, except).map(([name, bytes]) => [join(entry.name, name), bytes])
    }
    return entry.isFile() ? [[entry.name, readFileSync(path)]] : []
  })

/** Finds canaries that the bytes contain unchanged. */
export const canariesIn = (canaries: Canaries, contents: ReadonlyArray<Buffer>): ReadonlySet<string> => {
  const prefixes = persons.flatMap((person) => places.map((place) => canaries.prefixOf(person, place)))
  const pattern = new RegExp(`(?:${prefixes.join("|")})\\d{4}`, "g")
  return new Set(contents.flatMap((bytes) => bytes.toString("latin1").match(pattern) ?? []))
}
