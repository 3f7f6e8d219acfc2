/** The public surface of `@payments/sandbox`. */
export type { Fault, FaultRates } from "./Faults.ts"
export { records } from "./Generator.ts"
export type { OrderName } from "./Order.ts"
export { RecordWriter } from "./RecordWriter.ts"
export { type ListenOptions, Sandbox, SandboxError, sandboxKey, type SandboxOptions } from "./Sandbox.ts"
export * as World from "./World.ts"
