/**
 * Reconciles the records of a list in a copy with the lines of a statement. Every line and every record is in exactly
 * one entry. An entry is matched, different, missing there (the statement lacks the record), missing here (the copy
 * lacks the line), or expected: the statement need not have the record yet. Rows that the service no longer returns do
 * not count. The copy is only read.
 */
import { Lists, membersOf } from "@payments/core"
import { Effect, Fiber, Option, type Redacted, type Scope, Stream } from "effect"
import { columnOfPath, type FieldCondition, sqlCondition } from "../ask/Conditions.ts"
import { queryOpened } from "../ask/Query.ts"
import { operations, reader, type StoredDestination } from "../destination/Destination.ts"
import { type Column, columnsOf, layoutOf, tableOf } from "../plan/Columns.ts"
import type { SinkError } from "../port/Sink.ts"
import { pseudonymOnce } from "../rule/Pseudonym.ts"
import { keyCheck } from "../rule/Pseudonym.ts"
import { keptFields, keyCheckIn, pseudonymFields } from "../rule/StoredRule.ts"
import type { QueryError } from "../statement/Statement.ts"
import { unfilled } from "../store/Filling.ts"
import type { Cell } from "../text/Cell.ts"
import { nearest } from "../text/Nearest.ts"
import { recordDay } from "./Dates.ts"
import { entriesOf, type Entry, type EntryRow, rowsOfEntries } from "./Entries.ts"
import { entriesIn, type EntryClass, keyText, Ledger, ledgerError, unreadDay } from "./Ledger.ts"
import { match, type MatchRules, type Totals } from "./Match.ts"
import { type ComparedField, readStatement, type StatementNotation, type StatementShape } from "./ReadStatement.ts"
import { StatementError } from "./StatementError.ts"

export interface ReconcileOptions extends StatementNotation {
  readonly from: StoredDestination
  readonly file: string
  readonly list: Lists.AnyList
  /** The compared fields: one amount, at most one date, and texts. */
  readonly on: ReadonlyArray<string>
  /** The field whose equal values make a group, so that a line is compared with the sum of the records. */
  readonly group: string | undefined
  /** By how many days a date may differ. */
  readonly withinDays: number
  readonly where: ReadonlyArray<FieldCondition>
  /** The last day of the statement, if its lines do not show it. */
  readonly through: number | undefined
  /** The key of the copy's pseudonyms. */
  readonly personalKey: Redacted.Redacted<Uint8Array> | undefined
  /** Whether matched entries are kept for {@link Reconciled.rows} and {@link Reconciled.entries}. */
  readonly keepsMatched: boolean
}

export interface Reconciled {
  readonly statement: StatementShape
  readonly totals: Totals
  /** The fields of the keys, in the order of the values of a row. */
  readonly keys: ReadonlyArray<string>
  /** The field with the date on which the statement should have a record. */
  readonly day: string | undefined
  readonly isDayCompared: boolean
  /** Whether the statement has a column of fees. */
  readonly hasFees: boolean
  readonly lastDay: number | undefined
  /** The records that are missing there and were due before the statement's first day. */
  readonly dueBefore: number
  /** A row for each line and each record. A row has both if it is a pair. */
  readonly rows: (classes: ReadonlyArray<EntryClass>) => Stream.Stream<ReadonlyArray<EntryRow>, SinkError>
  /** A row for each entry. */
  readonly entries: (classes: ReadonlyArray<EntryClass>) => Stream.Stream<ReadonlyArray<Entry>, SinkError>
}

