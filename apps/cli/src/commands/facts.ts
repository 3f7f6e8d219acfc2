/** `payments facts`: shows what is known about the service, and accepts a changed answer. */
import { Destination, printable } from "@payments/copy"
import type { Accepted, FactPlace, FactsFileError, KnownFact } from "@payments/copy/facts"
import { Lists } from "@payments/core"
import {
  byFlag,
  checkAll,
  CommandExit,
  ExitCode,
  fromDestination,
  logLine,
  optionalFlag,
  personOf,
  usage
} from "@payments/program"
import { Effect, Stream } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { outputs } from "../contract/Outputs.ts"
import { type Column, numberCell, printRows, type RowFormat, rowFormatFlag } from "../output/Rows.ts"

export const defaultFile = "payments-facts.json"

export const htmlFlag = optionalFlag(
  Flag.String("html").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription("write a page with all facts, to send to the operators of the service")
  )
)

const destinations = Destination.forms("plain")

/** A flag for the place of the facts. */
export const placeFlag = (name: string, description: string) =>
  Flag.String(name).pipe(
    Flag.withMetavar("FILE|DESTINATION"),
    Flag.withDefault(defaultFile),
    Flag.withDescription(`${description}: a file, or ${destinations}; default ${defaultFile}`)
  )

