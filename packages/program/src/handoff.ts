/** What sends the changes of a source to its consumers, as `@payments/program/handoff`. Import it dynamically. */
export { keyLife, keysIn, senderOf } from "./sources/Handoffs.ts"