/** Compares both sides. The result can be read until the scope closes. */
export const reconcile = Effect.fnUntraced(function*(
  options: ReconcileOptions
): Effect.fn.Return<Reconciled, StatementError | SinkError | QueryError, Scope.Scope> {
  const fields = yield* fieldsOf(options)
  const toKey = yield* keysOf(options, fields)
  const ledger = yield* Effect.acquireRelease(
    attempt(() => new Ledger()),
    (opened) => Effect.sync(() => opened.close())
  )
  // The query process reads the copy while this one reads the statement. An error of the statement comes first.
  const records = yield* Effect.forkChild(readRecords(ledger, options, fields))
  const statement = yield* readStatement(ledger, {
    ...options,
    keys: fields.keys.map(comparedField),
    amount: comparedField(fields.amount),
    day: fields.day === undefined
      ? undefined
      : {
        ...comparedField(fields.day),
        isOptional: !fields.isDayCompared && options.map[nameOf(fields.day)] === undefined
      },
    isDayCompared: fields.isDayCompared,
    isGrouped: options.group !== undefined,
    toKey
  })
  yield* Fiber.join(records)
  const lastDay = options.through ?? statement.lastDay
  const rules: MatchRules = {
    isGrouped: options.group !== undefined,
    hasKey: fields.keys.length > 0,
    day: !fields.isDayCompared ? "none" : fields.day === fields.group ? "group" : "compared",
    within: options.withinDays,
    hasDue: fields.day !== undefined,
    lastDay,
    keepsMatched: options.keepsMatched
  }
  yield* attempt(() => ledger.sortSides(rules.isGrouped))
  const totals = yield* stepwise(match(ledger, rules))
  const shown = { keys: fields.keys.length, isGrouped: rules.isGrouped }
  const dueBefore = statement.firstDay === undefined
    ? 0
    : yield* attempt(() => countDueBefore(ledger, (statement.firstDay ?? 0) - rules.within, rules.isGrouped))
  return {
    statement,
    totals,
    keys: fields.keys.map(nameOf),
    day: fields.day === undefined ? undefined : nameOf(fields.day),
    isDayCompared: fields.isDayCompared,
    hasFees: options.map["fee"] !== undefined,
    lastDay,
    dueBefore,
    rows: (classes) => chunked(() => rowsOfEntries(ledger, classes, shown)),
    entries: (classes) => chunked(() => entriesOf(ledger, classes, shown))
  }
})

const attempt = <A>(step: () => A): Effect.Effect<A, SinkError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(step())
    } catch (error) {
      const failure = ledgerError(error)
      return failure === undefined ? Effect.die(error) : Effect.fail(failure)
    }
  })

/** Runs all steps. Between them, other work of the program gets its turn, such as Ctrl-C. */
const stepwise = Effect.fnUntraced(function*<A>(steps: Generator<void, A>): Effect.fn.Return<A, SinkError> {
  for (;;) {
    const step = yield* attempt(() => steps.next())
    if (step.done === true) return step.value
    yield* Effect.sleep(0)
  }
})

const rowsPerChunk = 500

const chunked = <A>(open: () => Generator<A, void>): Stream.Stream<ReadonlyArray<A>, SinkError> =>
  Stream.unwrap(Effect.map(attempt(open), (rows) =>
    Stream.paginate(undefined, () =>
      Effect.map(
        attempt(() => {
          const chunk: Array<A> = []
          for (let next; chunk.length < rowsPerChunk && (next = rows.next()).done !== true;) chunk.push(next.value)
          return chunk
        }),
        (chunk) =>
          [chunk.length === 0 ? [] : [chunk], chunk.length === 0 ? Option.none() : Option.some(undefined)] as const
      ))))

/** The columns of the compared fields. */
interface Fields {
  readonly keys: ReadonlyArray<Column>
  readonly amount: Column
  /** The compared date, or else the one that says when the statement should have a record. */
  readonly day: Column | undefined
  readonly isDayCompared: boolean
  readonly group: Column | undefined
}

const nameOf = ({ path }: Column): string => path.join(".")

const comparedField = (column: Column): ComparedField => ({
  field: nameOf(column),
  names: [nameOf(column), column.name]
})

const refuse = (problem: string) => new StatementError({ problem })

