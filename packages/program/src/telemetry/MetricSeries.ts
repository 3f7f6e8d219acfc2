/** The series of metrics, in a registry of Effect's metrics. */
import { type Context, Metric } from "effect"
import { type Definition, definitions, type MetricName, type Samples } from "./MetricDefinitions.ts"
import type { Facts } from "./MetricFacts.ts"

const names = Object.keys(definitions) as ReadonlyArray<MetricName> // all of its keys

/** The series of the process, of a source, of a list or of a hand-off. */
export class Series {
  readonly #context: Context.Context<never>
  readonly #per: Definition["per"]
  readonly #labels: Readonly<Record<string, string>>
  readonly #metrics = new Map<string, Metric.Metric<number, unknown>>()

  /**
   * A list or a hand-off begins with all its counters at 0: Prometheus cannot compute the increase of a series that begins with 1.
   */
  constructor(
    context: Context.Context<never>,
    per: Definition["per"],
    labels: Readonly<Record<string, string>> = {}
  ) {
    this.#context = context
    this.#per = per
    this.#labels = labels
    for (const name of per === "list" || per === "handoff" ? names : []) {
      const { labels: own = {}, per: perOfMetric, type } = definitions[name]
      if (perOfMetric === per && type === "counter") {
        for (const values of combinations(own)) this.#update(name, values, 0)
      }
    }
  }

  /** Updates the metrics whose values come from this kind of fact. */
  note<Name extends keyof Facts>(name: Name, fact: Facts[Name]): void {
    for (const metric of names) {
      const { from, per } = definitions[metric]
      const samples = per === this.#per ? from[name]?.(fact) : undefined
      if (samples !== undefined) this.#apply(metric, samples)
    }
  }

  /** Removes the gauges, except those whose values come from this kind of fact. */
  removeGaugesExcept(fact: keyof Facts): void {
    for (const name of names) {
      if (definitions[name].type === "gauge" && definitions[name].from[fact] === undefined) this.#removeAll(name)
    }
  }

  clear(): void {
    for (const metric of this.#metrics.values()) Metric.removeUnsafe(metric, this.#context)
    this.#metrics.clear()
  }

  #apply(name: MetricName, samples: Samples): void {
    if (samples === null || definitions[name].atOnce !== undefined) this.#removeAll(name)
    const each = typeof samples === "number" ? [[samples, {}] as const] : samples ?? []
    for (const [value, labels] of each) this.#update(name, labels, value)
  }

  #removeAll(name: MetricName): void {
    for (const [key, metric] of this.#metrics) {
      if (metric.id !== name) continue
      Metric.removeUnsafe(metric, this.#context)
      this.#metrics.delete(key)
    }
  }

  #update(name: MetricName, labels: Readonly<Record<string, string>>, value: number): void {
    const key = [name, ...Object.values(labels)].join(" ")
    const known = this.#metrics.get(key)
    const metric = known ?? makeMetric(name, { ...this.#labels, ...labels })
    if (known === undefined) this.#metrics.set(key, metric)
    metric.updateUnsafe(value, this.#context)
  }
}

const makeMetric = (name: MetricName, attributes: Readonly<Record<string, string>>): Metric.Metric<number, unknown> => {
  const { buckets = [], help: description, type } = definitions[name]
  switch (type) {
    case "counter":
      return Metric.counter(name, { description, attributes, incremental: true })
    case "gauge":
      return Metric.gauge(name, { description, attributes })
    case "histogram":
      return Metric.histogram(name, { description, attributes, boundaries: buckets })
  }
}

const combinations = (
  labels: { readonly [label: string]: ReadonlyArray<string> }
): ReadonlyArray<Readonly<Record<string, string>>> =>
  Object.entries(labels).reduce<ReadonlyArray<Readonly<Record<string, string>>>>(
    (all, [label, values]) => all.flatMap((known) => values.map((value) => ({ ...known, [label]: value }))),
    [{}]
  )
