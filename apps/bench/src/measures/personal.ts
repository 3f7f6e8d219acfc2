/**
 * `npm run test:personal [-- --kills N] [--seed N] [--kinds sqlite,postgres,…] [--folder FOLDER]`: proves that personal
 * data leaves no byte behind. For each kind of destination, it exports with rules, and rewrites and erases filled
 * destinations. It kills rewrites and erasures at random moments, 50 times by default. Then it searches every byte of
 * the destinations, of everything that was printed and of temporary files for canaries.
 *
 * In PostgreSQL, the search follows the statement that the commands print and a checkpoint. It excludes the write-ahead
 * log (`pg_wal`): the server removes old segments of it later.
 */
import { filesIn, makeCanaries, startCanaryService } from "@payments/testkit/personal/Canaries"
import {
  type CanaryDestination,
  type CanaryKind,
  CanaryProof,
  type CanarySetting,
  type Contents,
  folderKinds
} from "@payments/testkit/personal/CanaryProof"
import { diceOf } from "@payments/testkit/Seed"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { Client } from "pg"
import { startDatabase, user } from "../harness/Database.ts"
import { wallMs } from "../harness/Link.ts"
import { programs } from "../harness/Programs.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "50" },
    seed: { type: "string", default: String(wallMs() % 1_000_000_000) },
    kinds: { type: "string" },
    folder: { type: "string" },
    program: { type: "string", default: programs.cli }
  }
})
const [kills, seed] = [Number(values.kills), Number(values.seed)]
if (!Number.isInteger(kills) || kills < 0) throw new Error("--kills N")

const folder = values.folder ?? mkdtempSync(join(tmpdir(), "payments-personal-"))
mkdirSync(folder, { recursive: true })
console.log(`seed ${seed}; files in ${folder}`)
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(130))

/** The kinds of destinations that are killed often. Those of other formats differ only in their rendered files. */
const mostKilled = new Set(["sqlite", "ndjson", "postgres"])
const killsOfOthers = 3

/** The statement that `payments erase` and `payments rewrite` print. */
const vacuum = `VACUUM (FULL, ANALYZE) ${
  ["payout_requests", "payin_sources", "invoices", "changes", "quarantine", "scans"].map((table) => `payments.${table}`)
    .join(", ")
}, pg_catalog.pg_statistic`

/** A database of its own for each destination. A copy is made from it as a template. */
const postgresKind = async (stack: AsyncDisposableStack): Promise<CanaryKind> => {
  const { server } = await startDatabase(stack)
  const data = join(server.folder, "data")
  const inDatabase = async <A>(database: string, use: (client: Client) => Promise<A>): Promise<A> => {
    const client = new Client({ host: "127.0.0.1", port: server.port, user, database })
    await client.connect()
    try {
      return await use(client)
    } finally {
      await client.end()
    }
  }
  const destinationIn = (database: string): CanaryDestination => ({
    to: `postgres://${user}@127.0.0.1:${server.port}/${database}`,
    contents: () =>
      inDatabase(database, async (client): Promise<Contents> => {
        await client.query(vacuum)
        await client.query("CHECKPOINT")
        // The files of this database, and those that all databases share. Other databases have other copies.
        const { rows } = await client.query<{ oid: number }>(
          "SELECT oid::int FROM pg_database WHERE datname = current_database()"
        )
        const base = String(rows[0]?.oid)
        const tables = await client.query<{ name: string }>(
          "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'information_schema'"
        )
        const texts: Array<readonly [string, Buffer]> = []
        for (const { name } of tables.rows) {
          // Texts in the files may be compressed.
          const table = await client.query<{ text: string }>(`SELECT t::text AS text FROM ${name} AS t`)
          texts.push([`table ${name}`, Buffer.from(table.rows.map(({ text }) => text).join("\n"))])
        }
        return [
          ...texts,
          ...filesIn(join(data, "base", base)).map(([name, bytes]) => [`base/${base}/${name}`, bytes] as const),
          ...filesIn(data, ["base", "pg_wal"]),
          ...filesIn(server.folder, ["data", "server"])
        ]
      }),
    copy: async (copied) => {
      // The statistics of the planner contain values of the columns.
      await inDatabase(database, (client) => client.query("ANALYZE"))
      await inDatabase("postgres", (client) => client.query(`CREATE DATABASE "${copied}" TEMPLATE "${database}"`))
      return destinationIn(copied)
    },
    remove: async () => {
      await inDatabase("postgres", (client) => client.query(`DROP DATABASE "${database}" WITH (FORCE)`))
    }
  })
  return {
    name: "postgres",
    open: async (database) => {
      await inDatabase("postgres", (client) => client.query(`CREATE DATABASE "${database}"`))
      return destinationIn(database)
    }
  }
}

await using stack = new AsyncDisposableStack()
const canaries = makeCanaries(diceOf(seed, "canaries"))
const service = await startCanaryService(canaries, 2000)
stack.defer(() => service.close())
const setting: CanarySetting = { program: values.program, canaries, service, temporary: join(folder, "temporary") }

const wanted = values.kinds?.split(",")
const kinds = [...folderKinds(join(folder, "destinations")), await postgresKind(stack)]
  .filter(({ name }) => wanted?.includes(name) ?? true)
if (kinds.length === 0) throw new Error("--kinds NAME,…")

const start = performance.now()
const log = (line: string) => console.log(`${((performance.now() - start) / 1000).toFixed(0).padStart(5)} s  ${line}`)
for (const kind of kinds) {
  for (const rule of ["omit", "pseudonymize", "hold"] as const) {
    await new CanaryProof(setting, `${kind.name} ${rule}`).proveRule(kind, rule, rule)
    log(`${kind.name}: 0 canaries after four exports with ${rule}`)
  }
  const filled = await kind.open("filled")
  const found = await new CanaryProof(setting, `${kind.name} filled`).fill(filled)
  log(`${kind.name}: ${found} canaries in a destination that keeps all fields`)
  const runs = (name: string) => ({
    kills: mostKilled.has(kind.name) ? kills : Math.min(kills, killsOfOthers),
    dice: diceOf(seed, kind.name, name)
  })
  const rewritten = await new CanaryProof(setting, `${kind.name} rewrite`).proveRewrite(filled, runs("rewrite"))
  log(
    `${kind.name}: 0 canaries after rewrite; ${rewritten.killed} runs killed, ${rewritten.unfinished} of them unfinished`
  )
  const erased = await new CanaryProof(setting, `${kind.name} erase`).proveErase(filled, runs("erase"))
  log(`${kind.name}: 0 canaries after erase; ${erased.killed} runs killed, ${erased.unfinished} of them unfinished`)
  await filled.remove()
}
if (values.folder === undefined) rmSync(folder, { recursive: true, force: true })
log("no canary was found where none may be")
