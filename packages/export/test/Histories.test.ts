import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsApi, type PaymentsError } from "@payments/core"
import { Console, Deferred, Effect, Fiber, type Layer, type Scope } from "effect"
import { createHash } from "node:crypto"
import { basename, join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import * as Certificate from "../src/engine/Certificate.ts"
import type { Reader, ScanRow } from "../src/engine/Store.ts"
import * as FileSink from "../src/files/FileSink.ts"
import { verifyFiles } from "../src/files/VerifyFiles.ts"
import * as PostgresSink from "../src/postgres/PostgresSink.ts"
import { scan, scanParts } from "../src/Scan.ts"
import type { ScanEvent, ScanOptions, ScanSummary } from "../src/Scan.ts"
import type { Sink, SinkError } from "../src/Sink.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { openReader } from "../src/sqlite/SqliteStore.ts"
import { verify } from "../src/Verify.ts"
import { Book, type Traversal } from "./Book.ts"
import { ChangingList, type Shape } from "./ChangingList.ts"
import { temporaryFolder } from "./Folder.ts"
import { type PostgresServer, startServer } from "./PostgresServer.ts"
import { urlOf } from "./PostgresTest.ts"
import { manifestOf, textsOf } from "./Rendered.ts"
import { crash, diceOf, seed } from "./Seed.ts"
import { rowsIn, Told } from "./Told.ts"
import { watched } from "./Watched.ts"

const shapes: ReadonlyArray<Shape> = (["newest", "oldest", "shuffled"] as const).flatMap((order) =>
  (["keyset", "offset"] as const).map((cursors) => ({ order, cursors }))
)
const parts = ["north", "south"] as const
const kinds = ["insert", "update", "missing", "returned"] as const

/** A kind of destination, each in a folder of its own or under that folder's name. */
interface Place {
  readonly name: string
  readonly histories: number
  readonly layer: (folder: string) => Layer.Layer<Sink, SinkError, NodeServices.NodeServices>
  readonly reader: (folder: string) => Effect.Effect<Reader, SinkError, Scope.Scope>
  /** What else must hold when a run has come to its end. */
  readonly ended?: (folder: string, book: Book) => Effect.Effect<void, SinkError, NodeServices.NodeServices>
}

/** What happened over all histories. */
interface Figures {
  scans: number
  cuts: number
  resumed: number
  restarts: number
  parts: number
  heldBack: number
  told: Told["counts"]
  /** Of records that were there throughout a scan: how many it was not shown, by the kind of its cursors. */
  lost: Record<Shape["cursors"], number>
  throughout: Record<Shape["cursors"], number>
}

/** Plays one history, and holds the destination against the book after each of its runs, whether it was cut or not. */
const play = (place: Place, number: number, figures: Figures) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, place.name, number)
    const shape = dice.pick(shapes)
    const folder = yield* temporaryFolder
    const list = new ChangingList(dice, shape, dice.below(60))
    const book = new Book()
    const told = new Told()
    const layer = watched(list, book, place.layer(folder))
    const reading = <A, E, R>(use: (reader: Reader) => Effect.Effect<A, E, R>) =>
      Effect.scoped(Effect.flatMap(place.reader(folder), use))
    const checked = new Set<Traversal>()

    /** Ends with the run, or is cut behind so many commits and gives nothing. */
    const run = (runs: Runs, options: RunOptions, cutAt = 0) =>
      Effect.gen(function*() {
        const reached = yield* Deferred.make<void>()
        let commits = 0
        const onEvent = (event: ScanEvent) => {
          if (event._tag === "Begun" && event.start === "resumed") figures.resumed++
          if (event._tag === "Begun" && event.part === undefined) {
            if (event.start !== "resumed") list.throughout = new Set(list.ids())
            if (list.isEmpty) list.throughout.clear()
          }
          // Side by side, one scan may come to its end before or behind what another one tells.
          if (event._tag === "Begun" && options.concurrency === 1) {
            return Effect.orDie(reading((reader) => told.follow(reader)))
          }
          if (event._tag === "Restarted") figures.restarts++
          return event._tag === "Committed" && ++commits === cutAt
            ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
            : Effect.void
        }
        const fiber = yield* Effect.forkChild(Effect.provide(runs({ ...options, onEvent }), layer))
        yield* Effect.raceFirst(Deferred.await(reached), Effect.ignore(Fiber.join(fiber)))
        if (!(yield* Deferred.isDone(reached))) return yield* Fiber.join(fiber)
        yield* Fiber.interrupt(fiber)
        figures.cuts++
        return undefined
      })

    const check = (summaries: ReadonlyArray<ScanSummary> | undefined) =>
      reading(Effect.fnUntraced(function*(reader) {
        yield* assertRows(book, reader)
        yield* told.follow(reader)
        assert.deepStrictEqual((yield* verify(reader, Lists.invoices)).differences, [])
        const scans = yield* reader.scans(Lists.invoices)
        for (const traversal of book.traversals) {
          if (!traversal.ended || checked.has(traversal)) continue
          checked.add(traversal)
          const { heldBack, missing, part, seen } = traversal
          const isItsOwn = (one: { readonly scan: number }) => one.scan === traversal.scan
          assertCertificate(book, traversal, scans.find(isItsOwn))
          const summary = summaries?.find(isItsOwn)
          if (summary !== undefined) assert.deepInclude(summary, { missing: missing.length, heldBack })
          figures.heldBack += heldBack
          if (part !== "") figures.parts++
          else {
            figures.scans++
            const unseen = [...list.throughout].filter((id) => !seen.has(id))
            figures.lost[shape.cursors] += unseen.length
            figures.throughout[shape.cursors] += list.throughout.size
            if (shape.cursors === "keyset") assert.deepStrictEqual(unseen, [])
          }
        }
      }))

    /** What the next runs are, where that is settled. */
    const planned: Array<{ readonly inParts: boolean; readonly hidden?: string | undefined }> = []
    for (let left = 4 + dice.below(8); left >= 0; left--) {
      list.pace = dice.pick([0, 1, 4])
      list.isEmpty = dice.chance(0.08)
      list.isNameless = dice.chance(0.06)
      list.refusesCursor = dice.chance(0.1)
      if (dice.chance(0.1)) list.removeShare(dice.pick([0.05, 0.4]))
      if (dice.chance(0.3)) list.comeBack()
      if (planned.length === 0 && dice.chance(0.1)) {
        // Whole lists and their parts need not come from one place in the service: one has a record that the other has not.
        const [hidden = ""] = list.ids()
        const away = { inParts: false, hidden }
        planned.push(away, { inParts: true }, { inParts: true, hidden }, away, away, { inParts: false })
      }
      // The last run is one of the whole list that nothing cuts.
      const cutAt = left > 0 && planned.length === 0 && dice.chance(0.4) ? 1 + dice.below(6) : 0
      const { hidden, inParts } = left === 0 ? { inParts: false } : planned.shift() ?? { inParts: dice.chance(0.35) }
      list.hide(hidden)
      const runs = inParts
        ? runsOfParts(dice.pick([parts, parts.toReversed(), ["south"]]))
        : runOfAll
      const options = {
        limit: dice.pick([5, 5, 5, 8]),
        largestBatch: dice.pick([1, 20]),
        concurrency: cutAt === 0 ? dice.pick([1, 2]) : 1
      }
      const summaries = yield* run(runs, options, cutAt)
      yield* check(summaries)
      if (summaries !== undefined) yield* place.ended?.(folder, book) ?? Effect.void
    }
    for (const kind of kinds) figures.told[kind] += told.counts[kind]
  }).pipe(
    Effect.scoped,
    Effect.provide(NodeServices.layer),
    Effect.onError(() => Console.error(`history ${number} of ${place.name}, seed ${seed}`))
  )

