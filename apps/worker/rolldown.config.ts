import { program } from "../cli/bundle.ts"

export default program("payments-worker", import.meta.dirname)
