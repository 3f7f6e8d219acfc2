import { programBuild } from "./bundle.ts"

export default programBuild("payments", import.meta.dirname)