/** Checks the fields, and that the copy has them. */
const fieldsOf = Effect.fnUntraced(function*({ from, group: wantedGroup, list, map, on, where }: ReconcileOptions) {
  const columns = columnsOf(list)
  const dates = Lists.dateFields(list)
  const isDate = ({ path }: Column) => path.length === 1 && path[0] in dates
  const columnOf = Effect.fnUntraced(function*(flag: string, name: string) {
    const found = columns.find((column) => nameOf(column) === name || column.name === name)
    if (found !== undefined) return found
    const near = nearest(name, columns.map(nameOf))
    return yield* refuse(
      `${flag}: ${list.title} have no field ${name}. ${
        near.length === 0 ? `They have ${columns.map(nameOf).join(", ")}.` : `Did you mean ${near.join(" or ")}?`
      }`
    )
  })
  const compared = yield* Effect.forEach(new Set(on), (name) => columnOf("--on", name))
  const group = wantedGroup === undefined ? undefined : yield* columnOf("--group", wantedGroup)
  const [amount, second] = compared.filter(({ kind }) => kind === "integer")
  if (amount === undefined || second !== undefined) {
    return yield* refuse(
      `--on names ${amount === undefined ? "no amount" : "several amounts"}. Name one of ${
        Lists.amountFields(list).join(", ") || "a list that has amounts"
      }.`
    )
  }
  if (
    group?.kind === "integer" ||
    [...compared, ...group === undefined ? [] : [group]].some(({ kind }) => kind === "boolean")
  ) {
    return yield* refuse("--on and --group compare texts and dates, and one amount.")
  }
  const days = [...new Set([...compared.filter(isDate), ...group !== undefined && isDate(group) ? [group] : []])]
  if (days.length > 1) {
    return yield* refuse(`--on and --group name several dates: ${days.map(nameOf).join(", ")}. Name one.`)
  }
  const day = days[0] ?? (yield* unlessCompared(list, map))
  const keys = [...new Set([...compared, ...group === undefined ? [] : [group]])]
    .filter((column) => column.kind === "text" && !isDate(column))
  const used = [...keys, amount, ...day === undefined ? [] : [day]]
  yield* checkMapped(map, used, columns)
  const conditions = where.flatMap(({ path }) => columnOfPath(list, path.names) ?? [])
  yield* checkColumns({ from, list }, used, conditions)
  return { keys, amount, day, isDayCompared: days.length > 0, group } satisfies Fields
})

/** Returns the date that is not compared: the mapped one, that of the settlement, or that of the creation. */
const unlessCompared = Effect.fnUntraced(function*(list: Lists.AnyList, map: ReconcileOptions["map"]) {
  const dates = Lists.dateFields(list)
  const columns = columnsOf(list).filter(({ path }) => path.length === 1 && path[0] in dates)
  const mapped = columns.filter((column) => map[nameOf(column)] !== undefined)
  if (mapped.length > 1) return yield* refuse(`--map names several dates: ${mapped.map(nameOf).join(", ")}. Name one.`)
  return mapped[0] ?? columns.find(({ path }) => dates[path[0]] === "day") ??
    columns.find(({ path }) => path[0] === "createdAt")
})

const checkMapped = (
  map: ReconcileOptions["map"],
  used: ReadonlyArray<Column>,
  columns: ReadonlyArray<Column>
) =>
  Effect.gen(function*() {
    for (const [name, { isOptional }] of Object.entries(map)) {
      const isKnown = columns.some((column) => nameOf(column) === name)
      if ((isOptional === true && isKnown) || name === "fee" || used.some((column) => nameOf(column) === name)) continue
      return yield* refuse(
        isKnown
          ? `--map ${name}: the field is not compared. Name it in --on or --group.`
          : `--map ${name}: there is no such field. Compared are ${
            used.map(nameOf).join(", ")
          }; fee is the column of fees.`
      )
    }
  })

/** Checks that the copy has the columns. A condition can be on no pseudonym, because no value equals one. */
const checkColumns = (
  { from, list }: Pick<ReconcileOptions, "from" | "list">,
  compared: ReadonlyArray<Column>,
  conditions: ReadonlyArray<Column>
) =>
  Effect.scoped(Effect.gen(function*() {
    const opened = yield* reader(from)
    const lacking = yield* unfilled(opened, list)
    const { rule } = yield* opened.personal
    const [kept, replaced] = [keptFields(rule, list), pseudonymFields(rule, list)]
    for (const column of [...compared, ...conditions]) {
      if (lacking.columns.some(({ name }) => name === column.name)) {
        return yield* refuse(
          `The copy has no column ${column.name} yet: an earlier version wrote it. Run an export first.`
        )
      }
      const name = nameOf(column)
      if (!kept.has(name) && !replaced.has(name)) {
        return yield* refuse(
          `${name} is omitted from this copy by its rule for personal data, so it cannot be compared.`
        )
      }
      if (replaced.has(name) && conditions.includes(column)) {
        return yield* refuse(
          `${name} is pseudonymized in this copy by its rule for personal data, so --where cannot compare it.`
        )
      }
    }
  }))

