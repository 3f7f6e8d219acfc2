/** The contract of the JSON outputs. */
export * from "./JsonOutput.ts"
export * from "./Members.ts"
export { errorOutput, messageOutputs, noteOutput } from "./MessageOutputs.ts"
