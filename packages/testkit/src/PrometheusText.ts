/** Reads Prometheus' text format, version 0.0.4, and fails on anything that the format does not allow. */
import { assert } from "@effect/vitest"

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** Includes the samples of its buckets, sum and count. */
export interface Family {
  readonly type: string
  readonly help: string
  readonly samples: ReadonlyArray<Sample>
}

const escapes: Readonly<Record<string, string>> = { "\\\\": "\\", "\\\"": "\"", "\\n": "\n" }

export const parsePrometheus = (text: string): ReadonlyMap<string, Family> => {
  assert.isTrue(text.endsWith("\n"), "the last line has no end")
  const families = new Map<string, { type: string; help: string; samples: Array<Sample> }>()
  const seen = new Set<string>()
  let current:
    | { readonly name: string; readonly family: { type: string; help: string; samples: Array<Sample> } }
    | undefined
  for (const line of text.slice(0, -1).split("\n")) {
    const [, kind, metric, rest] = /^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$/.exec(line) ?? []
    if (kind === "HELP" && metric !== undefined) {
      assert.isFalse(families.has(metric), `${metric} occurs in two places`)
      current = { name: metric, family: { type: "untyped", help: rest ?? "", samples: [] } }
      families.set(metric, current.family)
      continue
    }
    if (kind === "TYPE") {
      assert.strictEqual(current?.name, metric, line)
      assert.include(["counter", "gauge", "histogram"], rest)
      if (current !== undefined) current.family.type = rest ?? ""
      continue
    }
    const [, name = "", braces = "", value = ""] =
      /^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*",?)*\})? (\S+)$/.exec(
        line
      ) ??
        assert.fail(`not a line of the format: ${line}`)
    assert.match(value, /^(?:[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|\+Inf|-Inf|NaN)$/, line)
    const own = current ?? assert.fail(`a sample before its TYPE: ${line}`)
    const suffix = name.slice(own.name.length)
    const suffixes = own.family.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""]
    assert.isTrue(name.startsWith(own.name) && suffixes.includes(suffix), `${line} stands under ${own.name}`)
    assert.isFalse(seen.has(name + braces), `the series occurs twice: ${line}`)
    seen.add(name + braces)
    own.family.samples.push({
      name,
      labels: Object.fromEntries(
        [...braces.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)].map(([, label = "", escaped = ""]) => [
          label,
          escaped.replaceAll(/\\[\\"n]/g, (escape) => escapes[escape] ?? escape)
        ])
      ),
      value: value.endsWith("Inf") ? Number(value.replace("Inf", "Infinity")) : Number(value)
    })
  }
  return families
}

/** Returns the value of the series with these labels, or undefined if it does not exist. */
export const valueOf = (
  families: ReadonlyMap<string, Family>,
  name: string,
  labels: Readonly<Record<string, string>> = {}
): number | undefined => {
  const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ""))
  return family?.samples.find((sample) =>
    sample.name === name && Object.entries(labels).every(([label, value]) => sample.labels[label] === value)
  )?.value
}
