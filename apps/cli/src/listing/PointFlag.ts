/**
 * `--at`: a point of a copy's history, and what is said about it. A day stands for its end. As in `--since`, a day or a
 * time without a zone is in the time zone of this machine (`TZ`). What is printed is UTC.
 */
import {
  type BeyondLastChange,
  type ChangesBeginLater,
  type ChangesRemoved,
  type HistoryRemoved,
  type MissingRowsRemoved,
  type NamedPoint,
  type ReachedPoint
} from "@payments/copy"
import { CommandExit, ExitCode, type SettingParser, usage, wholeNumber } from "@payments/program"
import { DateTime, Effect } from "effect"
import { logWrapped } from "../output/Wrapped.ts"
import { endOfDayMs, localProblem, momentMs } from "./Since.ts"

export const pointMetavar = "SEQ|TIME|DAY"

export const pointWords = "a change number, a time such as 2024-05-01T10:00Z, or the end of a day such as 2024-05-01"

const parser: SettingParser<NamedPoint> = {
  expected: `${pointWords}; another time zone is written as an offset such as +02:00`,
  parse: (text) => {
    const seq = /^(0|[1-9]\d*)$/.test(text) ? wholeNumber(0).parse(text) : undefined
    if (seq !== undefined) return seq
    const endMs = endOfDayMs(text)
    const ms = endMs ?? momentMs(text)
    if (ms === undefined) return undefined
    return { time: new Date(ms).toISOString(), ...endMs === undefined ? {} : { day: text.trim() } }
  }
}

/** Returns the point that the text of `--at` names. A time that has not come yet is refused. */
export const pointIn = (text: string): Effect.Effect<NamedPoint, CommandExit> => pointOf("--at", text)

const pointOf = Effect.fnUntraced(function*(
  name: string,
  text: string
): Effect.fn.Return<NamedPoint, CommandExit> {
  const point = parser.parse(text)
  if (point === undefined) return yield* usage(`Invalid value for ${name}. Expected: ${parser.expected}`)
  if (typeof point === "number") return point
  const problem = localProblem(text)
  if (problem !== undefined) return yield* usage(`${name}: ${problem}`)
  const now = DateTime.formatIso(yield* DateTime.now)
  if (point.time <= now) return point
  return yield* usage(
    endOfDayMs(text) === undefined
      ? `${name}: ${point.time} is in the future.`
      : `${name}: the day ${text} has not ended yet: it ends at ${point.time}. Name a time, or leave ${name} out.`
  )
})

/** Returns the point of an optional flag, or of an argument with this name, which may be the number of a change. */
export const optionalPointIn = (
  given: string | number | undefined,
  name = "--at"
): Effect.Effect<NamedPoint | undefined, CommandExit> =>
  given === undefined ? Effect.succeed(undefined) : pointOf(name, String(given))

/** Says why the rows at a point cannot be read. */
export const pointProblems = {
  BeyondLastChange: ({ message }: BeyondLastChange) => usage(message),
  ChangesBeginLater: ({ message }: ChangesBeginLater) => incomplete(message),
  MissingRowsRemoved: ({ message }: MissingRowsRemoved) => incomplete(message),
  HistoryRemoved: ({ message }: HistoryRemoved) => incomplete(message),
  ChangesRemoved: ({ message, through }: ChangesRemoved) =>
    incomplete(`${message} The first point that can be reconstructed is change ${through}.`)
}

const incomplete = (problem: string) => new CommandExit({ exitCode: ExitCode.incomplete, problem })

/** Says of which point an answer is, and what the copy knew of its lists. */
export const pointNotes = ({ incompleteLists, lists, seq, time }: ReachedPoint): ReadonlyArray<string> => [
  time === undefined
    ? `The rows are those after change ${seq}.`
    : `The rows are those of ${time} (after change ${seq}).`,
  ...lists.length === 0 ? [] : [
    `The last complete exports before then: ${
      lists.map(({ list, readAt = "unknown" }) => `${list.label} ${readAt}`).join(", ")
    }.`
  ],
  ...incompleteLists.map((list) =>
    `${list.label}: rows that were missing at the point, and were removed since, are left out.`
  )
]

/** Prints {@link pointNotes} on stderr. */
export const logPoint = (point: ReachedPoint) => Effect.forEach(pointNotes(point), logWrapped, { discard: true })
