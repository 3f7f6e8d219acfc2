import { join } from "node:path"
import { programBuild } from "./bundle.ts"

export default programBuild("payments", import.meta.dirname, {
  threads: { JsonQueryProcess: join(import.meta.dirname, "src/listing/JsonQueryProcess.ts") }
})
