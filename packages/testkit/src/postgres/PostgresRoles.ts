/** The statements of `docs/postgres-roles.md`. */
import { readFileSync } from "node:fs"
import { join } from "node:path"

const page = readFileSync(join(import.meta.dirname, "../../../../docs/postgres-roles.md"), "utf8")

const blocks = Array.from(page.matchAll(/^```sql\n(.*?)^```$/gms), ([, statements = ""]) => statements)
const [roles, restriction, takeover, coordination] = blocks
if (roles === undefined || restriction === undefined || takeover === undefined || coordination === undefined) {
  throw new Error("docs/postgres-roles.md lacks statements")
}

/** The blocks of statements: roles and schema, what readers lose, an existing schema, and the schema of a cluster. */
export const roleStatements = { roles, restriction, takeover, coordination }