/** Returns the function that makes the values of a statement comparable: pseudonyms, where the copy has them. */
const keysOf = Effect.fnUntraced(function*(
  { from, list, personalKey }: ReconcileOptions,
  { keys }: Fields
): Effect.fn.Return<(values: ReadonlyArray<string>) => ReadonlyArray<string>, StatementError | SinkError> {
  const { rule } = yield* Effect.scoped(Effect.flatMap(reader(from), ({ personal }) => personal))
  const replaced = pseudonymFields(rule, list)
  const isReplaced = keys.map((column) => replaced.has(nameOf(column)))
  if (!isReplaced.includes(true)) return (values) => values
  const names = keys.filter((_, index) => isReplaced[index]).map(nameOf).join(", ")
  if (personalKey === undefined || keyCheck(personalKey) !== keyCheckIn(rule)) {
    return yield* refuse(
      `The copy has pseudonyms of ${names}. They can be compared only with ${
        personalKey === undefined
          ? "the personal key, which is not set"
          : "the personal key of the copy, and another one is set"
      }.`
    )
  }
  return (values) =>
    values.map((value, index) =>
      isReplaced[index] === true && value.trim() !== "" ? pseudonymOnce(personalKey, value.trim()) : value
    )
})

/** Copies what is compared into the ledger. */
const readRecords = Effect.fnUntraced(function*(
  ledger: Ledger,
  { from, list, where }: ReconcileOptions,
  { amount, day, keys }: Fields
) {
  const { dialect } = operations(from)
  const parameters: Array<string> = []
  const conditions = ["missing_since IS NULL"]
  for (const condition of where) {
    const found = sqlCondition(dialect, list, condition)
    if (typeof found === "string") return yield* refuse(found)
    if (found.value !== undefined) parameters.push(found.value)
    conditions.push(found.sql(`$${parameters.length}`))
  }
  const columns = [...keys.map(({ name }) => name), "id", amount.name, day?.name ?? "NULL"]
  const { rows } = yield* queryOpened(
    from,
    // An amount beyond 2^53 has no value in its column, but its digits in the record's text.
    `SELECT ${columns.join(", ")}, CASE WHEN ${amount.name} IS NULL THEN raw END
      FROM ${tableOf(list)} WHERE ${conditions.join(" AND ")}`,
    parameters
  )
  const days = new Map<string, number>()
  const dayOf = (cell: Cell | undefined): { readonly day: number | null; readonly isDayUnread: boolean } => {
    const text = textOf(cell)?.trim() ?? ""
    const known = days.get(text.slice(0, dayCharacters))
    const isUtc = utcDay.test(text)
    const found = known !== undefined && isUtc ? known : recordDay(text)
    if (found !== undefined && isUtc && days.size < mostDays) days.set(text.slice(0, dayCharacters), found)
    return { day: found ?? null, isDayUnread: found === undefined && text !== "" }
  }
  const count = keys.length
  yield* Stream.runForEach(rows, (chunk) =>
    attempt(() => {
      for (const cells of chunk) {
        ledger.addRecord({
          id: textOf(cells[count]) ?? "",
          key: keyText(cells.slice(0, count).map(textOf)),
          amount: amountOf(cells[count + 1], cells[count + 3], amount),
          ...dayOf(cells[count + 2])
        })
      }
    }))
}, Effect.scoped)

/** The length of `YYYY-MM-DD`. */
const dayCharacters = 10
const mostDays = 10_000
const utcDay = /^\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?$/

const textOf = (cell: Cell | undefined): string | null =>
  cell === null || cell === undefined ? null : typeof cell === "string" ? cell : cell.json

/** Returns the exact amount. It is null if the record has none, or one that is no integer. */
const amountOf = (cell: Cell | undefined, raw: Cell | undefined, { path: [field] }: Column): bigint | null => {
  const text = textOf(cell) ?? (typeof raw === "string" && raw.startsWith("{") ? membersOf(raw).get(field) : undefined)
  return text !== undefined && /^-?\d{1,60}$/.test(text) ? BigInt(text) : null
}

const countDueBefore = (ledger: Ledger, firstDay: number, isGrouped: boolean): number =>
  Number(
    ledger.get(
      `SELECT ${isGrouped ? "sum(u.records)" : "count(*)"} FROM ${entriesIn("missing there")} e
      JOIN ${isGrouped ? "sums u ON u.unit" : "sorted_records u ON u.at"} = e.unit
      WHERE u.due < ? AND u.due > ?`,
      firstDay,
      unreadDay
    )[0] ?? 0
  )

/** The fields of a list that can be compared, for messages and completions. */
export const comparableFields = (list: Lists.AnyList): ReadonlyArray<string> =>
  layoutOf(list).columns.filter(({ kind }) => kind !== "boolean").map(nameOf)
