/** `payments diff`: compares two destinations, or two points of one. It needs neither the API nor a key. */
import {
  bothRuleWords,
  comparedLists,
  type ComparedTotals,
  current,
  Destination,
  keyCheckIn,
  pointAt,
  recordDifferences,
  totalDifferences
} from "@payments/copy"
import { Lists } from "@payments/core"
import {
  checkAll,
  CommandExit,
  eraseProgress,
  ExitCode,
  fromDestination,
  logLine,
  print,
  printOrEnd,
  requireOutput,
  usage
} from "@payments/program"
import { Effect, Exit, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { pointIn, pointMetavar, pointProblems, pointWords } from "../listing/PointFlag.ts"
import { type ComparedList, type DiffFormatter, makeDiffFormatter } from "../output/DiffOutput.ts"
import { lookOf, rowFormatFlag } from "../output/Rows.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { makeDiffProgress } from "../progress/DiffProgress.ts"
import { resourceFlag } from "./changes.ts"

export const diffCommand = Command.make(
  "diff",
  {
    destinations: Argument.String("destination").pipe(
      Argument.variadic(),
      Argument.withMetavar("DESTINATION"),
      Argument.withDescription(
        "two destinations, or one with --at: sqlite:FILE, postgres://HOST/DATABASE or file:FOLDER; PAYMENTS_TO by default"
      )
    ),
    at: Flag.String("at").pipe(
      Flag.withMetavar(pointMetavar),
      Flag.withDescription(
        `compare one destination as it was then with now, or with a second --at: ${pointWords}`
      ),
      Flag.atLeast(0)
    ),
    resource: resourceFlag,
    format: rowFormatFlag
  },
  Effect.fnUntraced(
    function*({ at, destinations, format: wanted, resource }) {
      const { points, sides } = yield* checkAll({
        points: Effect.forEach(at, pointIn),
        sides: sidesOf(destinations, at.length)
      })
      const lists = resource.length > 0 ? resource : Lists.all
      const snapshots = yield* Effect.forEach(sides, Destination.snapshot)
      const [first, second = first] = snapshots
      if (first === undefined || second === undefined) return yield* Effect.die("no destination was opened")
      const [from, to] = points
      const a = from === undefined ? current(first) : yield* pointAt(first, from, lists)
      const b = to === undefined ? current(second) : yield* pointAt(second, to, lists)
      const look = yield* lookOf(wanted)
      yield* requireOutput
      const formatter = yield* makeDiffFormatter(look)
      // Points are of one destination.
      const { generation } = yield* first.changeRange
      yield* print(
        formatter.head({ destination: a.location, at: a.at, generation }, {
          destination: b.location,
          at: b.at,
          generation
        })
      )
      for (const { label } of new Set([...a.incompleteLists, ...b.incompleteLists])) {
        yield* logLine(`${label}: rows that were missing at the point, and were removed since, are left out.`)
      }
      if (second !== first) yield* logRules(first, second)
      yield* compare(a, b, yield* comparedLists(a, b, lists), formatter)
    },
    Effect.scoped,
    Effect.catchTags(pointProblems)
  )
).pipe(
  Command.withDescription("Compare two destinations, or two points of one; exits with code 11 if they differ"),
  Command.withExamples([
    {
      command: "payments diff sqlite:./payments.db postgres://127.0.0.1/payments",
      description: "the totals and records that differ between two destinations"
    },
    {
      command: "payments diff sqlite:./payments.db --at 120 --at 240 --resource invoices",
      description: "what changed in the invoices between two changes"
    }
  ])
)

/** Returns one destination if points are given, and two otherwise. */
const sidesOf = Effect.fnUntraced(function*(destinations: ReadonlyArray<string>, points: number) {
  if (points > 2) return yield* usage("--at is given more than twice. Give one or two points of one destination.")
  if (points > 0 && destinations.length > 1) {
    return yield* usage("--at compares points of one destination. Name one, or leave --at out.")
  }
  if (points === 0 && destinations.length !== 2) {
    return yield* usage("Name two destinations to compare, or one with --at SEQ to compare it with an earlier point.")
  }
  if (destinations.length === 0) return [yield* fromDestination(undefined)]
  return yield* Effect.forEach(
    destinations,
    (text) =>
      Effect.flatMap(
        Destination.parse(text),
        (destination): Effect.Effect<Destination.StoredDestination, CommandExit> =>
          Destination.isStored(destination)
            ? Effect.succeed(destination)
            : usage("An export to - (stdout) stores nothing. Name a database or a folder of files.")
      )
  )
})

/** Says if two destinations have different rules for personal data: then records may differ that are equal in the API. */
const logRules = Effect.fnUntraced(function*(first: Side, second: Side) {
  const [one, other] = [yield* first.personal, yield* second.personal]
  if (one.rewriting || other.rewriting) {
    return yield* logWrapped(
      "A rewrite of personal data is not complete, so records may differ that are equal in the API."
    )
  }
  // A destination without data has no rule.
  if (one.rule === undefined || other.rule === undefined) return
  const [words, otherWords] = bothRuleWords(one.rule, other.rule)
  const difference = words !== otherWords
    ? `different rules for personal data (A: ${words}; B: ${otherWords})`
    : keyCheckIn(one.rule) !== keyCheckIn(other.rule)
    ? "pseudonyms of different personal keys"
    : undefined
  if (difference === undefined) return
  yield* logWrapped(`The destinations have ${difference}, so records may differ that are equal in the API.`)
})

type Side = Parameters<typeof current>[0]

/** Compares the lists and prints what differs: all totals first. */
const compare = Effect.fnUntraced(function*(
  a: Parameters<typeof recordDifferences>[0],
  b: Parameters<typeof recordDifferences>[1],
  lists: ReadonlyArray<Lists.AnyList>,
  formatter: DiffFormatter
) {
  const compared: Array<ComparedList> = []
  let isReaderGone = false
  /** Prints differences. If the reader of stdout has closed it, the command ends, but still reports that they differ. */
  const printDifferences = (text: string) =>
    text === "" ? Effect.void : Effect.andThen(
      eraseProgress,
      Effect.catchIf(
        printOrEnd(text),
        ({ exitCode }) => exitCode === ExitCode.done,
        () => {
          isReaderGone = true
          return Effect.fail(differs)
        }
      )
    )
  const progress = yield* makeDiffProgress
  yield* progress.during(Effect.gen(function*() {
    const totals = new Map<string, ComparedTotals>()
    for (const list of lists) {
      yield* progress.totals(list)
      const found = yield* totalDifferences(a, b, list)
      totals.set(list.label, found)
      yield* printDifferences(formatter.totals(found.differences))
    }
    for (const list of lists) {
      const counted = { a: 0, b: 0, onlyA: 0, onlyB: 0, differing: 0 }
      const { differences = [], records = 0 } = totals.get(list.label) ?? {}
      yield* progress.records(list, counted, records)
      yield* Stream.runForEach(
        recordDifferences(a, b, list, counted),
        (differing) => printDifferences(formatter.records(differing))
      )
      compared.push({ list: list.label, totalsDiffer: differences.length > 0, ...counted })
    }
  })).pipe(
    Effect.onExit((exit) =>
      Exit.isSuccess(exit) || isReaderGone ? Effect.void : Effect.andThen(
        print(formatter.end(compared, false)),
        logLine("payments: not everything was compared. Run the same command again to compare everything.")
      )
    )
  )
  yield* print(formatter.end(compared, true))
  if (compared.length === 0) yield* logLine("Neither side has a list.")
  if (compared.some(({ differing, onlyA, onlyB, totalsDiffer }) => totalsDiffer || differing + onlyA + onlyB > 0)) {
    return yield* differs
  }
})

const differs = new CommandExit({ exitCode: ExitCode.differs, problem: "" })
