/** Checks a destination without writing into it: its state, whether it can be written, and the space on its disk. */
import {
  certainIn,
  denialProblem,
  Destination,
  freshnessOf,
  openPersonal,
  type PersonalRule,
  printable,
  SinkError
} from "@payments/copy"
import type { Use } from "@payments/copy/facts"
import type { Lists } from "@payments/core"
import { Effect } from "effect"
import { existsSync } from "node:fs"
import { statfs } from "node:fs/promises"
import { dirname, resolve } from "node:path"
import { ExitCode } from "../outcome/ExitCode.ts"
import { shellWord } from "../terminal/ShellWord.ts"
import { counted } from "../text/Numbers.ts"
import { failed, failedWith, type Finding, ok, skipped, warning } from "./Finding.ts"

const check = "destination"

/**
 * Checks whether the state can be read, belongs to the source and accepts its rule for personal data. `source` and
 * `rule` are undefined if they are not known.
 */
export const checkState = (
  to: Destination.StoredDestination,
  source: string | undefined,
  rule: PersonalRule | undefined,
  lists: ReadonlyArray<Lists.AnyList> = []
): Effect.Effect<Finding> =>
  Effect.scoped(Effect.gen(function*() {
    const opened = yield* Destination.reader(to)
    const { location } = opened
    const bound = yield* Destination.requireSource(opened, source)
    if (rule !== undefined) yield* openPersonal(opened, rule)
    const found = `${location}: ${
      bound === undefined ? "is empty" : source === undefined ? `has the data of ${bound}` : "belongs to this source"
    }`
    const states = yield* freshnessOf(opened, lists)
    const rows = states.map(({ list, rows: count }) => `${list} ${counted(count, "row")}`)
    const holders = new Set(states.flatMap(({ holder }) => holder === undefined ? [] : [holder]))
    return ok(check, [found, ...rows, ...[...holders].map((holder) => `locked by ${holder}`)].join("; "))
  })).pipe(
    Effect.catch((error) =>
      Effect.succeed(
        Destination.isAbsent(to, error)
          ? ok(check, `${error.location}: does not exist yet; the first scan creates it`)
          : failedWith(check, error)
      )
    )
  )

/** Says which facts are not certain that exports and the worker would use, and what decides them. */
export const checkFacts = (
  to: Destination.StoredDestination,
  source: string | undefined,
  lists: ReadonlyArray<Lists.AnyList>
): Effect.Effect<Finding> =>
  Effect.scoped(Effect.gen(function*() {
    const { usesOf } = yield* Effect.promise(() => import("@payments/copy/facts"))
    const reader = yield* Destination.reader(to)
    const open = (yield* Effect.forEach(lists, (list) =>
      Effect.map(certainIn(reader, list, source), (certain) =>
        usesOf(list).filter(({ fact, isOptional = false }) => !isOptional && certain[fact] === undefined).map((
          use
        ) => ({
          ...use,
          list: list.label
        })))))
      .flat()
    if (open.length === 0) {
      return ok(facts, "all that exports use are certain")
    }
    const { from, to: current } = yield* Destination.pendingMigration(to)
    return notCertain(open, from < current ? decidedAfterMigration(to) : decidedBy(to))
  })).pipe(
    Effect.catch((error) =>
      Effect.succeed(
        Destination.isAbsent(to, error)
          ? skipped(facts, "none are stored yet", decidedBy(to))
          : failedWith(facts, error)
      )
    )
  )

const facts = "facts"

const notCertain = (open: ReadonlyArray<Use & { readonly list: string }>, decided: string): Finding => {
  const names = [...Map.groupBy(open, ({ fact }) => fact)].map(([fact, uses]) =>
    `${fact} (${uses.map(({ list }) => list).join(", ")})`
  )
  const ofExports = open.filter(({ isObservedByExports = false }) => isObservedByExports)
  const advice = [
    ...(ofExports.length === open.length ? [] : [decided]),
    ...(ofExports.length === 0 ? [] : ["Exports observe places."])
  ]
  return skipped(facts, `not certain, so not used: ${names.join(", ")}`, advice.join(" "))
}

const decidedBy = (to: Destination.StoredDestination): string =>
  `To decide them, run payments probe --to ${shellWord(Destination.shown(to))}.`

/** Tables of an earlier version may have no table of facts. */
const decidedAfterMigration = (to: Destination.StoredDestination): string => {
  const shown = shellWord(Destination.shown(to))
  return `To decide them, run payments migrate --to ${shown}, then payments probe --to ${shown}.`
}

/** Checks whether an export could write into the destination. */
export const checkWritable = (to: Destination.StoredDestination): Effect.Effect<Finding> => {
  const name = "writable"
  const { place, shown } = Destination.operations(to)
  return place.isLocal
    ? Effect.sync(() => fileFinding(name, place))
    : Effect.match(place.accessProblem, {
      onFailure: (error) => failedWith(name, error),
      onSuccess: (reason) =>
        reason === undefined
          ? ok(name, "the user has the privileges")
          : failedWith(name, new SinkError({ location: shown, reason }))
    })
}

const fileFinding = (name: string, place: { readonly path: string; readonly file: string }): Finding => {
  const file = resolve(place.file)
  const folder = dirname(file)
  const denial = denialProblem([{ path: file }, { path: folder }])
  if (denial !== undefined) return failed(name, ExitCode.destination, denial.replace(/\.$/, ""), { reason: "Denied" })
  // A folder of files is created with its parents, a database's folder is not.
  return place.path === place.file && !existsSync(folder)
    ? failed(name, ExitCode.destination, `${printable(folder)} does not exist`, {
      advice: "Create it first.",
      reason: "ENOENT"
    })
    : ok(name, `${printable(folder)} can be written`)
}

const mebibyte = 1024 * 1024
/** With less space, the check fails: a batch and SQLite's log may need more. */
const leastSpace = 64 * mebibyte
/** With less space, the check warns. */
const fewSpace = 1024 * mebibyte

export const checkSpace = (to: Destination.StoredDestination): Effect.Effect<Finding> => {
  const name = "disk"
  const { place } = Destination.operations(to)
  if (!place.isLocal) {
    return Effect.succeed(skipped(name, `not known: ${place.server} does not report the space of its disk`))
  }
  const folder = existingFolder(dirname(resolve(place.file)))
  return Effect.match(Effect.tryPromise(() => statfs(folder)), {
    onFailure: () => skipped(name, `the free space of ${printable(folder)} is not known`),
    onSuccess: ({ bavail, bsize }) => {
      const free = bavail * bsize
      const found = `${printable(folder)}: ${sizeText(free)} free`
      const advice = "Free some space, or choose another disk."
      return free < leastSpace
        ? failed(name, ExitCode.destination, found, { advice, reason: "Full" })
        : free < fewSpace
        ? warning(name, found, advice)
        : ok(name, found)
    }
  })
}

const existingFolder = (folder: string): string => existsSync(folder) ? folder : existingFolder(dirname(folder))

const sizeText = (bytes: number): string => {
  const gibibytes = bytes / (1024 * mebibyte)
  return gibibytes < 1 ? `${Math.floor(bytes / mebibyte)} MiB` : `${Math.floor(gibibytes)} GiB`
}
