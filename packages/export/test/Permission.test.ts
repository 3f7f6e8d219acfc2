/** A place that this user may not read or write is named, with its owner, its permissions and what to do. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { layerTest } from "@payments/core/testing"
import { Effect, Layer } from "effect"
import { chmodSync, mkdirSync, statSync } from "node:fs"
import { join } from "node:path"
import * as Destination from "../src/Destination.ts"
import { scan } from "../src/Scan.ts"
import { moduleOf, startChild } from "./Child.ts"
import { temporaryFolder } from "./Folder.ts"

const exported = (to: string) =>
  Effect.flatMap(Destination.parse(to), (destination) =>
    scan("invoices").pipe(
      Effect.provide(Layer.merge(Destination.layer(destination), layerTest({ invoices: [{ id: "a" }] })))
    )).pipe(Effect.provide(NodeServices.layer))

/** What an export, or a reader, of another user says; where the tests are no administrator's, of the same user. */
const said = Effect.fnUntraced(function*(to: string, does: "write" | "read") {
  const child = yield* startChild(`
    import * as NodeServices from "@effect/platform-node/NodeServices"
    import { layerTest } from "@payments/core/testing"
    import { Effect, Layer } from "effect"
    import * as Destination from ${moduleOf("Destination.ts")}
    import { scan } from ${moduleOf("Scan.ts")}
    if (process.getuid() === 0) {
      process.setgid(65534)
      process.setuid(65534)
    }
    const place = await Effect.runPromise(Destination.parse(${JSON.stringify(to)}))
    const tried = ${JSON.stringify(does)} === "read"
      ? Effect.scoped(Destination.reader(place))
      : scan("invoices").pipe(Effect.provide(Layer.merge(Destination.layerHere(place), layerTest({}))))
    console.log(await Effect.runPromise(tried.pipe(
      Effect.match({ onFailure: ({ message }) => message, onSuccess: () => "done" }),
      Effect.provide(NodeServices.layer)
    )))`)
  return child.said
})

interface Case {
  readonly what: string
  readonly to: (folder: string) => string
  /** Makes the place, and names what is in the way. */
  readonly prepare: (folder: string) => Effect.Effect<string, unknown>
  readonly says: string
  readonly does?: "read"
}

const sqlite = (folder: string) => `sqlite:${join(folder, "x.db")}`
const files = (folder: string) => `file:${join(folder, "files")}`
const made = Effect.fnUntraced(function*(to: string, path: string, mode: number) {
  yield* exported(to)
  chmodSync(path, mode)
  return path
})

const cases: ReadonlyArray<Case> = [
  {
    what: "a database that may not be written",
    to: sqlite,
    prepare: (folder) => made(sqlite(folder), join(folder, "x.db"), 0o444),
    says: "may not be written"
  },
  {
    what: "a database that may not be read",
    to: sqlite,
    prepare: (folder) => made(sqlite(folder), join(folder, "x.db"), 0o000),
    says: "may not be read"
  },
  {
    what: "a database that may not be read, by a reader",
    to: sqlite,
    prepare: (folder) => made(sqlite(folder), join(folder, "x.db"), 0o000),
    says: "may not be read",
    does: "read"
  },
  {
    what: "a database in a folder that may not be written, by a reader",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exported(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o444)
      chmodSync(folder, 0o555)
      return folder
    }),
    says: "is a folder in which nothing may be made",
    does: "read"
  },
  {
    what: "a lock file that may not be written",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exported(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o666)
      chmodSync(join(folder, "x.db.invoices.lock"), 0o444)
      return join(folder, "x.db.invoices.lock")
    }),
    says: "may not be written"
  },
  {
    what: "a new database in a folder that may not be written",
    to: sqlite,
    prepare: (folder) =>
      Effect.sync(() => {
        chmodSync(folder, 0o555)
        return folder
      }),
    says: "is a folder in which nothing may be made"
  },
  {
    what: "a database in a folder that may not be written",
    to: sqlite,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exported(sqlite(folder))
      chmodSync(join(folder, "x.db"), 0o666)
      chmodSync(folder, 0o555)
      return folder
    }),
    says: "is a folder in which nothing may be made"
  },
  {
    what: "a database in a folder that may not be entered",
    to: (folder) => sqlite(join(folder, "inner")),
    prepare: (folder) =>
      Effect.sync(() => {
        mkdirSync(join(folder, "inner"), { mode: 0o600 })
        return join(folder, "inner")
      }),
    says: "may not be entered"
  },
  {
    what: "a new folder in one that may not be written",
    to: files,
    prepare: (folder) =>
      Effect.sync(() => {
        chmodSync(folder, 0o555)
        return folder
      }),
    says: "is a folder in which nothing may be made"
  },
  {
    what: "a folder that may not be written",
    to: files,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exported(files(folder))
      for (const name of ["copy.db", "copy.db.invoices.lock", "copy.db.manifest.lock"]) {
        chmodSync(join(folder, "files", name), 0o666)
      }
      chmodSync(join(folder, "files"), 0o555)
      return join(folder, "files")
    }),
    says: "is a folder in which nothing may be made"
  },
  {
    what: "a folder whose copy may not be read",
    to: files,
    prepare: Effect.fnUntraced(function*(folder) {
      yield* exported(files(folder))
      chmodSync(join(folder, "files"), 0o777)
      chmodSync(join(folder, "files", "copy.db"), 0o000)
      return join(folder, "files", "copy.db")
    }),
    says: "may not be read"
  }
]

describe("of a place that this user may not use", () => {
  it.live.each(cases.map((one) => [one.what, one] as const))(
    "%s is said with owner, permissions and what to do",
    ([, { does, prepare, says, to }]) =>
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
        const message = yield* said(to(folder), does ?? "write")
        assert.include(message, `${path} ${says} (EACCES).`)
        const mode = `0${(statSync(path).mode & 0o7777).toString(8)}`
        assert.include(message, `with the permissions ${mode}`)
        assert.match(message, /chmod/)
        if (process.getuid?.() === 0) assert.include(message, "It belongs to user 0,")
        assert.notMatch(message, /SQLite \d+/)
      }).pipe(Effect.scoped)
  )
})
