/**
 * The rule about versions: which changes of a JSON schema need a new version of its output. A reader relies on every
 * member that is always there, and on its types. New members, and new values of an enumeration, need none.
 */

interface Node {
  readonly [keyword: string]: unknown
}

interface Schema {
  readonly root: Node
  readonly definitions: { readonly [name: string]: Node }
}

/** Returns what a reader of the schema `before` cannot rely on any more. Each line begins with the path of the member. */
export const breakingChanges = (before: object, after: object): ReadonlyArray<string> =>
  compare(alternatives(schemaOf(before)), alternatives(schemaOf(after)), "")

/** Returns the version in a schema of an output. */
export const versionOf = (schema: object): number => {
  const found = JSON.stringify(schema).match(/"schemaVersion":\{"type":"number","enum":\[(\d+)\]\}/)
  if (found === null) throw new Error("The schema has no schemaVersion.")
  return Number(found[1])
}

/** Returns why the schema `after` of an output may not replace `before`; undefined if it may. */
export const refusalOf = (name: string, before: object, after: object): string | undefined => {
  const [old, current] = [versionOf(before), versionOf(after)]
  if (current < old) return `${name}: the version ${current} is lower than ${old}.`
  const changes = current > old ? [] : breakingChanges(before, after)
  return changes.length === 0
    ? undefined
    : `${name}: raise its version above ${old}, because a reader may rely on what has changed.\n${changes.join("\n")}`
}

interface Resolved {
  readonly node: Node
  readonly definitions: Schema["definitions"]
}

// The schemas of this project are objects.
const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && !Array.isArray(value)
const nodeOf = (value: unknown): Node => isNode(value) ? value : {}

const schemaOf = (schema: object): Resolved => {
  const node = nodeOf(schema)
  const definitions = Object.fromEntries(
    Object.entries(nodeOf(node["$defs"])).map(([name, definition]) => [name, nodeOf(definition)])
  )
  return { node, definitions }
}

/** Returns the kinds of values that a schema allows, each with its schema. */
const alternatives = ({ definitions, node }: Resolved): ReadonlyMap<string, Resolved> => {
  const reference = node["$ref"]
  if (typeof reference === "string") {
    const name = reference.replace("#/$defs/", "")
    // The document and the row of an output are both objects.
    return new Map(
      Array.from(
        alternatives({ definitions, node: definitions[name] ?? {} }),
        ([type, inner]) => [`${type} (${name})`, inner]
      )
    )
  }
  const choices = node["anyOf"] ?? node["oneOf"]
  if (Array.isArray(choices)) {
    return new Map(choices.flatMap((choice) => [...alternatives({ definitions, node: nodeOf(choice) })]))
  }
  const { type } = node
  return new Map([[typeof type === "string" ? type : "anything", { definitions, node }]])
}

const compare = (
  before: ReadonlyMap<string, Resolved>,
  after: ReadonlyMap<string, Resolved>,
  path: string
): ReadonlyArray<string> => {
  const at = path === "" ? "(output)" : path
  return [
    ...[...after.keys()].filter((type) => !before.has(type)).map((type) => `${at}: may be ${type} now`),
    ...[...before].flatMap(([type, old]) => {
      const current = after.get(type)
      return current === undefined ? [`${at}: was ${type}`] : compareOne(old, current, path)
    })
  ]
}

const compareOne = (before: Resolved, after: Resolved, path: string): ReadonlyArray<string> => [
  ...compareMembers(before, after, path),
  ...compareInner("items", before, after, `${path}[]`),
  ...compareInner("additionalProperties", before, after, `${path}.*`),
  ...compareValues(before.node["enum"], after.node["enum"], path)
]

const compareMembers = (before: Resolved, after: Resolved, path: string): ReadonlyArray<string> => {
  const members = nodeOf(after.node["properties"])
  const isRequired = ({ node }: Resolved, name: string): boolean =>
    Array.isArray(node["required"]) && node["required"].includes(name)
  return Object.entries(nodeOf(before.node["properties"])).flatMap(([name, member]) => {
    const inner = path === "" ? name : `${path}.${name}`
    // Its value is the version.
    if (path === "" && name === "schemaVersion" && name in members) return []
    if (!(name in members)) return [`${inner}: was removed`]
    return [
      ...isRequired(before, name) && !isRequired(after, name) ? [`${inner}: may be absent now`] : [],
      ...compare(
        alternatives({ definitions: before.definitions, node: nodeOf(member) }),
        alternatives({ definitions: after.definitions, node: nodeOf(members[name]) }),
        inner
      )
    ]
  })
}

/** Compares the elements of arrays, or the members of objects that have any names. */
const compareInner = (keyword: string, before: Resolved, after: Resolved, path: string): ReadonlyArray<string> => {
  const [old, current] = [before.node[keyword], after.node[keyword]]
  if (!isNode(old)) return []
  return isNode(current)
    ? compare(
      alternatives({ definitions: before.definitions, node: old }),
      alternatives({ definitions: after.definitions, node: current }),
      path.replace(/^\[\]$/, "")
    )
    : [`${path}: may be anything now`]
}

/** Without an enumeration, the value may be any of its type. */
const compareValues = (before: unknown, after: unknown, path: string): ReadonlyArray<string> => {
  if (!Array.isArray(before)) return []
  if (!Array.isArray(after)) return [`${path}: may have any value now`]
  return before.filter((value) => !after.includes(value)).map((value) =>
    `${path}: never is ${JSON.stringify(value)} now`
  )
}
