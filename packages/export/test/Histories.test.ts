import { assert, describe, it } from "@effect/vitest"
import { Lists, type PaymentsApi } from "@payments/core"
import { Console, Deferred, Effect, Fiber, Layer } from "effect"
import { createHash } from "node:crypto"
import { join } from "node:path"
import { scan, scanParts } from "../src/Scan.ts"
import type { ScanEvent, ScanOptions } from "../src/Scan.ts"
import * as SqliteSink from "../src/sqlite/SqliteSink.ts"
import { openReader } from "../src/sqlite/SqliteStore.ts"
import { verify } from "../src/Verify.ts"
import { Book, idOf } from "./Book.ts"
import { ChangingList, layerOver, type Shape } from "./ChangingList.ts"
import { rowsOf, temporaryFolder } from "./Folder.ts"
import { crash, type Dice, diceOf, seed } from "./Seed.ts"

const histories = crash ? 1000 : 60

const shapes: ReadonlyArray<Shape> = (["newest", "oldest", "shuffled"] as const).flatMap((order) =>
  (["keyset", "offset"] as const).map((cursors) => ({ order, cursors }))
)

/** What happened over all histories. */
interface Figures {
  scans: number
  cuts: number
  restarts: number
  parts: number
  missing: number
  heldBack: number
  /** Of records that were there throughout a scan: how many it was not shown, by the kind of its cursors. */
  lost: Record<Shape["cursors"], number>
  throughout: Record<Shape["cursors"], number>
}

/** Plays one history, and holds the destination against the book after each of its scans. */
const play = (number: number, figures: Figures) =>
  Effect.gen(function*() {
    const dice = diceOf(seed, number)
    const shape = dice.pick(shapes)
    const file = join(yield* temporaryFolder, "payments.db")
    const list = new ChangingList(dice, shape, dice.below(60))
    const book = new Book()
    const replayed = { texts: new Map<string, string>(), after: 0, telling: false }
    const events: Array<ScanEvent["_tag"]> = []

    /** The pages that were handed on and not committed yet, and how many of the traversal were. */
    let handedOn: Array<ReadonlyArray<string>> = []
    let committed = 0
    const api = layerOver(list, {
      onPages: () => {
        handedOn = []
      },
      onPage: (texts) => void handedOn.push(texts)
    })
    const settle = (pages: number) => {
      for (const texts of handedOn.splice(0, pages - committed)) book.page(texts)
      committed = pages
    }
    const run = (options: ScanOptions, cutAt?: number) =>
      Effect.gen(function*() {
        const reached = yield* Deferred.make<void>()
        const fiber = yield* scan("invoices", {
          ...options,
          onEvent: (event) => {
            events.push(event._tag)
            if (event._tag === "Begun") {
              committed = event.progress.pages
              if (event.start !== "resumed") {
                book.begin("")
                list.throughout = new Set(list.ids())
              }
            }
            if (event._tag === "Restarted") {
              figures.restarts++
              book.again()
              committed = 0
            }
            if (event._tag !== "Committed") return Effect.void
            settle(event.progress.pages)
            return event.progress.pages === cutAt
              ? Effect.andThen(Deferred.succeed(reached, undefined), Effect.never)
              : Effect.void
          }
        }).pipe(Effect.provide(destinationOver(file, api)), Effect.forkChild)
        if (cutAt !== undefined) {
          yield* Effect.raceFirst(Deferred.await(reached), Effect.ignore(Fiber.join(fiber)))
          if (yield* Deferred.isDone(reached)) {
            yield* Fiber.interrupt(fiber)
            figures.cuts++
            // Cut behind its last page, it had come to its end, and only its summary is lost.
            const [last] = rowsOf(file, "SELECT state FROM scans ORDER BY scan DESC LIMIT 1")
            if (last?.["state"] === "complete") book.end()
            return undefined
          }
        }
        return yield* Fiber.join(fiber)
      })

    const limits = [5, 5, 5, 8]
    for (let round = 0, rounds = 3 + dice.below(5); round < rounds; round++) {
      list.pace = dice.pick([0, 1, 4])
      list.isEmpty = dice.chance(0.08)
      list.isNameless = dice.chance(0.06)
      list.refusesCursor = dice.chance(0.1)
      if (dice.chance(0.1)) list.removeShare(dice.pick([0.05, 0.4]))
      if (dice.chance(0.15)) {
        list.refusesCursor = false
        yield* partsOf(dice, list, book, file)
        figures.parts++
      } else {
        const options = { limit: dice.pick(limits), largestBatch: dice.pick([1, 20]) }
        for (let cuts = dice.chance(0.3) ? 1 + dice.below(3) : 0; cuts > 0; cuts--) {
          const summary = yield* run(dice.chance(0.8) ? options : { ...options, limit: 6 }, 1 + dice.below(6))
          // It came to its end before the cut.
          if (summary !== undefined) assertEnd(book, summary, file)
        }
        const summary = yield* run(options)
        if (summary === undefined) return assert.fail("a run that nothing cuts comes to its end")
        figures.scans++
        const ended = assertEnd(book, summary, file)
        figures.missing += ended.missing.length
        figures.heldBack += ended.heldBack
        const unseen = [...list.throughout].filter((id) => !book.current.seen.has(id))
        if (!list.isEmpty) {
          figures.lost[shape.cursors] += unseen.length
          figures.throughout[shape.cursors] += list.throughout.size
          if (shape.cursors === "keyset") assert.deepStrictEqual(unseen, [])
        }
      }
      assertRows(book, file)
      const { differences } = yield* Effect.flatMap(
        openReader(file, "here"),
        (reader) => verify(reader, Lists.invoices)
      ).pipe(Effect.scoped)
      assert.deepStrictEqual(differences, [])
      replayChanges(replayed, file)
    }
  }).pipe(
    Effect.scoped,
    Effect.onError(() => Console.error(`history ${number} of seed ${seed}`))
  )

