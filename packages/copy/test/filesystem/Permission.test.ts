/** Errors about a path that this user may not read or write name its owner, its permissions and what to do. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { moduleOf, startChild } from "@payments/testkit/ChildProcess"
import { temporaryFolder } from "@payments/testkit/Folder"
import { Effect, Layer } from "effect"
import { chmodSync, mkdirSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Destination from "../../src/destination/Destination.ts"
import { scan } from "../../src/scan/Scan.ts"

const exportTo = (to: string) =>
  Effect.flatMap(Destination.parse(to), (destination) =>
    scan("invoices").pipe(
      Effect.provide(Layer.merge(Destination.layer(destination), layerTest({ invoices: [{ id: "a" }] })))
    )).pipe(Effect.provide(NodeServices.layer))

/** Returns the error of an access in a child process. The child runs as another user if this one is root. */
const messageOf = Effect.fnUntraced(function*(to: string, access: "export" | "reader" | "maintenance") {
  const child = yield* startChild(`
    import * as NodeServices from "@effect/platform-node/NodeServices"
    import { layerTest } from "@payments/core/testing"
    import { Effect, Layer } from "effect"
    import * as Destination from ${moduleOf("destination/Destination.ts")}
    import { scan } from ${moduleOf("scan/Scan.ts")}
    if (process.getuid() === 0) {
      process.setgid(65534)
      process.setuid(65534)
    }
    const destination = await Effect.runPromise(Destination.parse(${JSON.stringify(to)}))
    const access = ${JSON.stringify(access)}
    const attempt = access !== "export"
      ? Effect.scoped(Destination[access](destination))
      : scan("invoices").pipe(Effect.provide(Layer.merge(Destination.layerInThisThread(destination), layerTest({}))))
    console.log(await Effect.runPromise(attempt.pipe(
      Effect.match({ onFailure: ({ message }) => message, onSuccess: () => "done" }),
      Effect.provide(NodeServices.layer)
    )))`)
  return child.firstLine
})

interface Case {
  readonly title: string
  readonly to: (folder: string) => string
  /** Creates the destination and returns the path to which access is denied. */
  readonly prepare: (folder: string) => Effect.Effect<string, unknown>
  readonly problem: string
  readonly access?: "reader" | "maintenance"
}

const sqlite = (folder: string) => `sqlite:${join(folder, "x.db")}`
const files = (folder: string) => `file:${join(folder, "files")}`
const exportAndChmod = Effect.fnUntraced(function*(to: string, path: string, mode: number) {
  yield* exportTo(to)
  chmodSync(path, mode)
  return path
})

const cases: ReadonlyArray<Case> = [
  {
    title: "a database that may not be written",
    to: sqlite,
    prepare: (folder) => exportAndChmod(sqlite(folder), join(folder, "x.db"), 0o444),
    problem: "may not be written"
  },
  {
    title: "a database that may not be written, by an acknowledgement",
    to: sqlite,
    prepare: (folder) => exportAndChmod(sqlite(folder), join(folder, "x.db"), 0o444),
    problem: "may not be written",
    access: "maintenance"
  },
  {
    title: "a database that may not be read",
    to: sqlite,
    prepare: (folder) => exportAndChmod(sqlite(folder), join(folder, "x.db"), 0o000),
    problem: "may not be read"
  },
  {
    title: "a database that may not be read, by a reader",
    to: sqlite,
    prepare: (folder) => exportAndChmod(sqlite(folder), join(folder, "x.db"), 0o000),
    problem: "may not be read",
    access: "reader"
  },
  {
    title: "a database in a folder that may not be written, by a reader",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exportTo(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o444)
      chmodSync(folder, 0o555)
      return folder
    }),
    problem: "is a folder in which this program may not create files",
    access: "reader"
  },
  {
    title: "a lock file that may not be written",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exportTo(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o666)
      chmodSync(join(folder, "x.db.invoices.lock"), 0o444)
      return join(folder, "x.db.invoices.lock")
    }),
    problem: "may not be written"
  },
  {
    title: "a new database in a folder that may not be written",
    to: sqlite,
    prepare: (folder) =>
      Effect.sync(() => {
        chmodSync(folder, 0o555)
        return folder
      }),
    problem: "is a folder in which this program may not create files"
  },
  {
    title: "a database in a folder that may not be written",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exportTo(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o666)
      chmodSync(folder, 0o555)
      return folder
    }),
    problem: "is a folder in which this program may not create files"
  },
  {
    title: "a database in a folder that may not be entered",
    to: (folder) => sqlite(join(folder, "inner")),
    prepare: (folder) =>
      Effect.sync(() => {
        mkdirSync(join(folder, "inner"), { mode: 0o600 })
        return join(folder, "inner")
      }),
    problem: "may not be entered"
  },
  {
    title: "a new folder in one that may not be written",
    to: files,
    prepare: (folder) =>
      Effect.sync(() => {
        chmodSync(folder, 0o555)
        return folder
      }),
    problem: "is a folder in which this program may not create files"
  },
  {
    title: "a folder that may not be written",
    to: files,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exportTo(files(folder))
      for (const name of ["copy.db", "copy.db.invoices.lock", "copy.db.manifest.lock"]) {
        chmodSync(join(folder, "files", name), 0o666)
      }
      chmodSync(join(folder, "files"), 0o555)
      return join(folder, "files")
    }),
    problem: "is a folder in which this program may not create files"
  },
  {
    title: "a folder whose copy may not be read",
    to: files,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exportTo(files(folder))
      chmodSync(join(folder, "files"), 0o777)
      chmodSync(join(folder, "files", "copy.db"), 0o000)
      return join(folder, "files", "copy.db")
    }),
    problem: "may not be read"
  }
]

describe("an error about a denied path", () => {
  it.live.each(cases.map((testCase) => [testCase.title, testCase] as const))(
    "names the owner, the permissions and what to do: %s",
    ([, { access, prepare, problem, to }]) =>
      Effect.gen(function*() {
        const folder = yield* temporaryFolder
        chmodSync(folder, 0o777)
        const path = yield* prepare(folder)
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            chmodSync(folder, 0o700)
            chmodSync(path, 0o700)
          })
        )
        const message = yield* messageOf(to(folder), access ?? "export")
        assert.include(message, `${path} ${problem} (EACCES).`)
        const mode = `0${(statSync(path).mode & 0o7777).toString(8)}`
        assert.include(message, `with the permissions ${mode}`)
        assert.match(message, /chmod/)
        if (process.getuid?.() === 0) assert.include(message, "It belongs to user 0,")
        assert.notMatch(message, /SQLite \d+/)
      }).pipe(Effect.scoped)
  )
})
