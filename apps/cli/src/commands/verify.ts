/** `payments verify`: holds a destination against its certificate, or against the API. */
import { Lists, PaymentsApi, type PaymentsConfigError } from "@payments/core"
import {
  Destination,
  ExitCode,
  exportedLists,
  type FileDifference,
  printable,
  type Verified,
  verify,
  verifyAgainstApi,
  verifyFiles
} from "@payments/export"
import { checkAll, CommandExit, fromDestination, fromFlag, logLine, print } from "@payments/export/program"
import { Effect, Layer } from "effect"
import { Command, Flag } from "effect/cli"

const count = new Intl.NumberFormat("en-US")

/** `payments verify`, against the given service where that is asked for. */
export const verifyCommand = <R>(api: Layer.Layer<PaymentsApi, PaymentsConfigError, R>) =>
  Command.make(
    "verify",
    {
      from: fromFlag,
      againstApi: Flag.Boolean("against-api").pipe(
        Flag.withDescription("read the lists once more and compare each record"),
        Flag.withDefault(false)
      )
    },
    Effect.fnUntraced(function*({ againstApi, from }) {
      const { destination, service } = yield* checkAll({
        destination: fromDestination(from),
        service: againstApi ? Layer.build(api) : Effect.undefined
      })
      const { damage, verified } = yield* Effect.scoped(Effect.gen(function*() {
        const reader = yield* Destination.reader(destination)
        const lists = yield* exportedLists(reader)
        return {
          damage: yield* reader.damage,
          verified: yield* Effect.forEach(lists, (list) => verify(reader, list))
        }
      }))
      const files = destination._tag === "Files" ? yield* verifyFiles(destination.folder) : []
      const compared = service === undefined ? [] : yield* compare(destination).pipe(Effect.provide(service))
      const lines = [
        ...damaged(damage),
        ...verified.flatMap(certified),
        ...files.map(saidOf),
        ...compared.flatMap(held)
      ]
      yield* print(lines.map((line) => `${line}\n`).join(""))
      if (verified.length === 0) {
        yield* logLine("payments: nothing has been exported into it.")
        return yield* new CommandExit({ exitCode: ExitCode.destination, problem: "" })
      }
      if (
        damage.length > 0 || files.length > 0 ||
        [...verified, ...compared].some(({ differences }) => differences.length > 0)
      ) {
        return yield* new CommandExit({ exitCode: ExitCode.differs, problem: "" })
      }
    }, Effect.scoped)
  ).pipe(
    Command.withDescription("Recompute what the last complete scan certified, from the destination alone"),
    Command.withExamples([
      { command: "payments verify --from sqlite:./payments.db", description: "the rows against the certificate" },
      {
        command: "payments verify --from sqlite:./payments.db --against-api",
        description: "and against what the API returns now"
      }
    ])
  )

const compare = Effect.fnUntraced(function*(destination: Destination.Kept) {
  const { source } = yield* PaymentsApi
  const reader = yield* Destination.reader(destination)
  const bound = yield* reader.source
  if (bound !== source) {
    yield* logLine(`payments: it holds the data of another source (${bound}), not of ${source}.`)
    return yield* new CommandExit({ exitCode: ExitCode.destination, problem: "" })
  }
  return yield* Effect.forEach(yield* exportedLists(reader), (list) => verifyAgainstApi(reader, list))
}, Effect.scoped)

const mostDamage = 20

/** What SQLite's own check of its file found. */
const damaged = (damage: ReadonlyArray<string>): ReadonlyArray<string> => {
  if (damage.length === 0) return []
  const more = damage.length - mostDamage
  return [
    "the database is damaged; export into a new one, and keep this one until that is done:",
    ...damage.slice(0, mostDamage).map((line) => `  ${printable(line)}`),
    ...(more > 0 ? [`  and ${count.format(more)} more`] : [])
  ]
}

const certified = ({ certificate, differences, list }: Verified): ReadonlyArray<string> => {
  const { label } = Lists.byName[list]
  if (differences.length > 0) return [`${label}: differs`, ...differences.map(lineOf)]
  return certificate === undefined
    ? [`${label}: rows agree with their texts; no complete scan has certified them yet`]
    : [`${label}: as scan ${certificate.scan} certified it: ${count.format(certificate.distinct)} records`]
}

const held = ({ differences, list }: Verified): ReadonlyArray<string> => {
  const { label } = Lists.byName[list]
  return differences.length > 0
    ? [`${label}: differs from what the API returns now`, ...differences.map(lineOf)]
    : [`${label}: as the API returns it now`]
}

const lineOf = ({ id, problem }: Verified["differences"][number]): string =>
  id === undefined ? `  ${problem}` : `  ${printable(id)}: ${problem}`

const saidOf = ({ file, kind, problem = "" }: FileDifference): string =>
  ({
    absent: `${file} is not there`,
    damaged: `${file} is damaged: what the files must be cannot be read`,
    changed: `${file} is not what was rendered`,
    differs: `${file}: ${printable(problem)}`,
    unknown: `${file} is there, but nothing was rendered`,
    outdated: `${file} does not show the last export yet; the next one puts it right`
  })[kind]
