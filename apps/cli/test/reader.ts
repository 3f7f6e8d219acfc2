/**
 * A reader of a destination, run as a process of its own: `node reader.ts sqlite FILE` or `node reader.ts files FOLDER`.
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

const look = kind === "files" ? lookAtFiles : lookAtDatabase
const timer = setInterval(look, 40)
process.on("SIGTERM", () => {
  clearInterval(timer)
  look()
  console.log(JSON.stringify({ polls, problems: [...problems] }))
  process.exit(0)
})
console.log("looking")
