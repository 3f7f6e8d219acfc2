/** The hand-off of changes to a consumer, as `@payments/copy/handoff`. Import it dynamically: few programs need it. */
export { type BatchLimits, batchLimits, type Shape } from "./handoff/Body.ts"
export { type Answer, type HandoffPolicy, handoffPolicy, type Verdict } from "./handoff/Decision.ts"
export { NotWaiting, resumeHandoff, skipRefused } from "./handoff/Intervention.ts"
export { type LossAt, makeLossAt } from "./handoff/Loss.ts"
export { checkedLookup, makePost, type Post, postTimeout, type Target, urlProblem } from "./handoff/Post.ts"
export { NotSentYet, replayHandoff } from "./handoff/Replay.ts"
export { type Attempted, handOff, HandoffTakenOver, type SenderOptions } from "./handoff/Sender.ts"
export {
  parseKey,
  parseSigningKey,
  publicKeyText,
  sign,
  type SignatureProblem,
  signatureProblem,
  type SigningKey,
  type VerifyingKey
} from "./handoff/Signature.ts"
export type { Handoff, HandoffAside, HandoffBatch, HandoffReason, HandoffSkip } from "./store/HandoffStore.ts"
