/** The built programs. */
import { atRoot } from "./Root.ts"

/** Their files. */
export const programs = {
  worker: atRoot("apps/worker/dist/payments-worker.js"),
  cli: atRoot("apps/cli/dist/payments.js")
}
