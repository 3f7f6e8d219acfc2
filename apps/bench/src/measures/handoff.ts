/** Measures hand-offs of changes, next to a bare loop that sends the same requests to the same receiver. */
import { records as recordsOf } from "@payments/sandbox"
import * as Listening from "@payments/testkit/Listening"
import { createServer } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { memoryFlags, temporaryFolder } from "../harness/Programs.ts"
import { type Figure, figureOf, median, percentile95, ratioOf } from "../harness/Report.ts"
import { inTurn } from "../harness/Rounds.ts"
import { Process, requireRecords } from "../workloads/Process.ts"
import type { Timed } from "../workloads/tasks.ts"
import { bodyOf } from "../workloads/webhooks.ts"

export interface HandoffSizes {
  /** The changes that are handed off. */
  readonly records: number
  readonly rounds: number
  /** How long changes are committed for the figures of latency. */
  readonly seconds: number
  readonly consumers: number
}

/** The sizes for which the targets are defined: `--records 100000`. */
export const fullHandoffSizes: HandoffSizes = { records: 20_000, rounds: 3, seconds: 10, consumers: 100 }

type Log = (line: string) => void

/** `log` receives a line after each step. */
export const measureHandoff = async (sizes: HandoffSizes, log: Log): Promise<ReadonlyArray<Figure>> => [
  ...await measureSpeed(sizes, log, false),
  ...await measureSpeed(sizes, log, true),
  ...await measureMemory(sizes, log),
  ...await measureLatency(sizes, log),
  ...await measureHanging(sizes, log),
  ...await measureExports(sizes, log)
]

/** Makes a copy of a few records, with so many changes. */
const withChanges = async (folder: string, changes: number) => {
  const file = join(folder, "payments.db")
  await using server = new Process()
  await using exporting = new Process()
  await exporting.run("export", { url: await server.run("listen", 100), to: `sqlite:${file}` })
  const append = appender(file)
  append(changes)
  return { file, to: `sqlite:${file}`, append }
}

/** Returns a function that commits changes of payout requests. */
const appender = (file: string) => {
  const [before, after] = [recordsOf("payoutRequests", 1000, 1), recordsOf("payoutRequests", 1000, 2)]
  let next = 0
  return (count: number): void => {
    const db = new DatabaseSync(file)
    db.exec("PRAGMA busy_timeout = 5000; PRAGMA synchronous = FULL; BEGIN IMMEDIATE")
    const insert = db.prepare(
      `INSERT INTO changes (list, scan, at, kind, id, fields, before, after)
        VALUES ('payout-requests', 1, '2026-01-01T00:00:00.000Z', 'update', ?, '["status","amount"]', ?, ?)`
    )
    for (let index = 0; index < count; index++, next++) {
      insert.run(`pr_${next}`, before.textAt(next % 1000), after.textAt(next % 1000))
    }
    db.exec("COMMIT")
    db.close()
  }
}

const measureSpeed = async (
  { records, rounds }: HandoffSizes,
  log: Log,
  isApplying: boolean
): Promise<ReadonlyArray<Figure>> => {
  using place = temporaryFolder()
  const { to } = await withChanges(place.folder, records)
  const file = join(place.folder, "requests")
  {
    await using capturing = new Process()
    await using sender = new Process()
    const url = await capturing.run("receive", { folder: place.folder, isApplying: false, capture: file })
    requireRecords(await sender.run("handOff", { to, url, consumers: ["captured"] }), records)
  }
  /** The receiver and the sender are processes of their own. */
  const run = async (send: (sender: Process, url: string) => Promise<Timed>) => {
    using own = temporaryFolder()
    await using receiver = new Process()
    await using sender = new Process()
    const url = await receiver.run("receive", { folder: own.folder, isApplying })
    return requireRecords(await send(sender, url), records)
  }
  const { bare, ours } = await inTurn({
    bare: () => run((sender, url) => sender.run("sendCaptured", { file, url })),
    ours: (round) => run((sender, url) => sender.run("handOff", { to, url, consumers: [`c${round}`] }))
  }, { rounds, log })
  const receiver = isApplying
    ? "a receiver that applies each batch in a transaction"
    : "a receiver that answers at once"
  return [
    {
      name: `changes handed off to ${receiver}`,
      value: records / median(ours.map(({ ms }) => ms)) * 1000,
      unit: "records/s"
    },
    ratioOf(`hand-off of ${records} changes ÷ bare loop, to ${receiver}`, "ms", [ours, bare], { atMost: 1.2 })
  ]
}

