import { programBuild } from "../cli/bundle.ts"

export default programBuild("payments-worker", import.meta.dirname)
