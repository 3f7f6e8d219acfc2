/** `payments reconcile`: compares a copy with a statement of a bank or a payment provider. It only reads. */
import {
  dateOrders,
  Destination,
  encodings,
  entryClasses,
  freshnessOf,
  keyCheckIn,
  openClasses,
  reconcile,
  separatorNames
} from "@payments/copy"
import { Lists } from "@payments/core"
import {
  checkAll,
  chosenPersonal,
  CommandExit,
  ExitCode,
  fromDestination,
  fromFlag,
  optionalFlag,
  requireOutput,
  savedStatement,
  setting,
  type StatementSettings,
  textFlag,
  usage
} from "@payments/program"
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { checkFiles } from "../charts/ChartOutput.ts"
import { conditionsOf } from "../listing/Selection.ts"
import { classesParser, dayParser, daysParser, fieldsParser, mapOf, unitParser } from "../listing/StatementSettings.ts"
import { conditionSyntax } from "../listing/Where.ts"
import { askedOf, isEqual, notesOf, shapeText, totalsText, writeReconciled } from "../output/ReconcileOutput.ts"
import { lookOf } from "../output/Rows.ts"
import { sheetFormats, stateBefore, targetFlags, targetIn } from "../output/RowsTarget.ts"
import { logWrapped } from "../output/Wrapped.ts"
import { realPath } from "../output/WrittenFile.ts"

/** Payin sources have no amount. */
const lists = Lists.all.filter((list) => Lists.amountFields(list).length > 0)

const reconcileFlags = {
  from: fromFlag,
  with: textFlag("with", "FILE", "the statement: CSV, or camt.053 of a bank"),
  list: optionalFlag(
    Flag.Literals("list", lists.map(({ label }) => label)).pipe(
      Flag.withDescription("the list to compare; invoices unless it is named")
    )
  ),
  on: textFlag(
    "on",
    "FIELDS",
    "the fields that must agree: one amount, and texts and a date that identify a record; without it reference,amount, or amount with --group"
  ),
  within: textFlag("within", "DAYS", "by how many days a date may differ, such as 2d; without it dates must be equal"),
  group: textFlag(
    "group",
    "FIELD",
    "compare each line with the sum of the records that have the same value, such as settlementDate"
  ),
  statement: textFlag(
    "statement",
    "NAME",
    "use the settings of [statements.NAME] in the sources file; flags override them"
  ),
  map: Flag.String("map").pipe(
    Flag.withMetavar("FIELD=COLUMN"),
    Flag.withDescription(
      "the statement's column of a field, such as amount=Betrag,reference=Verwendungszweck; fee=COLUMN is what was deducted; amount=-COLUMN reverses the sign; can be given several times"
    ),
    Flag.atLeast(0)
  ),
  unit: textFlag(
    "unit",
    "cents|units|mills|DIGITS",
    "the unit of the copy's amounts, so that 12.34 in the statement is 1234 cents; without it the statement must have whole numbers of the same unit"
  ),
  separator: optionalFlag(
    Flag.Literals("separator", separatorNames).pipe(
      Flag.withDescription("the separator of a CSV file; recognized by default")
    )
  ),
  decimal: optionalFlag(
    Flag.Literals("decimal", ["comma", "point"]).pipe(
      Flag.withDescription("the mark before the decimals of a CSV file; recognized by default")
    )
  ),
  dates: optionalFlag(
    Flag.Literals("dates", dateOrders).pipe(
      Flag.withDescription("the order of day and month in dates such as 03/04/2024; recognized by default")
    )
  ),
  parentheses: optionalFlag(
    Flag.Literals("parentheses", ["negative"]).pipe(Flag.withDescription("read (12.00) as -12.00; refused by default"))
  ),
  encoding: optionalFlag(
    Flag.Literals("encoding", encodings).pipe(
      Flag.withDescription("the encoding of the statement; recognized by default")
    )
  ),
  through: textFlag("through", "YYYY-MM-DD", "the statement's last day; by default that of its lines or its period"),
  where: Flag.String("where").pipe(
    Flag.withMetavar("CONDITION"),
    Flag.withDescription(
      `compare only records that meet this condition; can be given several times: ${conditionSyntax}. VALUE may be @FILE or @- (stdin)`
    ),
    Flag.atLeast(0)
  ),
  show: textFlag(
    "show",
    "CLASSES",
    "all, or matched, expected, missing and different, separated by commas; without it all, and in tables and pages missing,different"
  ),
  html: textFlag("html", "FILE", "write a page with the totals and the entries, to send and to print"),
  ...targetFlags(sheetFormats)
}

type Given = Command.Command.Config.Infer<typeof reconcileFlags>

