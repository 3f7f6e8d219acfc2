/** The alert rules and the dashboard in `deploy`, against the registry of metrics and the docs. */
import { assert, describe, it } from "@effect/vitest"
import { MetricDefinitions } from "@payments/program"
import { spawnSync } from "@payments/testkit/TestProcess"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { pageFile, withMetrics } from "../../docs.ts"
import { root, rules, ruleTests, text } from "./AlertRules.ts"
import { compile, firing, namesIn, parseSeries } from "./PromQL.ts"

const dashboard = JSON.parse(text("deploy/grafana/dashboard.json")) as {
  readonly templating: { readonly list: ReadonlyArray<{ readonly query: string | { readonly query: string } }> }
  readonly panels: ReadonlyArray<
    {
      readonly title: string
      readonly targets: ReadonlyArray<{ readonly expr: string; readonly legendFormat: string }>
    }
  >
}

const definitions: { readonly [name: string]: MetricDefinitions.Definition } = MetricDefinitions.definitions

/** The labels that Prometheus adds when it scrapes. */
const scraped = ["job", "instance", "pod", "namespace"]

/** Returns the labels of the series with this name, which may be one of a histogram. */
const labelsOf = (series: string): { readonly [label: string]: ReadonlyArray<string> | undefined } => {
  const base = series.replace(/_(bucket|sum|count)$/, "")
  const definition = definitions[series] ?? (definitions[base]?.type === "histogram" ? definitions[base] : undefined)
  assert.isDefined(definition, `${series} is not a metric`)
  const own = {
    process: [],
    source: ["source"],
    list: ["source", "list"],
    handoff: ["source", "consumer"]
  }[definition?.per ?? "process"]
  return {
    ...Object.fromEntries([...own, ...(series.endsWith("_bucket") ? ["le"] : [])].map((label) => [label, undefined])),
    ...definition?.labels
  }
}

/** Fails if the expression uses a metric, a label or a label's value that does not exist. */
const check = (expr: string) => {
  const { labels, metrics } = namesIn(expr)
  assert.isAbove(metrics.length, 0, expr)
  const known = new Set([...scraped, ...metrics.flatMap((metric) => Object.keys(labelsOf(metric)))])
  for (const { label, metric, values } of labels) {
    assert.isTrue(known.has(label), `${label} in ${expr}`)
    const closed = metric === "" ? undefined : labelsOf(metric)[label]
    if (metric !== "") assert.include([...scraped, ...Object.keys(labelsOf(metric))], label, expr)
    if (closed !== undefined) { for (const value of values) assert.include(closed, value, expr) }
  }
  return known
}

const minutesOf = (duration: string): number =>
  [...duration.matchAll(/(\d+)([dhm])/g)].reduce(
    (sum, [, amount, unit]) => sum + Number(amount) * (unit === "d" ? 1440 : unit === "h" ? 60 : 1),
    0
  )

describe("the alert rules", () => {
  it.each(rules)("$alert uses only metrics and labels that exist, and has a paragraph in docs/alerts.md", (rule) => {
    const known = check(rule.expr)
    const { annotations, labels } = rule
    assert.include(["critical", "warning"], labels["severity"])
    assert.deepStrictEqual(Object.keys(annotations).toSorted(), ["description", "runbook", "summary"])
    for (const [, label = ""] of Object.values(annotations).join(" ").matchAll(/\$labels\.(\w+)/g)) {
      assert.isTrue(known.has(label), label)
    }
    assert.strictEqual(annotations["runbook"], `docs/alerts.md#${rule.alert.toLowerCase()}`)
    const [, paragraph = ""] = new RegExp(`\n## ${rule.alert}\n\n([^#]*)`).exec(text("docs/alerts.md")) ?? []
    assert.isAbove(paragraph.length, 200)
    // A rule without a unit test could never fire.
    const tested = ruleTests.flatMap((each) => each.alert_rule_test).filter(({ alertname }) => alertname === rule.alert)
    assert.isTrue(tested.some(({ exp_alerts = [] }) => exp_alerts.length > 0))
    assert.isTrue(tested.some(({ exp_alerts = [] }) => exp_alerts.length === 0))
  })

  it("have a heading each in docs/alerts.md, and no other heading looks like an alert", () => {
    const headings = [...text("docs/alerts.md").matchAll(/^## (Payments\w+)$/gm)].map(([, heading]) => heading)
    assert.deepStrictEqual(headings, rules.map(({ alert }) => alert))
  })

  it.each(ruleTests.map((ruleTest) => [ruleTest.name, ruleTest] as const))("%s", (_name, ruleTest) => {
    const { alert_rule_test, input_series, interval } = ruleTest
    assert.strictEqual(interval, "1m")
    const series = input_series.map((each) => parseSeries(each.series, String(each.values)))
    for (const { alertname, eval_time, exp_alerts = [] } of alert_rule_test) {
      const rule = rules.find(({ alert }) => alert === alertname) ?? assert.fail(`there is no alert ${alertname}`)
      const alerts = firing(compile(rule.expr), minutesOf(rule.for ?? "0m"), series, minutesOf(eval_time))
      assert.sameDeepMembers(
        alerts.map(({ labels }) => ({ ...labels, ...rule.labels })),
        exp_alerts.map(({ exp_labels }) => ({ ...exp_labels })),
        `${alertname} at ${eval_time}`
      )
      for (const { exp_annotations, exp_labels } of exp_alerts) {
        const filled = Object.entries(rule.annotations).map(([name, template]) => [
          name,
          template.replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => exp_labels[label] ?? "")
        ])
        for (const [name = "", annotation] of filled) {
          if (annotation?.includes("$value") !== true) assert.strictEqual(exp_annotations[name], annotation)
        }
      }
    }
  })
})

describe("promtool", () => {
  it("agrees with the tests above, if it is installed: it is no npm package", () => {
    const { error, output } = spawnSync("promtool", ["test", "rules", join(root, "deploy/prometheus/rules.test.yml")], {
      encoding: "utf8"
    })
    if (error === undefined) assert.include(output.join(""), "SUCCESS")
    else assert.propertyVal(error, "code", "ENOENT")
  })
})

describe("the dashboard", () => {
  it("uses only metrics and labels that exist", () => {
    const variables = (expr: string) => expr.replaceAll(/"\$(source|list)"/g, "\".*\"")
    for (const { targets, title } of dashboard.panels) {
      assert.isAbove(targets.length, 0, title)
      for (const { expr, legendFormat } of targets) {
        const known = check(variables(expr))
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) assert.isTrue(known.has(label), expr)
      }
    }
    for (const { query } of dashboard.templating.list) {
      const [, selector = "", label = ""] =
        /^label_values\((.*), (\w+)\)$/.exec(typeof query === "string" ? query : query.query) ?? []
      if (selector !== "") assert.isTrue(check(variables(selector)).has(label))
    }
  })

  it("shows every metric of a source or a list", () => {
    const shown = dashboard.panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => namesIn(expr).metrics))
    const hidden = Object.entries(definitions).filter(([name, { per }]) =>
      per !== "process" && !shown.some((metric) => metric.startsWith(name))
    )
    assert.deepStrictEqual(hidden, [])
  })
})

it("docs/metrics.md has the current table of metrics; `npm run docs` writes it", () => {
  const page = readFileSync(pageFile, "utf8")
  assert.strictEqual(page, withMetrics(page))
})
