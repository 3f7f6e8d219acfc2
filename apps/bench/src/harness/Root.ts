/** The root of the repository. The tests run the sources, and a benchmark its bundle in `dist`. */
import { join } from "node:path"

const root = join(import.meta.dirname, import.meta.filename.endsWith(".ts") ? "../../../.." : "../../..")

/** Returns the absolute path of a file of the repository. */
export const atRoot = (path: string): string => join(root, path)