const destinationOver = (file: string, api: Layer.Layer<PaymentsApi>) => Layer.merge(SqliteSink.layer(file), api)

/** Reads the two parts of the list side by side, while records move between them. */
const partsOf = Effect.fnUntraced(function*(dice: Dice, list: ChangingList, book: Book, file: string) {
  const shown = new Map<string, Array<ReadonlyArray<string>>>()
  const collect = (texts: ReadonlyArray<string>) => {
    const part = /"contract":"([^"]*)"/.exec(texts[0] ?? "")?.[1] ?? ""
    shown.set(part, [...shown.get(part) ?? [], texts])
  }
  const values = ["north", "south"]
  const summaries = yield* scanParts("invoices", {
    field: "contract",
    values,
    limit: 5,
    concurrency: dice.pick([1, 2])
  }).pipe(Effect.provide(destinationOver(file, layerOver(list, { onPage: collect }))))
  assert.deepStrictEqual(summaries.map(({ missing, heldBack }) => [missing, heldBack]), [[0, 0], [0, 0]])
  const side = new Map<string, Array<string>>()
  for (const value of values) {
    book.begin(value)
    const own = new Map<string, string>()
    for (const texts of shown.get(value) ?? []) {
      book.page(texts)
      for (const text of texts) own.set(idOf(text) ?? "", text)
    }
    for (const [id, text] of own) side.set(id, [...side.get(id) ?? [], text])
    book.end()
  }
  // Of a record that moved from one part to the other meanwhile, the one that was committed last stands.
  for (const [id, texts] of side) if (id !== "") book.texts.set(id, texts)
})

