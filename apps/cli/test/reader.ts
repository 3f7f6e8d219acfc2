/**
 * A reader of a destination, run as a process of its own: `node reader.ts sqlite FILE`, `files FOLDER` or `postgres
 * PORT/SCHEMA`.
 * It says a word when it begins, looks again and again until it is told to stop by SIGTERM, and then says on a line of JSON
 * how often it looked and what it saw that no reader may see.
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"

const [kind = "", place = ""] = process.argv.slice(2)
const problems = new Set<string>()
let polls = 0

const tables = { "payout-requests": "payout_requests", "payin-sources": "payin_sources", invoices: "invoices" }

/** In one snapshot: the rows are those that the scans count, and so are the changes. */
const lookAtDatabase = (): void => {
  let db: DatabaseSync
  try {
    db = new DatabaseSync(place, { readOnly: true, timeout: 200 })
  } catch {
    // Not there yet.
    return
  }
  try {
    db.exec("BEGIN")
    for (const [label, table] of Object.entries(tables)) {
      const figures = db.prepare(
        `SELECT (SELECT count(*) FROM ${table}) AS rows,
        (SELECT coalesce(sum(json_extract(tally, '$.counts.inserted')), 0) FROM scans WHERE list = ?1) AS inserted,
        (SELECT count(*) FROM changes WHERE list = ?1 AND kind = 'insert') AS told,
        (SELECT coalesce(sum(json_extract(tally, '$.counts.inserted')), 0) FROM scans WHERE list = ?1 AND scan >
          (SELECT min(scan) FROM scans WHERE list = ?1 AND state = 'complete')) AS toTell`
      ).get(label)
      if (figures?.["rows"] !== figures?.["inserted"] || figures?.["told"] !== figures?.["toTell"]) {
        problems.add(`${label}: ${JSON.stringify(figures)}`)
      }
    }
    polls++
  } catch (error) {
    // Not a destination yet, or locked for a moment by whoever mends it after a kill.
    if (!/no such table|unable to open|database is locked|attempt to write a readonly/.test(String(error))) {
      problems.add(String(error))
    }
  } finally {
    db.close()
  }
}

interface Manifest {
  readonly lists: { readonly [list: string]: { readonly files: ReadonlyArray<Named> } }
}

interface Named {
  readonly file: string
  readonly bytes: number
  readonly sha256: string
}

let whole = ""

/** Every file that the manifest names is there, with the size and the digest that it names. */
const lookAtFiles = (): void => {
  let text: string
  try {
    text = readFileSync(join(place, "manifest.json"), "utf8")
  } catch {
    // No list is complete yet.
    return
  }
  polls++
  if (text === whole) return
  try {
    const manifest = JSON.parse(text) as Manifest // what it names is what is held against it here
    for (const { bytes, file, sha256 } of Object.values(manifest.lists).flatMap(({ files }) => files)) {
      const content = readFileSync(join(place, file))
      const found = createHash("sha256").update(content).digest("hex")
      if (content.length !== bytes || found !== sha256) problems.add(`${file} is not what the manifest says`)
    }
    whole = text
  } catch (error) {
    problems.add(String(error))
  }
}

/** The same as of a file, of a schema of the test's server. */
const lookAtServer = async (): Promise<void> => {
  const { query } = await import("../../../packages/export/test/PostgresTest.ts")
  const [port, schema] = place.split("/")
  const inserted = `(SELECT coalesce(sum((tally->'counts'->>'inserted')::bigint), 0)::bigint FROM ${schema}.scans`
  const ask = (sql: string, ...parameters: ReadonlyArray<string>) => query({ port: Number(port) }, sql, parameters)
  const [there] = await ask(`SELECT to_regclass('${schema}.invoices') IS NOT NULL AS is_made`)
  if (there?.["is_made"] !== true) return
  const lookAtList = async ([label, table]: readonly [string, string]) => {
    try {
      const [figures] = await ask(
        `SELECT (SELECT count(*) FROM ${schema}.${table}) AS rows, ${inserted} WHERE list = $1) AS inserted,
        (SELECT count(*) FROM ${schema}.changes WHERE list = $1 AND kind = 'insert') AS told,
        ${inserted} WHERE list = $1 AND scan >
          (SELECT min(scan) FROM ${schema}.scans WHERE list = $1 AND state = 'complete')) AS to_tell`,
        label
      )
      if (figures?.["rows"] !== figures?.["inserted"] || figures?.["told"] !== figures?.["to_tell"]) {
        problems.add(`${label}: ${Object.values(figures ?? {}).join(" ")}`)
      }
      polls++
    } catch (error) {
      problems.add(String(error))
    }
  }
  await Promise.all(Object.entries(tables).map(lookAtList))
}

const look = { files: lookAtFiles, sqlite: lookAtDatabase, postgres: lookAtServer }[kind]
if (look === undefined) throw new RangeError(`nobody knows how to look at ${kind}`)
let isTold = false
const lookOn = async (): Promise<void> => {
  const isLast = isTold
  await look()
  if (!isLast) return void setTimeout(lookOn, isTold ? 0 : 40)
  console.log(JSON.stringify({ polls, problems: [...problems] }))
  process.exit(0)
}
process.on("SIGTERM", () => {
  isTold = true
})
console.log("looking")
await lookOn()
