/** The rule about versions: a member that was removed or has another type raises the version of its output. */
import { assert, describe, it } from "@effect/vitest"
import { contract } from "@payments/program"
import { breakingChanges, refusalOf, versionOf } from "@payments/testkit/contract/SchemaChanges"
import {
  committedSchema,
  outputsPage,
  refusals,
  staleSchemas,
  withOutputs,
  writeOutputs
} from "@payments/testkit/contract/SchemaFiles"
import { Schema } from "effect"
import { readFileSync } from "node:fs"
import { all, outputs } from "../../src/contract/Outputs.ts"

const { integer, jsonOutput, nullable, optional, text } = contract

const schemas = contract.jsonSchemas(all)

/** A schema that is an object. */
interface Mutable {
  properties?: { [name: string]: Mutable }
  required?: Array<string>
  [keyword: string]: unknown
}

/** Returns every schema of an object in a schema. */
const objectsIn = (schema: unknown): ReadonlyArray<Mutable> => {
  if (typeof schema !== "object" || schema === null) return []
  const node = schema as Mutable // a JSON schema
  return [...node.properties === undefined ? [] : [node], ...Object.values(node).flatMap(objectsIn)]
}

interface Mutation {
  readonly name: string
  readonly member: string
  readonly before: object
  readonly after: object
}

/** Returns each schema once for each of its members, with a change of this member. */
const mutations = (change: (object: Mutable, member: string) => void): ReadonlyArray<Mutation> =>
  schemas.flatMap(({ name, schema: before }) =>
    objectsIn(before).flatMap((object, place) =>
      Object.keys(object.properties ?? {}).filter((member) => member !== "schemaVersion").map((member) => {
        const after = structuredClone(before)
        const changed = objectsIn(after)[place]
        if (changed !== undefined) change(changed, member)
        return { name, member, before, after }
      })
    )
  )

const raised = (schema: object): object =>
  JSON.parse(
    JSON.stringify(schema).replaceAll(
      /("schemaVersion":\{"type":"number","enum":\[)(\d+)/g,
      (_, start: string, version: string) => `${start}${Number(version) + 1}`
    )
  ) as object // a JSON schema

const refusalsOf = (cases: ReadonlyArray<Mutation>) =>
  cases.map(({ after, before, member, name }) => [`${name}.${member}`, refusalOf(name, before, after)] as const)

describe("a schema of an output", () => {
  it("is the committed one: run npm run docs", () => {
    assert.deepStrictEqual(refusals(schemas), [])
    assert.deepStrictEqual(staleSchemas(schemas), [])
    const page = readFileSync(outputsPage, "utf8")
    assert.strictEqual(page, withOutputs(page, "payments", all))
  })

  it("may not lose a member, or make it optional, without a new version", () => {
    const removed = mutations((object, member) => {
      delete object.properties?.[member]
    })
    const absent = mutations((object, member) => {
      object.required = (object.required ?? []).filter((name) => name !== member)
    }).filter(({ after, before }) => JSON.stringify(after) !== JSON.stringify(before))
    assert.isAbove(removed.length, 250)
    assert.isAbove(absent.length, 200)
    for (const [member, refusal] of refusalsOf([...removed, ...absent])) assert.isDefined(refusal, member)
    for (const { after, before, name } of [...removed, ...absent]) {
      assert.isUndefined(refusalOf(name, before, raised(after)))
    }
  })

  it("is not written by npm run docs if it needs a new version", () => {
    const [status] = contract.jsonSchemas([outputs.status])
    assert.isDefined(status)
    const removed = structuredClone(status)
    for (const { properties = {} } of objectsIn(removed.schema)) delete properties["ageSeconds"]
    const before = committedSchema(status)
    assert.throws(() => writeOutputs("payments", [], [removed]), "ageSeconds: was removed")
    assert.deepStrictEqual(committedSchema(status), before)
  })

  it("may not give a member another type without a new version", () => {
    const retyped = mutations((object, member) => {
      if (object.properties !== undefined) object.properties[member] = { type: "of another kind" }
    })
    for (const [member, refusal] of refusalsOf(retyped)) assert.isDefined(refusal, member)
    const isAny = (member: Mutable | undefined) => member !== undefined && Object.keys(member).length === 0
    const widened = mutations((object, member) => {
      if (object.properties !== undefined && !isAny(object.properties[member])) object.properties[member] = {}
    }).filter(({ after, before }) => JSON.stringify(after) !== JSON.stringify(before))
    for (const [member, refusal] of refusalsOf(widened)) assert.isDefined(refusal, member)
  })

  it("may have a new member, at any depth", () => {
    const added = mutations((object) => {
      if (object.properties !== undefined) object.properties["added"] = { type: "string" }
      object.required = [...object.required ?? [], "added"]
    })
    for (const [member, refusal] of refusalsOf(added)) assert.isUndefined(refusal, member)
  })

  it("names what a reader cannot rely on any more", () => {
    const schemaOf = (version: number, row: { readonly [name: string]: Schema.Top }) => {
      const [first] = contract.jsonSchemas([jsonOutput({ name: "x", version, description: "x", commands: [], row })])
      return first?.schema ?? {}
    }
    const before = schemaOf(2, {
      id: text,
      sum: integer,
      kind: Schema.Literals(["a", "b"]),
      inner: Schema.Array(Schema.Struct({ count: integer, gone: text })),
      by: Schema.Record(Schema.String, integer)
    })
    const after = {
      id: nullable(text),
      sum: text,
      kind: Schema.Literals(["a", "c"]),
      inner: optional(Schema.Array(Schema.Struct({ count: Schema.Finite }))),
      by: Schema.Record(Schema.String, text)
    }
    assert.sameMembers(
      [...new Set(breakingChanges(before, schemaOf(2, after)))],
      [
        "id: may be null now",
        "sum: may be string now",
        "sum: was integer",
        "kind: never is \"b\" now",
        "inner: may be absent now",
        "inner[].count: may be number now",
        "inner[].count: was integer",
        "inner[].gone: was removed",
        "by.*: may be string now",
        "by.*: was integer"
      ].map((line) => `${line}`)
    )
    assert.include(refusalOf("x", before, schemaOf(2, after)), "x: raise its version above 2")
    assert.isUndefined(refusalOf("x", before, schemaOf(3, after)))
    assert.include(refusalOf("x", before, schemaOf(1, after)), "lower")
    assert.strictEqual(versionOf(before), 2)
  })

  it("has exact amounts: never a number with a fraction", () => {
    const fractions = schemas.flatMap(({ name, schema }) =>
      objectsIn(schema).flatMap(({ properties = {} }) =>
        Object.entries(properties).filter(([member, type]) =>
          member !== "schemaVersion" && JSON.stringify(type).includes("\"type\":\"number\"")
        ).map(([member]) => `${name}.${member}`)
      )
    )
    // Durations, and the values of any column.
    assert.sameMembers([...new Set(fractions)], [
      "export.seconds",
      "export.lists",
      "export-summary.seconds",
      "export-summary.lists",
      "export-summary.summary",
      "status.ageSeconds",
      "status.maxAgeSeconds",
      "status.oldestOpenSeconds",
      "status.maxOpenSeconds",
      "query.items",
      "mcp-answer.ageSeconds"
    ])
  })
})
