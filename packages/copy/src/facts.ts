/** What is known about a service, as `@payments/copy/facts`. Import it dynamically: few programs need it. */
export { conformance, type ConformanceOptions } from "./facts/Conformance.ts"
export { copyFacts } from "./facts/CopyFacts.ts"
export { FactsFileError, readFacts } from "./facts/FactsFile.ts"
export { type Accepted, acceptFact, type FactPlace, factsIn } from "./facts/FactStore.ts"
export type { Broken, Finding, Verdict } from "./facts/Finding.ts"
export { type KnownFact, knownFacts, probe, type Probed, type ProbeOptions } from "./facts/Probe.ts"
export { type Use, usesOf } from "./facts/Uses.ts"
export type { Degree } from "./port/Judgement.ts"