const assertEnd = (
  book: Book,
  summary: { readonly scan: number; readonly missing: number; readonly heldBack: number },
  file: string
) => {
  const { seen } = book.current
  const ended = book.end()
  assert.deepInclude(summary, { missing: ended.missing.length, heldBack: ended.heldBack })
  for (const id of ended.missing) assert.isFalse(seen.has(id), "what the scan has just seen is not missing")
  // The certificate is of what this scan was shown, as the rows now show it.
  const [row] = rowsOf(file, `SELECT state, certificate FROM scans WHERE scan = ${summary.scan}`)
  assert.strictEqual(row?.["state"], "complete")
  const certificate = JSON.parse(String(row?.["certificate"])) as { readonly [name: string]: unknown } // the engine's own
  const texts = [...seen].map((id) => book.texts.get(id)?.[0] ?? "")
  const sum = texts.reduce((total, text) => total + Number(/"amount":(\d+)/.exec(text)?.[1] ?? 0), 0)
  const digest = texts.reduce((total, text) => total + BigInt(`0x${sha256(text).slice(0, 32)}`), 0n) % 2n ** 128n
  assert.deepInclude(certificate, { distinct: seen.size, digest: digest.toString(16).padStart(32, "0") })
  assert.strictEqual(Number((certificate["sums"] as { readonly amount?: string }).amount ?? 0), sum)
  return ended
}

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex")

const assertRows = (book: Book, file: string): void => {
  const rows = rowsOf(file, "SELECT id, raw, hash, missing_since FROM invoices")
  assert.strictEqual(rows.length, book.texts.size)
  for (const { hash, id, missing_since: missing, raw } of rows) {
    assert.include(book.texts.get(String(id)) ?? [], String(raw))
    assert.strictEqual(hash, sha256(String(raw)))
    assert.strictEqual(missing !== null, book.missing.has(String(id)), `${id} is missing`)
  }
}

/** Follows the changes as a reader of them would, and comes to the rows that are there. */
const replayChanges = (
  replayed: { texts: Map<string, string>; after: number; telling: boolean },
  file: string
): void => {
  const { texts } = replayed
  for (const row of rowsOf(file, `SELECT * FROM changes WHERE seq > ${replayed.after} ORDER BY seq`)) {
    assert.strictEqual(row["seq"], replayed.after + 1)
    replayed.after++
    const id = String(row["id"])
    if (row["kind"] === "missing") continue
    if (replayed.telling) assert.strictEqual(row["before"], texts.get(id) ?? null, `${String(row["kind"])} of ${id}`)
    texts.set(id, String(row["after"]))
  }
  const rows = rowsOf(file, "SELECT id, raw FROM invoices").map(({ id, raw }) => [String(id), String(raw)] as const)
  const [complete] = rowsOf(file, "SELECT 1 FROM scans WHERE state = 'complete' AND part = ''")
  if (replayed.telling) assert.deepStrictEqual([...texts].toSorted(), rows.toSorted())
  // A list's first load is not told: what follows it is.
  else replayed.texts = new Map(rows)
  replayed.telling = complete !== undefined
}

describe(`a list that changes while it is read (seed ${seed}, ${histories} histories)`, () => {
  it.live(
    "is held as it was last shown, nothing of it is missing wrongly, and with keyset cursors nothing is lost",
    () =>
      Effect.gen(function*() {
        const figures: Figures = {
          scans: 0,
          cuts: 0,
          restarts: 0,
          parts: 0,
          missing: 0,
          heldBack: 0,
          lost: { keyset: 0, offset: 0 },
          throughout: { keyset: 0, offset: 0 }
        }
        for (let number = 1; number <= histories; number++) yield* play(number, figures)
        yield* Console.log(
          `histories: ${
            JSON.stringify(figures)
          }; offset cursors did not show ${figures.lost.offset} of ${figures.throughout.offset} records that were there throughout a scan`
        )
        for (const happened of [figures.cuts, figures.restarts, figures.parts, figures.missing, figures.heldBack]) {
          assert.isAbove(happened, 0, "a history in which nothing happens tells nothing")
        }
      }),
    1_200_000
  )
})
