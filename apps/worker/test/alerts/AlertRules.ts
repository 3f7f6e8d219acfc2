/** The alert rules of `deploy/prometheus`, and their unit tests. */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parse } from "yaml"

/** The folder of the project. */
export const root = join(import.meta.dirname, "../../../..")
/** Reads a file of the project. */
export const text = (file: string) => readFileSync(join(root, file), "utf8")

/** An alert rule. */
export interface Rule {
  readonly alert: string
  readonly expr: string
  readonly for?: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** A unit test of rules, as promtool runs it. */
export interface RuleTest {
  readonly name: string
  readonly interval: string
  readonly input_series: ReadonlyArray<{ readonly series: string; readonly values: string | number }>
  readonly alert_rule_test: ReadonlyArray<{
    readonly eval_time: string
    readonly alertname: string
    readonly exp_alerts?: ReadonlyArray<{
      readonly exp_labels: Readonly<Record<string, string>>
      readonly exp_annotations: Readonly<Record<string, string>>
    }>
  }>
}

// The casts name the formats of our own files.
export const rules = (parse(text("deploy/prometheus/rules.yml")) as {
  readonly groups: ReadonlyArray<{ readonly rules: ReadonlyArray<Rule> }>
}).groups.flatMap((group) => group.rules)
export const ruleTests =
  (parse(text("deploy/prometheus/rules.test.yml")) as { readonly tests: ReadonlyArray<RuleTest> }).tests
