/** The contract of the JSON outputs. */
export { handoffOutput } from "./HandoffOutput.ts"
export * from "./JsonOutput.ts"
export * from "./Members.ts"
export { errorOutput, messageOutputs, noteOutput } from "./MessageOutputs.ts"
