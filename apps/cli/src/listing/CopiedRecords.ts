/** `payments export LIST --from COPY --to -`: prints the records of a copy, as they are or as they were at a point. */
import { type Cell, Destination, query, queryAt, type QueryResult, type ResultAt } from "@payments/copy"
import { Lists } from "@payments/core"
import {
  allOf,
  checkAll,
  type CommandExit,
  counted,
  fromDestination,
  logLine,
  printOrEnd,
  requireOutput,
  toDestination,
  usage
} from "@payments/program"
import { Effect, Stream, String } from "effect"
import { logPoint, optionalPointIn, pointProblems } from "./PointFlag.ts"

interface Given {
  readonly from: string
  readonly at: string | undefined
  readonly to: string | undefined
  readonly lists: ReadonlyArray<Lists.ListName>
  /** The flags that only an export from the service has, as far as they are given. */
  readonly others: ReadonlyArray<string>
}

/** Prints the exact texts of the records that the service returned then, one on each line, and no missing ones. */
export const printCopied = Effect.fnUntraced(
  function*(given: Given) {
    const { destination, list, point } = yield* checkAll({
      list: listOf(given),
      point: optionalPointIn(given.at),
      destination: fromDestination(given.from),
      to: Effect.flatMap(toDestination(given.to), (to) =>
        Destination.isStored(to)
          ? usage("With --from, the records are printed: give --to -, and send them to a file with >.")
          : Effect.void)
    })
    yield* requireOutput
    const sql = `SELECT raw FROM ${String.camelToSnake(list.name)} WHERE missing_since IS NULL ORDER BY "row"`
    const result: QueryResult & Partial<ResultAt> = point === undefined
      ? yield* query(destination, sql)
      : yield* queryAt(destination, { sql }, point)
    let count = 0
    yield* Stream.runForEach(result.rows, (rows) => {
      count += rows.length
      return printOrEnd(rows.map(([text]) => `${textOf(text)}\n`).join(""))
    })
    yield* logLine(`${list.label}: ${counted(count, "record")}`)
    if (result.point !== undefined) yield* logPoint(result.point)
  },
  Effect.scoped,
  Effect.catchTags({ QueryError: ({ problem }) => usage(problem), ...pointProblems })
)

/** The column has texts only. */
const textOf = (cell: Cell | undefined): string => typeof cell === "string" ? cell : ""

const listOf = ({ lists: [name, ...more], others }: Given): Effect.Effect<Lists.AnyList, CommandExit> =>
  name === undefined || more.length > 0
    ? Effect.fail(usage("With --from, name one list: its records are printed, and the lines do not name their list."))
    : others.length > 0
    ? Effect.fail(usage(`${allOf(others)}: only for an export from the service. Leave --from or these out.`))
    : Effect.succeed(Lists.byName[name])