export const reconcileCommand = Command.make(
  "reconcile",
  reconcileFlags,
  Effect.fnUntraced(
    function*(given) {
      const target = yield* targetIn(given, sheetFormats)
      const { destination, options } = yield* optionsOf(given)
      yield* checkFiles({ html: given.html, output: given.output, svg: undefined, chart: false }, destination)
      const { format } = target
      const look = yield* lookOf(format === "xlsx" ? "csv" : format, target.csv)
      if (given.html === undefined && given.output === undefined) yield* requireOutput
      const before = yield* stateBefore(target, destination, [options.list])
      const isForPeople = given.html !== undefined || look.format === "table"
      const classes = options.show ?? (isForPeople ? openClasses : entryClasses)
      const reconciled = yield* reconcile({
        ...options,
        from: destination,
        personalKey: yield* personalKeyOf(destination),
        keepsMatched: classes.includes("matched")
      })
      const [freshness] = yield* freshnessOf(yield* Destination.reader(destination), [options.list])
      const notes = freshness === undefined ? [] : notesOf(options.list, freshness, reconciled)
      yield* logWrapped(shapeText(options.file, reconciled.statement))
      for (const note of notes) yield* logWrapped(note)
      if (given.html === undefined) {
        const asked = askedOf(options, reconciled)
        yield* writeReconciled(reconciled, classes, {
          look,
          target,
          control: { asked, destination, lists: [options.list], before, isNow: true, notes: () => notes }
        })
      } else {
        const { writePage } = yield* Effect.promise(() => import("../charts/ReconcilePage.ts"))
        yield* writePage({ ...options, html: given.html, classes, notes }, reconciled)
      }
      yield* logWrapped(totalsText(reconciled))
      if (!isEqual(reconciled)) return yield* new CommandExit({ exitCode: ExitCode.differs, problem: "" })
    },
    Effect.scoped,
    Effect.catchTag(["StatementError", "QueryError"], ({ problem }) => Effect.fail(usage(problem)))
  )
).pipe(
  Command.withDescription(
    "Compare the records of a copy with the lines of a bank's or a provider's statement, exactly; exits with code 11 if anything does not match. Every line and every record is matched, different, missing there (in the statement), missing here (in the copy), or expected: not due yet on the statement's last day"
  ),
  Command.withShortDescription(
    "Compare a copy with a statement of a bank or a provider; exits with code 11 if they differ"
  ),
  Command.withExamples([
    {
      command:
        "payments reconcile --from sqlite:./payments.db --with statement.csv --unit cents --map reference=Verwendungszweck,amount=Betrag",
      description: "what does not match between the invoices and a CSV file"
    },
    {
      command:
        "payments reconcile --from sqlite:./payments.db --with camt053.xml --group settlementDate --within 2d --unit cents",
      description: "whether each payout is the sum of the invoices that were settled on a day"
    }
  ])
)

/** A flag overrides what the sources file saves. */
const optionsOf = Effect.fnUntraced(function*(given: Given) {
  const saved: StatementSettings = given.statement === undefined ? {} : yield* savedStatement(given.statement)
  const listName = given.list ?? saved.list
  const list = lists.find(({ label }) => label === listName) ?? Lists.invoices
  const group = given.group ?? saved.group
  const decimal = given.decimal ?? saved.decimal
  const { destination, file, map, on, within = 0, ...others } = yield* checkAll({
    destination: fromDestination(given.from),
    file: given.with === undefined || given.with === "-"
      ? Effect.fail(usage("Name the statement's file: --with FILE."))
      : Effect.succeed(given.with),
    on: setting({ name: "on", text: given.on ?? saved.on?.join(",") }, undefined, fieldsParser),
    within: setting({ name: "within", text: given.within ?? saved.within }, undefined, daysParser),
    map: mapOf(given.map, saved.map),
    decimals: setting({ name: "unit", text: given.unit ?? saved.unit }, undefined, unitParser),
    through: setting({ name: "through", text: given.through }, undefined, dayParser),
    show: setting({ name: "show", text: given.show }, undefined, classesParser),
    where: conditionsOf(list, given.where),
    html: pageConflict(given)
  })
  return {
    destination,
    options: {
      ...others,
      file,
      list,
      map,
      on: on ?? (group === undefined ? ["reference", "amount"] : ["amount"]),
      group,
      withinDays: within,
      separator: given.separator ?? saved.separator,
      decimal: decimal === undefined ? undefined : decimal === "comma" ? "," as const : "." as const,
      dates: given.dates ?? saved.dates,
      encoding: given.encoding ?? saved.encoding,
      hasParentheses: (given.parentheses ?? saved.parentheses) !== undefined
    }
  }
})

const pageConflict = ({ format, html, output, with: file }: Given) =>
  html === undefined
    ? output !== undefined && file !== undefined && realPath(output) === realPath(file)
      ? usage("--output names the statement. Name another file.")
      : Effect.void
    : html === "-"
    ? usage("--html: name a file, such as ./page.html. Nothing is written to stdout.")
    : format !== undefined || output !== undefined
    ? usage(`--html and ${format === undefined ? "--output" : "--format"} exclude each other.`)
    : file !== undefined && realPath(html) === realPath(file)
    ? usage("--html names the statement. Name another file.")
    : Effect.void

/** The personal key is read only if the copy has pseudonyms. */
const personalKeyOf = Effect.fnUntraced(function*(destination: Destination.StoredDestination) {
  const { rule } = yield* Effect.scoped(Effect.flatMap(Destination.reader(destination), ({ personal }) => personal))
  return keyCheckIn(rule) === undefined ? undefined : (yield* chosenPersonal("forDestination")).key
})
