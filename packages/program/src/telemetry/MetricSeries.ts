/** The series of metrics, in a registry of Effect's metrics. */
import { type Context, Metric } from "effect"
import { type Definition, definitions, type LabelArguments, type MetricName, type NameOf } from "./MetricDefinitions.ts"

/** The series of the process, of a source or of a list. */
export class Series {
  readonly #context: Context.Context<never>
  readonly #labels: Readonly<Record<string, string>>
  readonly #metrics = new Map<string, Metric.Metric<number, unknown>>()

  constructor(context: Context.Context<never>, labels: Readonly<Record<string, string>>) {
    this.#context = context
    this.#labels = labels
  }

  /** Sets a gauge. Without a value it has no series. A gauge with `atOnce: 1` keeps only this series. */
  set<Name extends NameOf<"gauge">>(
    name: Name,
    value: number | null | undefined,
    ...[labels]: LabelArguments<Name>
  ): void {
    const definition: Definition = definitions[name]
    if (value === null || value === undefined || definition.atOnce === 1) this.#removeAll(name)
    if (value !== null && value !== undefined) this.#update(name, labels, value)
  }

  /** Increments a counter. */
  add<Name extends NameOf<"counter">>(name: Name, value: number, ...[labels]: LabelArguments<Name>): void {
    this.#update(name, labels, value)
  }

  /** Adds a value to a histogram. */
  record<Name extends NameOf<"histogram">>(name: Name, value: number, ...[labels]: LabelArguments<Name>): void {
    this.#update(name, labels, value)
  }

  /** Adds all counters of a list with the value 0: Prometheus cannot compute the increase of a series that begins with 1. */
  addZeros(): void {
    for (const [name, definition] of Object.entries<Definition>(definitions)) {
      if (definition.per !== "list" || definition.type !== "counter") continue
      for (const labels of combinations(definition.labels ?? {})) this.#update(name as MetricName, labels, 0) // a key
    }
  }

  /** Removes all series. */
  clear(): void {
    for (const metric of this.#metrics.values()) Metric.removeUnsafe(metric, this.#context)
    this.#metrics.clear()
  }

  #removeAll(name: MetricName): void {
    for (const [key, metric] of this.#metrics) {
      if (metric.id !== name) continue
      Metric.removeUnsafe(metric, this.#context)
      this.#metrics.delete(key)
    }
  }

  #update(name: MetricName, labels: Readonly<Record<string, string>> | undefined, value: number): void {
    const key = labels === undefined ? name : `${name} ${Object.values(labels).join(" ")}`
    const known = this.#metrics.get(key)
    const metric = known ?? makeMetric(name, { ...this.#labels, ...labels })
    if (known === undefined) this.#metrics.set(key, metric)
    metric.updateUnsafe(value, this.#context)
  }
}

const makeMetric = (name: MetricName, attributes: Readonly<Record<string, string>>): Metric.Metric<number, unknown> => {
  const { buckets = [], help: description, type }: Definition = definitions[name]
  switch (type) {
    case "counter":
      return Metric.counter(name, { description, attributes, incremental: true })
    case "gauge":
      return Metric.gauge(name, { description, attributes })
    case "histogram":
      return Metric.histogram(name, { description, attributes, boundaries: buckets })
  }
}

/** Returns every combination of values of these labels. */
const combinations = (
  labels: { readonly [label: string]: ReadonlyArray<string> }
): ReadonlyArray<Readonly<Record<string, string>>> =>
  Object.entries(labels).reduce<ReadonlyArray<Readonly<Record<string, string>>>>(
    (all, [label, values]) => all.flatMap((known) => values.map((value) => ({ ...known, [label]: value }))),
    [{}]
  )
