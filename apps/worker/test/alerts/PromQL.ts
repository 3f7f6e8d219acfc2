/**
 * Evaluates alert rules, as far as the rules of `deploy/prometheus` need it: selectors with matchers and `offset`, `min`, `max`
 * and `sum` over labels, comparisons, arithmetic, `or`, `unless` and `absent`. The grammar is Prometheus' own. Anything else
 * fails, so a rule is never evaluated wrongly in silence. The same unit tests pass in promtool 2.42.
 *
 * https://prometheus.io/docs/prometheus/latest/querying/basics/
 */
import type { SyntaxNode } from "@lezer/common"
import { parser } from "@prometheus-io/lezer-promql"

export type Labels = Readonly<Record<string, string>>

/** A series in memory. A sample holds for 5 minutes, until the next one or until it becomes stale. */
export interface Series {
  readonly labels: Labels
  /** The value at each minute; null: no sample; "stale": the series ended. */
  readonly samples: ReadonlyArray<number | null | "stale">
}

/** A value with its labels. */
export interface Element {
  readonly labels: Labels
  readonly value: number
}

type Vector = ReadonlyArray<Element>
type Query = (series: ReadonlyArray<Series>, minute: number) => Vector | number

const lookback = 5

/** Compiles an expression. */
export const compile = (text: string): Query => {
  const tree = parser.parse(text)
  const root = tree.topNode.firstChild
  if (root === null) throw new Error(`empty expression: ${text}`)
  tree.iterate({
    enter: ({ from, type }) => {
      if (type.isError) throw new Error(`invalid expression at ${from}: ${text}`)
    }
  })
  return queryOf(root, text)
}

const queryOf = (node: SyntaxNode, text: string): Query => {
  const children = childrenOf(node)
  const [first, second, third] = children
  switch (node.name) {
    case "NumberDurationLiteral": {
      const number = Number(text.slice(node.from, node.to))
      return () => number
    }
    case "ParenExpr":
      return queryOf(only(first), text)
    case "VectorSelector":
      return select(node, text, 0)
    case "OffsetExpr": {
      const [, amount = "", unit = ""] = /^(\d+)([mhd])$/.exec(text.slice(only(third).from, only(third).to)) ?? []
      return select(only(first), text, Number(amount) * minutes(unit))
    }
    case "AggregateExpr":
      return aggregate(node, text)
    case "FunctionCall": {
      if (text.slice(only(first).from, only(first).to) !== "absent") throw new Error(`unknown function in ${text}`)
      const argument = queryOf(only(only(second).firstChild), text)
      return (series, minute) => vector(argument(series, minute)).length === 0 ? [{ labels: {}, value: 1 }] : []
    }
    case "BinaryExpr":
      if (children.length !== 3) throw new Error(`unknown modifier in ${text}`)
      return binary(only(second).name, queryOf(only(first), text), queryOf(only(third), text))
    default:
      throw new Error(`unknown ${node.name} in ${text}`)
  }
}

const minutes = (unit: string): number => unit === "m" ? 1 : unit === "h" ? 60 : unit === "d" ? 1440 : Number.NaN

const only = (node: SyntaxNode | null | undefined): SyntaxNode => {
  if (node === null || node === undefined) throw new Error("the expression is incomplete")
  return node
}

const childrenOf = (node: SyntaxNode): ReadonlyArray<SyntaxNode> => {
  const children: Array<SyntaxNode> = []
  for (let child = node.firstChild; child !== null; child = child.nextSibling) children.push(child)
  return children
}

const vector = (value: Vector | number): Vector => {
  if (typeof value === "number") throw new Error("expected a vector")
  return value
}

const select = (node: SyntaxNode, text: string, offset: number): Query => {
  const [identifier, matchers] = childrenOf(node)
  const name = text.slice(only(identifier).from, only(identifier).to)
  const tests = childrenOf(matchers ?? only(identifier)).map((matcher) => {
    const [label, op, value] = childrenOf(matcher).map(({ from, to }) => text.slice(from, to))
    const wanted: unknown = JSON.parse(value ?? "")
    const pattern = new RegExp(`^(?:${String(wanted)})$`)
    return (labels: Labels) => {
      const own = labels[label ?? ""] ?? ""
      const isEqual = op?.endsWith("~") === true ? pattern.test(own) : own === wanted
      return op?.startsWith("!") === true ? !isEqual : isEqual
    }
  })
  return (series, minute) =>
    series.flatMap(({ labels: { __name__, ...labels }, samples }) => {
      if (__name__ !== name || !tests.every((test) => test(labels))) return []
      for (let at = minute - offset; at >= 0 && at > minute - offset - lookback; at--) {
        const sample = samples[at] ?? null
        if (sample === "stale") return []
        if (sample !== null) return [{ labels, value: sample }]
      }
      return []
    })
}

const key = (labels: Labels): string =>
  JSON.stringify(Object.entries(labels).toSorted(([left], [right]) => left < right ? -1 : 1))

const operators: { readonly [name: string]: (left: number, right: number) => number } = {
  Min: Math.min,
  Max: Math.max,
  Sum: (left, right) => left + right
}

