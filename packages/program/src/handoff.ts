/** What sends the changes of a source to its consumers, as `@payments/program/handoff`. Import it dynamically. */
export { handoffOutput } from "./contract/HandoffOutput.ts"
export { createConsumer, keyLife, keysIn, senderOf } from "./sources/Handoffs.ts"
