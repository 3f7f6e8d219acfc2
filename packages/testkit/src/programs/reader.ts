/**
 * Reads a destination repeatedly while another process writes it: `node reader.ts sqlite FILE` or `node reader.ts files
 * FOLDER`. Prints a line when it begins. On SIGTERM it prints a line of JSON and ends: how often it read the
 * destination (`polls`), and which inconsistencies it saw (`problems`).
 */
import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"

const [kind = "", place = ""] = process.argv.slice(2)
const problems = new Set<string>()
let polls = 0

const tables = { "payout-requests": "payout_requests", "payin-sources": "payin_sources", invoices: "invoices" }

/** In one snapshot, the numbers of rows and of insert changes must equal those that the scans count. */
const readDatabase = (): void => {
  let db: DatabaseSync
  try {
    db = new DatabaseSync(place, { readOnly: true, timeout: 200 })
  } catch {
    // The database does not exist yet.
    return
  }
  try {
    db.exec("BEGIN")
    for (const [label, table] of Object.entries(tables)) {
      const figures = db.prepare(
        `SELECT (SELECT count(*) FROM ${table}) AS rows,
        (SELECT coalesce(sum(json_extract(totals, '$.counts.inserted')), 0) FROM scans WHERE list = ?1) AS inserted,
        (SELECT count(*) FROM changes WHERE list = ?1 AND kind = 'insert') AS changes,
        (SELECT coalesce(sum(json_extract(totals, '$.counts.inserted')), 0) FROM scans WHERE list = ?1 AND scan >
          (SELECT min(scan) FROM scans WHERE list = ?1 AND state = 'complete')) AS countedChanges`
      ).get(label)
      if (figures?.["rows"] !== figures?.["inserted"] || figures?.["changes"] !== figures?.["countedChanges"]) {
        problems.add(`${label}: ${JSON.stringify(figures)}`)
      }
    }
    polls++
  } catch (error) {
    // The tables do not exist yet, or the program repairs the database after a kill and locks it for a moment.
    if (!/no such table|unable to open|database is locked|attempt to write a readonly/.test(String(error))) {
      problems.add(String(error))
    }
  } finally {
    db.close()
  }
}

interface Manifest {
  readonly lists: { readonly [list: string]: { readonly files: ReadonlyArray<ManifestFile> } }
}

interface ManifestFile {
  readonly file: string
  readonly bytes: number
  readonly sha256: string
}

/** The text of the last manifest whose files were correct. */
let checked = ""

/** Each file in the manifest must exist and have the size and the digest of the manifest. */
const readFiles = (): void => {
  let text: string
  try {
    text = readFileSync(join(place, "manifest.json"), "utf8")
  } catch {
    // No list is complete yet.
    return
  }
  polls++
  if (text === checked) return
  try {
    const manifest = JSON.parse(text) as Manifest // the checks below would fail for another shape
    for (const { bytes, file, sha256 } of Object.values(manifest.lists).flatMap(({ files }) => files)) {
      const content = readFileSync(join(place, file))
      const found = createHash("sha256").update(content).digest("hex")
      if (content.length !== bytes || found !== sha256) problems.add(`${file} differs from the manifest`)
    }
    checked = text
  } catch (error) {
    problems.add(String(error))
  }
}

const read = kind === "files" ? readFiles : readDatabase
const timer = setInterval(read, 40)
process.on("SIGTERM", () => {
  clearInterval(timer)
  read()
  console.log(JSON.stringify({ polls, problems: [...problems] }))
  process.exit(0)
})
console.log("reading")
