/** The public surface of `@payments/sandbox`. */
export type { Fault } from "@payments/core/testing"
export { records } from "./Generator.ts"
export { Sandbox, sandboxKey, type SandboxOptions } from "./Sandbox.ts"
export { type ListenOptions, SandboxError } from "./SocketServer.ts"
