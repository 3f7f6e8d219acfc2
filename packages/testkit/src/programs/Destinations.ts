/** The destinations of the kill tests. A reader checks them while an export writes. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import { once } from "node:events"
import { readdirSync, truncateSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { temporaryFolder } from "../Folder.ts"
import { textsOf } from "../RenderedFiles.ts"
import { spawn } from "../TestProcess.ts"
import { postgres } from "./PostgresTarget.ts"
import { rowsOf } from "./RunProgram.ts"
import type { DestinationKind } from "./Target.ts"

/** Returns no rows if the database or its tables do not exist yet, or if it is locked. */
export const rowsIfAny = (file: string, sql: string): ReadonlyArray<Record<string, unknown>> => {
  try {
    return rowsOf(file, sql)
  } catch (error) {
    if (/no such table|unable to open|database is locked|attempt to write a readonly/.test(String(error))) return []
    throw error
  }
}

const interruptedAtOf = (file: string) =>
  Effect.sync(() => {
    const [scan] = rowsIfAny(file, "SELECT scan, pages FROM scans WHERE state = 'running' AND pages > 0")
    return scan === undefined ? undefined : `${String(scan["scan"])}:${String(scan["pages"])}`
  })

/** Runs `reader.ts` meanwhile. Fails if the reader never read the destination or saw an inconsistency. */
export const whileReadingWith =
  (kind: "sqlite" | "files" | "postgres", place: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.promise(async () => {
        const child = spawn(process.execPath, [
          join(import.meta.dirname, "reader.ts"),
          kind,
          place
        ], {
          stdio: ["ignore", "pipe", "inherit"]
        })
        let out = ""
        child.stdout.on("data", (chunk: Buffer) => out += chunk.toString("utf8"))
        const ended = once(child, "close")
        await Promise.race([once(child.stdout, "data"), ended])
        return { child, ended, lastLine: () => out.split("\n").at(-2) ?? "" }
      }),
      ({ child, ended, lastLine }) =>
        Effect.flatMap(effect, (result) =>
          Effect.promise(async () => {
            child.kill("SIGTERM")
            await ended
            const { polls, problems } = JSON.parse(lastLine()) as {
              readonly polls: number
              readonly problems: ReadonlyArray<string>
            } // the output of reader.ts
            assert.deepStrictEqual(problems, [], "inconsistencies that the reader saw")
            assert.isAbove(polls, 0, "the reader must have read the destination")
            return result
          })),
      ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
    )

/** `damage` truncates a rendered file. */
const files = (format: string, ending: string, isInShortRun: boolean): DestinationKind => ({
  name: `file, ${format}`,
  isInShortRun,
  open: Effect.map(temporaryFolder, (parent) => {
    const folder = join(parent, "files")
    return {
      to: `file:${folder}?format=${format}`,
      env: {},
      interruptedAt: interruptedAtOf(join(folder, "copy.db")),
      texts: textsOf(folder, Lists.payoutRequests),
      damage: Effect.sync(() => {
        const file = readdirSync(folder).find((name) => name.endsWith(ending)) ?? ""
        truncateSync(join(folder, file), 100)
      }),
      whileReading: whileReadingWith("files", folder)
    }
  })
})

/** Every kind of destination of the kill tests. */
export const destinations: ReadonlyArray<DestinationKind> = [
  {
    name: "sqlite",
    isInShortRun: true,
    open: Effect.map(temporaryFolder, (folder) => {
      const file = join(folder, "payments.db")
      return {
        to: `sqlite:${file}`,
        env: {},
        interruptedAt: interruptedAtOf(file),
        texts: Effect.sync(() => rowsOf(file, "SELECT raw FROM payout_requests").map(({ raw }) => String(raw))),
        damage: Effect.sync(() => {
          const db = new DatabaseSync(file)
          db.exec("DELETE FROM payout_requests WHERE row = 7")
          db.close()
        }),
        whileReading: whileReadingWith("sqlite", file)
      }
    })
  },
  files("ndjson", ".ndjson", true),
  files("csv&compress=gzip", ".csv.gz", false),
  files("parquet", ".parquet", false),
  postgres
]
