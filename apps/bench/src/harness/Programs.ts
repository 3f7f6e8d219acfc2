/** The built programs. The bundle of this file is as deep in the repository as the file itself. */
import { fileURLToPath } from "node:url"

const built = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

/** Their files. */
export const programs = { worker: built("worker/dist/payments-worker.js"), cli: built("cli/dist/payments.js") }