const aggregate = (node: SyntaxNode, text: string): Query => {
  const [operator, modifier, body] = childrenOf(node)
  const combine = operators[only(only(operator).firstChild).name]
  const [kind, labelList] = childrenOf(only(modifier))
  const names = new Set(childrenOf(only(labelList)).map(({ from, to }) => text.slice(from, to)))
  if (combine === undefined || only(modifier).name !== "AggregateModifier") {
    throw new Error(`unknown aggregation: ${text}`)
  }
  const argument = queryOf(only(only(body).firstChild), text)
  return (series, minute) => {
    const groups = new Map<string, Element>()
    for (const { labels, value } of vector(argument(series, minute))) {
      const kept = Object.fromEntries(
        Object.entries(labels).filter(([name]) => names.has(name) === (only(kind).name === "By"))
      )
      const group = groups.get(key(kept))
      groups.set(key(kept), { labels: kept, value: group === undefined ? value : combine(group.value, value) })
    }
    return [...groups.values()]
  }
}

const comparisons: { readonly [name: string]: (left: number, right: number) => boolean } = {
  Gtr: (left, right) => left > right,
  Lss: (left, right) => left < right,
  Gte: (left, right) => left >= right,
  Lte: (left, right) => left <= right,
  Eql: (left, right) => left === right,
  Neq: (left, right) => left !== right
}

const binary = (operator: string, left: Query, right: Query): Query => {
  const compare = comparisons[operator]
  return (series, minute) => {
    const a = left(series, minute)
    const b = right(series, minute)
    if (typeof a === "number" && typeof b === "number") {
      if (operator === "Mul") return a * b
      throw new Error(`unknown operator ${operator} of numbers`)
    }
    const known = typeof b === "number" ? undefined : new Map(b.map((element) => [key(element.labels), element]))
    if (compare !== undefined) {
      return vector(a).filter(({ labels, value }) => {
        const other = known === undefined ? b : known.get(key(labels))?.value
        return typeof other === "number" && compare(value, other)
      })
    }
    if (operator === "Unless") return vector(a).filter(({ labels }) => known?.has(key(labels)) !== true)
    if (operator === "Or") {
      const own = new Set(vector(a).map(({ labels }) => key(labels)))
      return [...vector(a), ...vector(b).filter(({ labels }) => !own.has(key(labels)))]
    }
    throw new Error(`unknown operator ${operator}`)
  }
}

/** Parses a series of promtool's unit tests: its name with labels, and values such as `0+60x30 _x3 stale`. */
export const parseSeries = (series: string, values: string): Series => {
  const [, name = "", braces = ""] = /^(\w+)\{(.*)\}$/.exec(series) ?? []
  const labels = Object.fromEntries(
    [...braces.matchAll(/(\w+)="([^"]*)"/g)].map(([, label = "", value = ""]) => [label, value])
  )
  return { labels: { __name__: name, ...labels }, samples: values.trim().split(/\s+/).flatMap(samplesOf) }
}

const samplesOf = (text: string): ReadonlyArray<number | null | "stale"> => {
  if (text === "stale") return ["stale"]
  const [gap, missing = "1"] = /^_(?:x(\d+))?$/.exec(text) ?? []
  if (gap !== undefined) return Array.from({ length: Number(missing) }, () => null)
  const [, start = "", step = "0", times = "0"] = /^(-?\d+)([+-]\d+)?(?:x(\d+))?$/.exec(text) ?? []
  if (start === "") throw new Error(`unknown values: ${text}`)
  return Array.from({ length: Number(times) + 1 }, (_, index) => Number(start) + index * Number(step))
}

/** Returns what fires at a minute. An alert fires if its condition has held at every minute for `forMinutes`. */
export const firing = (
  query: Query,
  forMinutes: number,
  series: ReadonlyArray<Series>,
  minute: number
): ReadonlyArray<Element> =>
  vector(query(series, minute)).filter(({ labels }) => {
    for (let earlier = minute - 1; earlier >= minute - forMinutes; earlier--) {
      if (earlier < 0 || !vector(query(series, earlier)).some((element) => key(element.labels) === key(labels))) {
        return false
      }
    }
    return true
  })

/** Returns the metrics and labels that an expression uses, with the values of its matchers. */
export const namesIn = (text: string) => {
  const metrics: Array<string> = []
  const labels: Array<{ readonly metric: string; readonly label: string; readonly values: ReadonlyArray<string> }> = []
  parser.parse(text).iterate({
    enter: ({ from, name, node, to, type }) => {
      if (type.isError) throw new Error(`invalid expression at ${from}: ${text}`)
      if (name === "Identifier") metrics.push(text.slice(from, to))
      if (name === "UnquotedLabelMatcher") {
        const [label = "", , value = ""] = childrenOf(node).map((child) => text.slice(child.from, child.to))
        const [identifier] = childrenOf(only(only(node.parent).parent))
        const metric = text.slice(only(identifier).from, only(identifier).to)
        labels.push({ metric, label, values: value.slice(1, -1).split("|") })
      }
      if (name === "GroupingLabels") {
        for (const child of childrenOf(node)) {
          labels.push({ metric: "", label: text.slice(child.from, child.to), values: [] })
        }
      }
    }
  })
  return { metrics, labels }
}
