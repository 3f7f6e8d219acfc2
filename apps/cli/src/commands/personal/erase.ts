/** `payments erase`: removes persons or single records from a destination, and keeps later exports from writing them again. */
import { type Criterion, Destination, erase, type Erasure, type PersonalRule, previewErasure } from "@payments/copy"
import {
  byFlag,
  checkAll,
  chosenBoundTo,
  chosenPersonal,
  CommandExit,
  ExitCode,
  fromDestination,
  fromFlag,
  personOf,
  requireOutput,
  switchFlag,
  usage
} from "@payments/program"
import { Effect, type FileSystem, Redacted, type Stdio, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { outputs } from "../../contract/Outputs.ts"
import { leftAfter, logLeft } from "../../output/LeftAfterRedaction.ts"
import { printJson, resultFormatFlag } from "../../output/ResultOutput.ts"
import { type Column, numberCell, printRows } from "../../output/Rows.ts"
import { isStdin, valueText } from "../../output/ValueText.ts"
import { logWrapped } from "../../output/Wrapped.ts"
import { redactionProgress } from "../../progress/RedactionProgress.ts"

const criterionFlag = (name: Criterion["kind"], description: string) =>
  Flag.String(name).pipe(
    Flag.withMetavar("VALUE"),
    Flag.withDescription(`${description}; may be given several times`),
    Flag.atLeast(0)
  )

export const eraseCommand = Command.make(
  "erase",
  {
    from: fromFlag,
    customerIds: criterionFlag("customer-id", "erase the records of this customer"),
    documentNumbers: criterionFlag("document-number", "erase the records with this document number"),
    ids: criterionFlag("id", "erase the records with this id"),
    by: byFlag("erases"),
    dryRun: switchFlag("dry-run", "erase nothing, and print how many records would be erased"),
    format: resultFormatFlag
  },
  Effect.fnUntraced(function*({ dryRun, format, from, ...given }) {
    const { boundTo, by, criteria, destination, key } = yield* checkAll({
      boundTo: chosenBoundTo("forDestination"),
      criteria: criteriaOf([
        ...given.customerIds.map((text) => ({ kind: "customer-id", text }) as const),
        ...given.documentNumbers.map((text) => ({ kind: "document-number", text }) as const),
        ...given.ids.map((text) => ({ kind: "id", text }) as const)
      ]),
      by: personOf(given.by),
      destination: fromDestination(from),
      key: Effect.flatMap(chosenPersonal("forDestination"), keyOf)
    })
    yield* requireOutput
    yield* logWhiteSpace(criteria)
    const maintenance = yield* Destination.maintenance(destination)
    yield* Destination.requireSource(maintenance, boundTo)
    const progress = yield* redactionProgress("searched")
    const search = { criteria, key, onProgress: progress.onProgress }
    if (dryRun) {
      yield* Destination.requireMigrated(destination, maintenance)
      const lists = yield* progress.during(previewErasure(maintenance, search))
      if (format === "json") return yield* printJson(outputs.erase, { dryRun, lists })
      yield* printRows(previewColumns, Stream.make(lists), "table", { empty: "Nothing has been exported." })
      return yield* logOtherValue(criteria)
    }
    const publish = yield* Destination.beginRedaction(destination)
    const erasures = yield* progress.during(erase(maintenance, { ...search, by, publish }))
    const left = yield* leftAfter(destination, maintenance)
    if (format === "json") return yield* printJson(outputs.erase, { dryRun, erasures: erasures.map(members), ...left })
    yield* printRows(columns, Stream.make(erasures), "table", { empty: "" })
    yield* logWrapped(suppressedText(erasures))
    yield* logOtherValue(criteria)
    yield* logLeft(left)
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Erase persons or records from a destination: rows, changes, quarantined records and rendered files. Amounts, states and dates stay. " +
      "Later exports recognize the persons and leave their data out. @FILE and @- (stdin) as a value keep it out of process lists. A person can have a customer id and document numbers: give all of them"
  ),
  Command.withShortDescription("Erase persons or records from a destination, also from later exports"),
  Command.withExamples([
    {
      command: "payments erase --from sqlite:./payments.db --document-number @- < number.txt",
      description: "all records with a document number, which no other user of the machine sees"
    },
    {
      command: "payments erase --from sqlite:./payments.db --customer-id @id.txt --by privacy-office --dry-run",
      description: "how many records of a customer would be erased"
    }
  ])
)

/** Reads the values. Fails before it reads one if two of them are to come from stdin. */
const criteriaOf = Effect.fnUntraced(function*(
  given: ReadonlyArray<{ readonly kind: Criterion["kind"]; readonly text: string }>
): Effect.fn.Return<ReadonlyArray<Criterion>, CommandExit, FileSystem.FileSystem | Stdio.Stdio> {
  if (given.length === 0) {
    return yield* usage("There is nobody to erase: give --customer-id, --document-number or --id.")
  }
  if (given.filter(({ text }) => isStdin(text)).length > 1) {
    return yield* usage("Only one value can come from standard input (@-).")
  }
  return yield* Effect.forEach(
    given,
    ({ kind, text }) =>
      Effect.flatMap(valueText(`--${kind}`, text), (value) =>
        value.trim() === ""
          ? Effect.fail(usage(`--${kind} is empty.`))
          : Effect.succeed({ kind, value: Redacted.make(value) }))
  )
})

/** Names the flags whose values begin or end with white space: it is compared like any other character. */
const logWhiteSpace = (criteria: ReadonlyArray<Criterion>) => {
  const kinds = criteria.flatMap(({ kind, value }) =>
    Redacted.value(value).trim() === Redacted.value(value) ? [] : [`--${kind}`]
  )
  return kinds.length === 0 ? Effect.void : logWrapped(
    `A value of ${
      [...new Set(kinds)].join(" and ")
    } begins or ends with white space. Only values with the same white space equal it.`
  )
}

/** Returns the key of a source's rule. */
const keyOf = ({ key }: PersonalRule) =>
  key === undefined
    ? new CommandExit({
      exitCode: ExitCode.configuration,
      problem:
        "An erasure needs the personal key, because the list of erased persons contains only keyed hashes. Set PAYMENTS_PERSONAL_KEY_FILE, or personal_key_file in the sources file. Make a key: openssl rand -hex 32"
    })
    : Effect.succeed(key)

const members = ({ by, changes, completedAt, erasure, kind, quarantined, records, startedAt }: Erasure) => ({
  erasure,
  kind,
  by,
  startedAt,
  completedAt: completedAt ?? null,
  rows: records,
  changes,
  quarantined
})

type Preview = Effect.Success<ReturnType<typeof previewErasure>>[number]

const previewColumns: ReadonlyArray<Column<Preview>> = [
  { name: "list", of: ({ list }) => list },
  { name: "records", of: ({ records }) => numberCell(records) }
]

const columns: ReadonlyArray<Column<Erasure>> = [
  { name: "erasure", of: ({ erasure }) => numberCell(erasure) },
  { name: "kind", wholeUpTo: 15, of: ({ kind }) => kind },
  { name: "rows", of: ({ records }) => numberCell(records) },
  { name: "changes", of: ({ changes }) => numberCell(changes) },
  { name: "quarantined", of: ({ quarantined }) => numberCell(quarantined) }
]

/** Says that a person has two values, if only one of them was given: not every record has both. */
const logOtherValue = (criteria: ReadonlyArray<Criterion>) => {
  const has = (wanted: Criterion["kind"]) => criteria.some(({ kind }) => kind === wanted)
  return has("customer-id") && !has("document-number")
    ? logWrapped("Invoices have no customer id. To erase the person there too, give --document-number.")
    : has("document-number") && !has("customer-id")
    ? logWrapped("Some records have only a customer id. To erase the person there too, give --customer-id.")
    : Effect.void
}

/** Says what later exports do, also if nothing was found. */
const suppressedText = (erasures: ReadonlyArray<Erasure>): string => {
  const isFound = erasures.some(({ changes, quarantined, records }) => records + changes + quarantined > 0)
  return `${isFound ? "" : "Nothing to erase was found. "}Later exports into this destination recognize ${
    erasures.length === 1 ? "the value" : `the ${erasures.length} values`
  } and leave the personal data out.`
}
