/** `payments verify`: compares a destination with its certificates and, if requested, with the API. */
import {
  Destination,
  exportedLists,
  type FileDifference,
  heldBackText,
  type PersonalRule,
  printable,
  ruleNameOf,
  ruleWords,
  type Verified,
  verify,
  verifyAgainstApi
} from "@payments/copy"
import { Lists, PaymentsApi } from "@payments/core"
import {
  checkAll,
  chosenPersonal,
  CommandExit,
  counted,
  ExitCode,
  fromDestination,
  fromFlag,
  grouped,
  print,
  type ProgramError,
  requireOutput,
  switchFlag,
  terminalWidth
} from "@payments/program"
import { Effect, Layer } from "effect"
import { Command } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { printJson, resultFormatFlag } from "../output/ResultOutput.ts"

/** Makes the command. `api` is the service for `--against-api`. */
export const verifyCommand = <R>(api: Layer.Layer<PaymentsApi, ProgramError, R>) =>
  Command.make(
    "verify",
    {
      from: fromFlag,
      againstApi: switchFlag("against-api", "also read the lists again and compare each record"),
      format: resultFormatFlag
    },
    Effect.fnUntraced(function*({ againstApi, format, from }) {
      const { destination, personal, service } = yield* checkAll({
        destination: fromDestination(from),
        personal: againstApi ? chosenPersonal("forDestination") : Effect.undefined,
        service: againstApi ? Layer.build(api) : Effect.undefined
      })
      yield* requireOutput
      const { damage, rule, verified } = yield* Effect.scoped(Effect.gen(function*() {
        const reader = yield* Destination.reader(destination)
        const lists = yield* exportedLists(reader)
        return {
          damage: yield* reader.damage,
          // Damage is reported with the lists. Certificates then show the name of the rule instead of its words.
          rule: yield* Effect.map(reader.personal, (state) => state.rule).pipe(
            Effect.catchReason("SinkError", "Damaged", () => Effect.undefined)
          ),
          verified: yield* Effect.forEach(lists, (list) => verify(reader, list))
        }
      }))
      const files = yield* Destination.operations(destination).rendered?.verify ?? Effect.succeed([])
      const isRewriting = files.some(({ kind }) => kind === "outdated") &&
        (yield* Effect.scoped(Effect.flatMap(Destination.reader(destination), (reader) => reader.personal))).rewriting
      const compared = service === undefined ? [] : yield* compare(destination, personal).pipe(Effect.provide(service))
      if (verified.length === 0) return yield* nothingExported
      const matches = damage.length === 0 && files.length === 0 &&
        [...verified, ...compared].every(({ differences }) => differences.length === 0)
      if (format === "json") {
        yield* printJson(outputs.verify, {
          matches,
          damage,
          lists: verified.map(listMembers),
          files: files.map(({ file, kind, problem = null }) => ({ file, kind, problem })),
          api: service === undefined ? null : compared.map(comparisonMembers)
        })
      } else {
        yield* printWrapped([
          ...damageLines(damage),
          ...verified.flatMap((one) => certificateLines(one, rule)),
          ...verified.filter(({ skipped }) => skipped.length > 0).map(unfilledLine),
          ...files.map((difference) => fileLine(difference, isRewriting)),
          ...compared.flatMap(apiLines)
        ])
      }
      if (!matches) return yield* new CommandExit({ exitCode: ExitCode.differs, problem: "" })
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Compare a destination with the certificates of its last complete scans; needs no API"),
    Command.withExamples([
      { command: "payments verify --from sqlite:./payments.db", description: "compare the rows with the certificates" },
      {
        command: "payments verify --from sqlite:./payments.db --against-api",
        description: "also compare them with the API"
      }
    ])
  )

const nothingExported = new CommandExit({
  exitCode: ExitCode.destination,
  problem: "nothing has been exported into the destination. Export into it first."
})

const printWrapped = Effect.fnUntraced(function*(lines: ReadonlyArray<string>) {
  const width = yield* terminalWidth
  const { wrapWords } = yield* Effect.promise(() => import("../output/TextWidth.ts"))
  yield* print(lines.flatMap((line) => wrapWords(line, width)).map((line) => `${line}\n`).join(""))
})

/** Compares the destination with the API. Fails if the destination belongs to another source. */
const compare = Effect.fnUntraced(function*(
  destination: Destination.StoredDestination,
  rule: PersonalRule | undefined
) {
  const { source } = yield* PaymentsApi
  const reader = yield* Destination.reader(destination)
  const bound = yield* reader.source
  if (bound !== source) {
    return yield* new CommandExit({
      exitCode: ExitCode.destination,
      problem: `the destination has the data of another source (${bound}), not of ${source}.`
    })
  }
  return yield* Effect.forEach(yield* exportedLists(reader), (list) => verifyAgainstApi(reader, list, rule))
}, Effect.scoped)

/** Returns the comparison of a list for programs. */
const comparisonMembers = ({ differences, list }: Verified) => ({
  list: Lists.byName[list].label,
  matches: differences.length === 0,
  differences: differences.map(({ id = null, problem }) => ({ id, problem }))
})

/** Returns the comparison of a list with its certificate for programs. */
const listMembers = (verified: Verified) => ({
  ...comparisonMembers(verified),
  scan: verified.certificate?.scan ?? null,
  certifiedRecords: verified.certificate?.distinct ?? null,
  heldBack: verified.certificate?.heldBack ?? 0,
  notCompared: verified.skipped
})

const mostDamage = 20

/** Formats the problems that SQLite's own check of the file found. */
const damageLines = (damage: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (damage.length === 0) return []
  const more = damage.length - mostDamage
  return [
    "the database is damaged. Export into a new one, and keep this one until the export is complete:",
    ...damage.slice(0, mostDamage).map((line) => `  ${printable(line)}`),
    ...(more > 0 ? [`  and ${grouped(more)} more`] : [])
  ]
}

/** Formats the comparison of a list with its certificate. `rule` is that of the destination. */
const certificateLines = (
  { certificate, differences, list }: Verified,
  rule: string | undefined
): ReadonlyArray<string> => {
  const { label } = Lists.byName[list]
  if (differences.length > 0) {
    return [`${label}: differs`, ...differences.map(differenceLine), ...heldBackLines(label, certificate)]
  }
  return certificate === undefined
    ? [`${label}: the rows match their texts; no complete scan has certified them yet`]
    : [
      `${label}: matches the certificate of scan ${certificate.scan}: ${counted(certificate.distinct, "record")}${
        certificate.rule === undefined ? "" : ` under the rule "${certifiedRule(certificate.rule, rule)}"`
      }`,
      ...heldBackLines(label, certificate)
    ]
}

/** Returns the rule of a certificate in words. An unfinished rewrite leaves certificates of the earlier rule: they have a name. */
const certifiedRule = (name: string, rule: string | undefined): string =>
  name === ruleNameOf(rule) ? ruleWords(rule) : name

const heldBackLines = (label: string, certificate: Verified["certificate"]): ReadonlyArray<string> => {
  const text = heldBackText(certificate)
  return text === undefined ? [] : [`${label}: ${text}`]
}

/** Formats the columns of a list that were not compared. */
const unfilledLine = ({ list, skipped }: Verified): string => {
  const { label } = Lists.byName[list]
  return `${label}: columns that are not filled yet were not compared: ${
    skipped.join(", ")
  }; the next export of the list fills them`
}

/** Formats the comparison of a list with the API. */
const apiLines = ({ differences, list }: Verified): ReadonlyArray<string> => {
  const { label } = Lists.byName[list]
  return differences.length > 0
    ? [`${label}: differs from the API`, ...differences.map(differenceLine)]
    : [`${label}: matches the API`]
}

const differenceLine = ({ id, problem }: Verified["differences"][number]): string =>
  id === undefined ? `  ${problem}` : `  ${printable(id)}: ${problem}`

/** Formats a difference between a rendered file and its manifest. */
const fileLine = ({ file, kind, problem = "" }: FileDifference, isRewriting: boolean): string =>
  ({
    absent: `${file} does not exist`,
    damaged: `${file} is damaged, so the rendered files cannot be checked`,
    changed: `${file} differs from the file that was rendered`,
    differs: `${file}: ${printable(problem)}`,
    unknown: `${file} exists, but no export rendered files into this folder`,
    outdated: isRewriting
      ? `${file} does not contain the last rewrite yet; payments rewrite completes it`
      : `${file} does not contain the last export yet; the next export updates it`
  })[kind]