const acceptCommand = Command.make(
  "accept",
  {
    fact: Argument.String("fact").pipe(
      Argument.withMetavar("FACT"),
      Argument.withDescription("the name of the fact, as payments facts shows it")
    ),
    list: optionalFlag(
      Flag.ChoiceWithValue("list", Lists.all.map((list) => [list.label, list] as const)).pipe(
        Flag.withMetavar("LIST"),
        Flag.withDescription("only for this list; without it, for all lists")
      )
    ),
    from: placeFlag("from", "where the observations are"),
    by: byFlag("accepts"),
    format: rowFormatFlag
  },
  Effect.fnUntraced(function*({ by, fact, format, from, list }) {
    const { person, place } = yield* checkAll({ person: personOf(by), place: placeOf(from) })
    const { acceptFact } = yield* Effect.promise(() => import("@payments/copy/facts"))
    const accepted = yield* acceptFact(place, { fact, by: person, lists: list === undefined ? Lists.all : [list] })
      .pipe(
        Effect.catchTag("FactsFileError", fileProblem("--from"))
      )
    if (accepted.length === 0) {
      return yield* usage(`Nothing was observed of ${printable(fact)} there. payments facts names the facts.`)
    }
    yield* printRows(acceptedColumns, Stream.make(accepted), format, { empty: "", output: outputs.factsAccept })
    for (const { after, before, list: name } of accepted) {
      if (before === after) yield* logLine(`${Lists.byName[name].label}: this answer was accepted before.`)
    }
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Accept the last answer of a fact as the right one from now on. Exports name a contradiction until three of them have observed the new answer, or until it is accepted"
  ),
  Command.withShortDescription("Accept the changed answer of a fact"),
  Command.withExamples([
    {
      command: "payments facts accept list-order --list invoices --from sqlite:./payments.db",
      description: "the list has another order from now on"
    },
    {
      command: "payments facts accept count --from sqlite:./payments.db --by operations",
      description: "count means something else in all lists, as operations has found out"
    }
  ])
)

const acceptedColumns: ReadonlyArray<Column<Accepted>> = [
  { name: "list", of: ({ list }) => Lists.byName[list].label },
  { name: "fact", of: ({ fact }) => fact },
  { name: "before", of: ({ before }) => before ?? null },
  { name: "after", of: ({ after }) => after }
]

export const factsCommand = Command.make(
  "facts",
  { from: placeFlag("from", "where the observations are, or the copy to read"), html: htmlFlag, format: rowFormatFlag },
  Effect.fnUntraced(function*({ format, from, html }) {
    const observed = yield* observedAt("--from", from)
    const facts = isDestination(from)
      ? [...observed.filter(({ seen }) => seen !== notObservedYet), ...yield* collectedIn(from)]
      : observed
    yield* writePage(facts, html)
    yield* printFacts(facts, format)
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Show what payments probe has learned about the service, or what a copy has collected; without a request"
  ),
  Command.withExamples([
    { command: "payments facts", description: "all facts, and how sure they are" },
    { command: "payments facts --from facts.json --format json", description: "for programs" },
    {
      command: "payments facts --from sqlite:./payments.db",
      description: "what a copy has collected: states, their steps, empty fields"
    }
  ]),
  Command.withSubcommands([acceptCommand])
)

/** What is seen of a fact that nobody has tried to observe. */
const notObservedYet = "not observed yet"

/** Whether the text names a destination. Otherwise it names a file. */
export const isDestination = (text: string): boolean => Destination.hasScheme(text)

/** Returns what was observed of the service, from a file or a destination. */
export const observedAt = Effect.fnUntraced(function*(flag: string, text: string) {
  const { factsIn, knownFacts, readFacts } = yield* Effect.promise(() => import("@payments/copy/facts"))
  if (!isDestination(text)) {
    return knownFacts((yield* Effect.catchTag(readFacts(text, undefined), "FactsFileError", fileProblem(flag))).facts)
  }
  const reader = yield* Destination.reader(yield* fromDestination(text, flag.slice(2)))
  return knownFacts(yield* factsIn(reader, yield* reader.source))
}, Effect.scoped)

/** Returns what a copy has collected about its records. */
const collectedIn = Effect.fnUntraced(function*(text: string) {
  const { copyFacts } = yield* Effect.promise(() => import("@payments/copy/facts"))
  const destination = yield* fromDestination(text)
  const [reader, copy] = [yield* Destination.reader(destination), Destination.operations(destination)]
  return (yield* Effect.forEach(Lists.all, (list) => copyFacts(reader, list, copy), { concurrency: "unbounded" }))
    .flat()
}, Effect.catchTag("QueryError", ({ problem }) => usage(problem)))

const placeOf = Effect.fnUntraced(function*(text: string): Effect.fn.Return<
  FactPlace,
  Effect.Error<ReturnType<typeof fromDestination> | ReturnType<typeof Destination.maintenance>>,
  Effect.Services<ReturnType<typeof fromDestination> | ReturnType<typeof Destination.maintenance>>
> {
  if (!isDestination(text)) return text
  const place = yield* Destination.maintenance(yield* fromDestination(text))
  if ((yield* place.source) === undefined) {
    return yield* usage("Nothing was exported there yet, so no service is known. Export first, then accept.")
  }
  return place
})

export const fileProblem = (flag: string) => ({ isSystem, problem }: FactsFileError) =>
  isSystem
    ? new CommandExit({ exitCode: ExitCode.destination, problem: `${flag}: ${problem}`, reason: "Output" })
    : usage(`${flag}: ${problem}`)

const columns: ReadonlyArray<Column<KnownFact>> = [
  { name: "list", of: ({ list }) => Lists.byName[list].label },
  { name: "fact", of: ({ name }) => name },
  { name: "answer", of: ({ answer }) => answer ?? null },
  { name: "degree", of: ({ degree }) => degree },
  { name: "agreeing", of: ({ agreeing }) => numberCell(agreeing) },
  { name: "observations", of: ({ observations }) => numberCell(observations) },
  { name: "used_by", of: ({ usedBy }) => usedBy ?? "nobody" },
  { name: "seen", of: ({ seen }) => seen },
  { name: "question", hidden: true, of: ({ question }) => question },
  { name: "section", hidden: true, of: ({ section }) => section },
  { name: "first_at", hidden: true, of: ({ firstAt }) => firstAt ?? null },
  { name: "last_at", hidden: true, of: ({ lastAt }) => lastAt ?? null },
  { name: "accepted", hidden: true, of: ({ contradicted }) => contradicted ?? null },
  { name: "accepted_by", hidden: true, of: ({ acceptance }) => acceptance?.by ?? null },
  { name: "accepted_at", hidden: true, of: ({ acceptance }) => acceptance?.at ?? null }
]

/** Questions instead of names: who reads the page may not know this program. */
const pageColumns: ReadonlyArray<Column<KnownFact>> = [
  { name: "list", of: ({ list }) => Lists.byName[list].label },
  { name: "question", of: ({ question }) => question },
  { name: "answer", of: ({ answer }) => answer ?? null },
  { name: "degree", of: ({ degree }) => degree },
  { name: "observed", of: ({ agreeing, observations }) => `${agreeing} of ${observations}` },
  { name: "seen", of: ({ seen }) => seen },
  { name: "section", of: ({ section }) => section },
  { name: "last", of: ({ lastAt }) => lastAt?.slice(0, 10) ?? null },
  { name: "used by", of: ({ usedBy }) => usedBy ?? "nobody" }
]

export const printFacts = (facts: ReadonlyArray<KnownFact>, format: RowFormat | undefined) =>
  printRows(columns, Stream.make(facts), format, { empty: "No facts.", members: "", output: outputs.facts })

/** Writes the page. It has no key, cursor, filter value or part of a record, because no fact has one. */
export const writePage = Effect.fnUntraced(function*(facts: ReadonlyArray<KnownFact>, file: string | undefined) {
  if (file === undefined) return
  const { createdAt, writeFile } = yield* Effect.promise(() => import("../charts/ChartOutput.ts"))
  const { pageText } = yield* Effect.promise(() => import("../charts/HtmlPage.ts"))
  const count = (degree: KnownFact["degree"]) => facts.filter((fact) => fact.degree === degree).length
  const text = pageText({
    title: "What the service does",
    description: "Facts that its document leaves open or states, each observed from outside, by reading only.",
    columns: pageColumns.map(({ name }) => name),
    rows: facts.map((fact) => pageColumns.map(({ of }) => of(fact))),
    isCut: false,
    totals: undefined,
    chart: "",
    notes: [
      `${count("certain")} facts are certain, ${count("likely")} likely, ${count("undecided")} undecided.`,
      "A certain fact was observed at least twice in a row. An undecided one says in the column seen why."
    ],
    sql: undefined,
    createdAt: yield* createdAt
  })
  yield* writeFile("--html", file, text)
  yield* logLine(`The page is written to ${printable(file)}. Open it in a browser.`)
})