/** The growth of the largest resident set with five times as many changes. */
const measureMemory = async ({ records }: HandoffSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  const peaks: Array<number> = []
  for (const changes of [Math.ceil(records / 5), records]) {
    using place = temporaryFolder()
    const { to } = await withChanges(place.folder, changes)
    await using receiver = new Process()
    await using sender = new Process(memoryFlags)
    const url = await receiver.run("receive", { folder: place.folder, isApplying: false })
    const { peakRss } = requireRecords(await sender.run("handOff", { to, url, consumers: ["one"] }), changes)
    log(`memory: ${changes} changes: peak RSS ${(peakRss / 2 ** 20).toFixed(0)} MiB`)
    peaks.push(peakRss / 2 ** 20)
  }
  const [few = 0, many = 0] = peaks
  return [
    { name: `peak RSS of a sender of ${records} changes`, value: many, unit: "MiB" },
    { name: "growth with five times as many changes", value: many - few, unit: "MiB" }
  ]
}

/** Receives changes by consumer, and notes when they arrive. The first `hanging` consumers are never answered. */
const arrivals = async (stack: AsyncDisposableStack, hanging: number) => {
  const arrived = new Map<string, Map<number, number>>()
  const server = createServer({ keepAliveTimeout: 600_000 }, (message, response) => {
    void bodyOf(message).then((body) => {
      const now = performance.now()
      const consumer = message.url?.slice(1) ?? ""
      const times = arrived.get(consumer) ?? new Map<number, number>()
      arrived.set(consumer, times)
      for (const [, seq] of body.matchAll(/\{"seq":(\d+)/g)) if (!times.has(Number(seq))) times.set(Number(seq), now)
      if (Number(consumer.slice(1)) >= hanging) response.writeHead(204).end()
    })
  })
  const { port } = await Listening.listen(server)
  stack.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  return { arrived, url: `http://127.0.0.1:${port}` }
}

interface Commits {
  readonly consumers: number
  readonly hanging: number
  readonly seconds: number
  /** Changes of a commit, and commits in a second. */
  readonly size: number
  readonly perSecond: number
}

/** Commits changes while senders follow. Returns the times from commit to arrival at the consumers that answer. */
const latencies = async ({ consumers, hanging, perSecond, seconds, size }: Commits): Promise<ReadonlyArray<number>> => {
  await using stack = new AsyncDisposableStack()
  const { folder } = stack.use(temporaryFolder())
  const { append, to } = await withChanges(folder, 0)
  const { arrived, url } = await arrivals(stack, hanging)
  const names = Array.from({ length: consumers }, (_, index) => `c${index}`)
  const sender = stack.use(new Process())
  await sender.run("follow", { to, url, consumers: names })
  // The first round makes V8 compile, and lets some of the receivers hang.
  const committed: Array<number> = []
  const warmUp = 2 * perSecond
  for (let round = 0; round < seconds * perSecond + warmUp; round++) {
    append(size)
    committed.push(performance.now())
    await new Promise((resolve) => setTimeout(resolve, 1000 / perSecond))
  }
  const answering = names.slice(hanging)
  const total = committed.length * size
  for (let waited = 0; answering.some((name) => (arrived.get(name)?.size ?? 0) < total); waited++) {
    if (waited === 600) throw new Error("not all changes have arrived within a minute")
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return answering.flatMap((name) =>
    committed.slice(warmUp).flatMap((at, index) =>
      Array.from(
        { length: size },
        (_, nth) => (arrived.get(name)?.get((index + warmUp) * size + nth + 1) ?? Infinity) - at
      )
    )
  )
}

const measureLatency = async ({ seconds }: HandoffSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  const times = await latencies({ consumers: 1, hanging: 0, seconds, size: 5, perSecond: 20 })
  log(`latency: ${times.length} changes`)
  return [
    { name: "commit to arrival p95 at 100 changes/s", value: percentile95(times), unit: "ms", atMost: 1000 }
  ]
}

const measureHanging = async (
  { consumers, rounds, seconds }: HandoffSizes,
  log: Log
): Promise<ReadonlyArray<Figure>> => {
  const hanging = Math.ceil(consumers / 10)
  const load = { seconds, size: 10, perSecond: 1 }
  const run = async (one: Pick<Commits, "consumers" | "hanging">) => {
    const times = await latencies({ ...load, ...one })
    return { ms: percentile95(times) }
  }
  const { all, some } = await inTurn({
    all: () => run({ consumers, hanging: 0 }),
    some: () => run({ consumers, hanging })
  }, { rounds, warmUp: false, log })
  return [
    figureOf(`commit to arrival p95 of ${consumers} consumers`, all.map(({ ms }) => ms), { unit: "ms" }),
    ratioOf(`p95 of the others while ${hanging} of ${consumers} hang ÷ while none does`, "ms", [some, all], {
      atMost: 1.05
    })
  ]
}

/** A list to export. */
interface Exported {
  readonly name: string
  readonly records: number
  /** The part of its records that has changed since the last export. */
  readonly changed: 0 | 0.1
  readonly url: string
}

/**
 * Exports lists with and without a consumer. A page of the remote service takes 50 ms, as over a network. The other
 * service shares the processors with the export, the sender and the receiver.
 */
const measureExports = async ({ records, rounds }: HandoffSizes, log: Log): Promise<ReadonlyArray<Figure>> => {
  const remoteRecords = Math.min(records, 20_000)
  await using server = new Process()
  await using remoteServer = new Process()
  const url = await server.run("listen", records)
  const remote = await remoteServer.run("listen", remoteRecords)
  const lists: ReadonlyArray<Exported> = [
    { name: "a list that is new", records, changed: 0, url },
    { name: "a list of which a tenth has changed", records, changed: 0.1, url },
    {
      name: "a list of a remote service, of which a tenth has changed",
      records: remoteRecords,
      changed: 0.1,
      url: `${remote}/slow`
    }
  ]
  const figures: Array<Figure> = []
  for (const list of lists) {
    const { alone, attached } = await inTurn(
      { alone: () => exportList(list, false), attached: () => exportList(list, true) },
      { rounds, log: (line) => log(`export of ${list.name}: ${line}`) }
    )
    const name = `export of ${list.name}, with a consumer ÷ without`
    figures.push(ratioOf(name, "ms", [attached, alone], { atMost: 1.03 }))
    figures.push(ratioOf("the same in processor time of the export", "cpuMs", [attached, alone]))
  }
  return figures
}

const exportList = async ({ changed, records, url }: Exported, hasConsumer: boolean): Promise<Timed> => {
  using place = temporaryFolder()
  const file = join(place.folder, "payments.db")
  const to = `sqlite:${file}`
  await using exporting = new Process(["--max-semi-space-size=16"])
  // A file without tables has no consumers.
  await exporting.run("export", { url, to, firstPageOnly: changed === 0 })
  if (changed > 0) {
    const db = new DatabaseSync(file)
    db.exec(
      `UPDATE payout_requests SET raw = replace(raw, '"amount"', '"amount_before"'), hash = 'x' WHERE "row" % 10 = 0`
    )
    db.close()
  }
  await using receiver = new Process()
  await using sender = new Process()
  if (hasConsumer) {
    const receiverUrl = await receiver.run("receive", { folder: place.folder, isApplying: true })
    await sender.run("follow", { to, url: receiverUrl, consumers: ["one"] })
  }
  return requireRecords(await exporting.run("export", { url, to }), records)
}
