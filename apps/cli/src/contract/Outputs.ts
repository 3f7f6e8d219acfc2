/**
 * The JSON outputs of `payments`. To change one: change its members beside the others, raise its version if a member was
 * removed, may be absent or has another type, and run `npm run docs`. It refuses such a change without a new version.
 */
import { contract } from "@payments/program"
import * as Copy from "./CopyOutputs.ts"
import * as Handoff from "./HandoffOutputs.ts"
import { list } from "./ListOutput.ts"
import * as Question from "./QuestionOutputs.ts"
import * as Service from "./ServiceOutputs.ts"

export const outputs = {
  ...Copy,
  ...Handoff,
  ...Question,
  ...Service,
  list
}

/** All outputs by name, also those of every command. */
export const all: ReadonlyArray<contract.JsonOutput> = [...contract.messageOutputs, ...Object.values(outputs)].toSorted(
  (one, other) => one.name < other.name ? -1 : 1
)