interface RunOptions extends ScanOptions {
  /** How many parts are read at once. */
  readonly concurrency: number
}

type Runs = (
  options: RunOptions
) => Effect.Effect<ReadonlyArray<ScanSummary>, PaymentsError | SinkError, PaymentsApi | Sink>

const runOfAll: Runs = (options) => Effect.map(scan("invoices", options), (summary) => [summary])

const runsOfParts = (values: ReadonlyArray<string>): Runs => (options) =>
  scanParts("invoices", { ...options, field: "contract", values })

/** The certificate is of what this traversal was shown, of each record what came last. */
const assertCertificate = (book: Book, traversal: Traversal, row: ScanRow | undefined): void => {
  const { isRepeated, part, seen } = traversal
  assert.strictEqual(row?.state, "complete")
  const texts = [...seen.values()].map(({ text }) => text)
  const amount = texts.reduce((total, text) => total + Number(/"amount":(\d+)/.exec(text)?.[1] ?? 0), 0)
  const certificate = Certificate.ofScan(row)
  if (certificate === undefined) return assert.isTrue(part !== "" && isRepeated && book.isShared(traversal))
  assert.deepInclude(certificate, { distinct: seen.size, digest: digestOf(texts) })
  assert.strictEqual(Number(certificate.sums["amount"] ?? 0), amount)
}

