/** The checks of the fleet test find what they must find. */
import { assert, describe, it } from "@effect/vitest"
import { connect, createServer } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { type AuditEvent, instancesOf, staleCommits } from "../src/fleet/Audit.ts"
import { replayProblems, type StoredRow, truthProblems } from "../src/fleet/Copy.ts"
import { mostWithin } from "../src/fleet/Fleet.ts"
import { type Healing, Link } from "../src/harness/Link.ts"

/** The kind, port and epoch of an event. */
type Step = readonly [AuditEvent["kind"], number, number]

/** Returns events of one lease. A write belongs to the transaction of the event before it. */
const history = (steps: ReadonlyArray<Step>): ReadonlyArray<AuditEvent> =>
  steps.map(([kind, port, epoch], index) => ({
    seq: index,
    at: index,
    tx: String(kind === "write" ? index - 1 : index),
    port,
    source: "s0",
    kind,
    label: "invoices",
    epoch
  }))

const stale = (...steps: ReadonlyArray<Step>) => staleCommits(history(steps), ({ port }) => `runner ${port}`).length

describe("the audit of commits", () => {
  it("accepts commits of the process that acquired the lease last", () => {
    assert.strictEqual(
      stale(["acquire", 1, 1], ["commit", 1, 1], ["write", 1, 0], ["renew", 1, 1], ["release", 1, 2]),
      0
    )
    assert.strictEqual(stale(["acquire", 1, 1], ["commit", 1, 1], ["acquire", 2, 2], ["commit", 2, 2]), 0)
  })

  it("finds commits of a process that has lost the lease", () => {
    assert.strictEqual(stale(["acquire", 1, 1], ["acquire", 2, 2], ["commit", 1, 2]), 1)
    assert.strictEqual(stale(["acquire", 1, 1], ["acquire", 2, 2], ["commit", 1, 1]), 3)
    assert.strictEqual(stale(["acquire", 1, 1], ["release", 1, 2], ["commit", 1, 2]), 1)
    assert.strictEqual(stale(["acquire", 1, 1], ["acquire", 2, 1]), 1)
  })

  it("finds writes outside a commit", () => {
    assert.strictEqual(stale(["acquire", 1, 1], ["write", 1, 0]), 1)
  })

  it("knows which process used a port at a time", () => {
    const of = instancesOf([{ port: 7, since: 10, instance: "a" }, { port: 7, since: 20, instance: "b" }])
    assert.deepStrictEqual([of({ port: 7, at: 15 }), of({ port: 7, at: 25 })], ["a", "b"])
    assert.include(of({ port: 8, at: 25 }), "unknown")
  })
})

describe("the comparison of a copy", () => {
  const row = (id: string, version: number): StoredRow => ({
    id,
    text: `{"id":"${id}","v":${version}}`,
    isMissing: false
  })
  const missing = (stored: StoredRow): StoredRow => ({ ...stored, isMissing: true })
  const [a, a2, b] = [row("a", 1), row("a", 2), row("b", 1)]

  it("finds lost, doubled, old and remaining records", () => {
    assert.deepStrictEqual(truthProblems([a, missing(b)], [a.text]), [])
    for (const [rows, truth] of [[[], [a]], [[a, a], [a]], [[a], [a2]], [[a, b], [a]], [[missing(a)], [a]]] as const) {
      assert.lengthOf(truthProblems(rows, truth.map(({ text }) => text)), 1)
    }
  })

  it("finds lost and doubled changes", () => {
    const insert = { kind: "insert", id: "b", before: null, after: b.text }
    const update = { kind: "update", id: "a", before: a.text, after: a2.text }
    const vanished = { kind: "missing", id: "b", before: null, after: null }
    assert.deepStrictEqual(replayProblems([a], [insert, update, vanished], [a2, missing(b)]), [])
    assert.isNotEmpty(replayProblems([a], [insert, insert, update], [a2, b]))
    assert.isNotEmpty(replayProblems([a], [insert, update, update], [a2, b]))
    assert.isNotEmpty(replayProblems([a], [update], [a2, b]))
    assert.isNotEmpty(replayProblems([a], [insert], [a2, b]))
    assert.isNotEmpty(replayProblems([a], [insert, update, vanished, vanished], [a2, missing(b)]))
    assert.isNotEmpty(replayProblems([a, b], [update], [a2]))
  })

  it("counts the requests of a window", () => {
    const most = (...times: ReadonlyArray<number>) => mostWithin(times, 5)
    assert.deepStrictEqual([most(), most(0, 1, 2, 4, 6), most(0, 5, 10)], [
      { count: 0, end: 0 },
      { count: 4, end: 4 },
      { count: 1, end: 0 }
    ])
  })
})

describe("a link that is cut", () => {
  for (const how of ["late", "lost"] as const satisfies ReadonlyArray<Healing>) {
    it(`keeps its connections, and its data is ${how} afterwards`, async () => {
      let received = ""
      const server = createServer((socket) =>
        socket.on("data", (chunk) => received += chunk.toString()).on("error", () => {})
      )
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const address = server.address()
      await using link = await Link.start(typeof address === "object" && address !== null ? address.port : 0)
      const client = connect(link.port, "127.0.0.1")
      let isClosed = false
      client.on("error", () => {}).on("close", () => isClosed = true)
      client.write("before ")
      while (received === "") await sleep(5)
      link.cut()
      client.write("during")
      await sleep(50)
      assert.deepStrictEqual([received, isClosed], ["before ", false])
      link.heal(how)
      while (how === "late" ? received === "before " : !isClosed) await sleep(5)
      await sleep(50)
      assert.deepStrictEqual([received, isClosed], how === "late" ? ["before during", false] : ["before ", true])
      client.destroy()
      server.close()
    })
  }
})
