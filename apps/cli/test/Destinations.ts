/** The destinations that are killed and read while they are written. */
import { assert } from "@effect/vitest"
import { Lists } from "@payments/core"
import { Effect, type Scope } from "effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync, truncateSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { temporaryFolder } from "../../../packages/export/test/Folder.ts"
import { textsOf } from "../../../packages/export/test/Rendered.ts"
import { postgres } from "./PostgresTarget.ts"
import { rowsOf } from "./Program.ts"

/** A destination of its own, empty. */
export interface Target {
  /** What `--to` is given. */
  readonly to: string
  /** What the program needs in its environment besides. */
  readonly env: Readonly<Record<string, string>>
  /** The scan and the page where a scan of payout requests was cut; undefined where none was. Asked after every kill. */
  readonly cutAt: Effect.Effect<string | undefined>
  /** The texts of the payout requests, as a reader finds them once a scan is complete. */
  readonly texts: Effect.Effect<ReadonlyArray<string>>
  /** Takes a record away behind the program's back. */
  readonly harm: Effect.Effect<void>
  /** Looks at it in a process of its own while the effect runs. */
  readonly watched: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** A kind of destination. */
export interface DestinationKind {
  readonly name: string
  /** Whether it is also killed where there is little time. */
  readonly isBrief: boolean
  readonly open: Effect.Effect<Target, never, Scope.Scope>
}

/** Rows of a database; none where it is not there yet, or where its tables are being made or were cut short. */
export const rowsIfAny = (file: string, sql: string): ReadonlyArray<Record<string, unknown>> => {
  try {
    return rowsOf(file, sql)
  } catch (error) {
    if (/no such table|unable to open|database is locked|attempt to write a readonly/.test(String(error))) return []
    throw error
  }
}

const cutAtOf = (file: string) =>
  Effect.sync(() => {
    const [scan] = rowsIfAny(file, "SELECT scan, pages FROM scans WHERE state = 'running' AND pages > 0")
    return scan === undefined ? undefined : `${String(scan["scan"])}:${String(scan["pages"])}`
  })

/** What `reader.ts` looks at while the effect runs; it must have looked, and have seen nothing that it may not. */
export const watchedBy =
  (kind: "sqlite" | "files" | "postgres", place: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.acquireUseRelease(
      Effect.promise(async () => {
        const child = spawn(process.execPath, [join(import.meta.dirname, "reader.ts"), kind, place], {
          stdio: ["ignore", "pipe", "inherit"]
        })
        let said = ""
        child.stdout.on("data", (chunk: Buffer) => said += chunk.toString("utf8"))
        const ended = once(child, "close")
        await Promise.race([once(child.stdout, "data"), ended])
        return { child, ended, said: () => said.split("\n").at(-2) ?? "" }
      }),
      ({ child, ended, said }) =>
        Effect.flatMap(effect, (result) =>
          Effect.promise(async () => {
            child.kill("SIGTERM")
            await ended
            const { polls, problems } = JSON.parse(said()) as {
              readonly polls: number
              readonly problems: ReadonlyArray<string>
            } // what reader.ts prints
            assert.deepStrictEqual(problems, [], "what a reader saw")
            assert.isAbove(polls, 0, "a reader that never looked has seen nothing")
            return result
          })),
      ({ child }) => Effect.sync(() => child.kill("SIGKILL"))
    )

/** A folder of files in a format. The file that is harmed is cut short. */
const files = (format: string, ending: string, isBrief: boolean): DestinationKind => ({
  name: `file, ${format}`,
  isBrief,
  open: Effect.map(temporaryFolder, (parent) => {
    const folder = join(parent, "files")
    return {
      to: `file:${folder}?format=${format}`,
      env: {},
      cutAt: cutAtOf(join(folder, "copy.db")),
      texts: textsOf(folder, Lists.payoutRequests),
      harm: Effect.sync(() => {
        const file = readdirSync(folder).find((name) => name.endsWith(ending)) ?? ""
        truncateSync(join(folder, file), 100)
      }),
      watched: watchedBy("files", folder)
    }
  })
})

/** Every kind of destination that the tests of kills run over. */
export const destinations: ReadonlyArray<DestinationKind> = [
  {
    name: "sqlite",
    isBrief: true,
    open: Effect.map(temporaryFolder, (folder) => {
      const file = join(folder, "payments.db")
      return {
        to: `sqlite:${file}`,
        env: {},
        cutAt: cutAtOf(file),
        texts: Effect.sync(() => rowsOf(file, "SELECT raw FROM payout_requests").map(({ raw }) => String(raw))),
        harm: Effect.sync(() => {
          const db = new DatabaseSync(file)
          db.exec("DELETE FROM payout_requests WHERE row = 7")
          db.close()
        }),
        watched: watchedBy("sqlite", file)
      }
    })
  },
  files("ndjson", ".ndjson", true),
  files("csv&compress=gzip", ".csv.gz", false),
  files("parquet", ".parquet", false),
  postgres
]