const digestOf = (texts: ReadonlyArray<string>): string =>
  (texts.reduce((total, text) => total + BigInt(`0x${sha256(text).slice(0, 32)}`), 0n) % 2n ** 128n)
    .toString(16).padStart(32, "0")

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

const assertRows = Effect.fnUntraced(function*(book: Book, reader: Reader) {
  const rows = yield* rowsIn(reader)
  assert.strictEqual(rows.length, book.texts.size)
  for (const { hash, id, missingSince, raw } of rows) {
    assert.include(book.texts.get(id) ?? [], raw)
    assert.strictEqual(hash, sha256(raw))
    assert.strictEqual(missingSince !== undefined, book.missing.has(id), `${id} is missing`)
  }
})

/** The files are whole, show the rows, and are certified as a whole only while they are what that scan was shown. */
const assertFiles = Effect.fnUntraced(function*(folder: string, book: Book) {
  assert.deepStrictEqual(yield* verifyFiles(folder), [])
  const rows = yield* Effect.scoped(Effect.flatMap(readerOf(join(folder, FileSink.copyFile)), rowsIn))
  assert.sameMembers([...yield* textsOf(folder, Lists.invoices)], rows.map(({ raw }) => raw))
  const certificate = manifestOf(folder).lists["invoices"]?.certificate
  if (certificate === undefined) return
  const shown = new Map(rows.map(({ id, raw }) => [id, raw]))
  const seen = book.traversals.findLast((one) => one.scan === certificate.scan)?.seen.keys() ?? []
  assert.strictEqual(certificate.digest, digestOf([...seen].map((id) => shown.get(id) ?? "")))
})

const readerOf = (file: string) => openReader(file, "here")

let server: PostgresServer
beforeAll(async () => void (server = await startServer()))
afterAll(() => server.stop())

const places: ReadonlyArray<Place> = [
  {
    name: "sqlite:FILE",
    histories: crash ? 1000 : 50,
    layer: (folder) => SqliteSink.layer(join(folder, "payments.db")),
    reader: (folder) => readerOf(join(folder, "payments.db"))
  },
  {
    name: "file:FOLDER",
    histories: crash ? 200 : 10,
    layer: (folder) => FileSink.layer(folder),
    reader: (folder) => readerOf(join(folder, FileSink.copyFile)),
    ended: assertFiles
  },
  {
    name: "postgres://HOST",
    histories: crash ? 100 : 5,
    layer: (folder) => PostgresSink.layer(urlOf(server, basename(folder))),
    reader: (folder) => PostgresSink.reader(urlOf(server, basename(folder)))
  }
]

describe(`a list that changes while it is read, whole and in parts, cut and gone on with (seed ${seed})`, () => {
  it.live.each(places)(
    "is held as it was last shown, is told of change by change, and nothing of it is missing wrongly or lost by keyset " +
      "cursors: $histories histories in $name",
    (place) =>
      Effect.gen(function*() {
        const figures: Figures = {
          scans: 0,
          cuts: 0,
          resumed: 0,
          restarts: 0,
          parts: 0,
          heldBack: 0,
          told: { insert: 0, update: 0, missing: 0, returned: 0 },
          lost: { keyset: 0, offset: 0 },
          throughout: { keyset: 0, offset: 0 }
        }
        for (let number = 1; number <= place.histories; number++) yield* play(place, number, figures)
        const { lost, throughout } = figures
        yield* Console.log(
          `histories: ${JSON.stringify(figures)}; offset cursors did not show ${lost.offset} of ${throughout.offset} ` +
            "records that were there throughout a scan"
        )
        // Too few histories need not show everything.
        if (place.histories < 50) return
        const { cuts, heldBack, parts: ofParts, restarts, resumed, told } = figures
        for (const happened of [cuts, resumed, restarts, ofParts, heldBack, ...kinds.map((kind) => told[kind])]) {
          assert.isAbove(happened, 0, "a history in which nothing happens tells nothing")
        }
      }),
    1_200_000
  )
})
