/** `payments <list> list`: reads a list, for example `payments payout-requests list`. */
import { Days, Lists, type PaymentsApi } from "@payments/core"
import {
  checkAll,
  ConfigFlag,
  duration,
  optionalFlag,
  type ProgramError,
  setting,
  type SettingParser,
  SourceFlag,
  switchFlag,
  textFlag,
  usage,
  wholeNumber
} from "@payments/program"
import { Effect, Layer, Record, String } from "effect"
import { Command, Flag } from "effect/cli"
import { type GivenFlags, givenFlags, type TypedFlags } from "../listing/ContinueCommand.ts"
import { isDateTimePrefix } from "../listing/FilterDates.ts"
import { pageSize, runListing } from "../listing/Listing.ts"
import { formats } from "../listing/ListingOutput.ts"
import { selectionFlags, selectionOf, stdinValues } from "../listing/Selection.ts"
import { isStdin, valueText } from "../output/ValueText.ts"

const day: SettingParser<string> = {
  expected: "a day such as 2024-05-31",
  parse: (text) => Days.isDay(text) ? text : undefined
}

const dateTime: SettingParser<string> = {
  expected: "a date-time such as 2024-05-31T14:03:07.123Z, or its beginning such as 2024-05-31 or 2024-05",
  parse: (text) => isDateTimePrefix(text) ? text : undefined
}

const notEmpty: SettingParser<string> = {
  expected: "text that is not empty",
  parse: (text) => text === "" ? undefined : text
}

const parsers: { readonly [Type in Lists.Filter["type"]]: SettingParser<string> } = { text: notEmpty, day, dateTime }

interface FilterFlag extends Lists.Filter {
  readonly flag: string
}

/** Returns the filters of a list by field name, each with the name of its flag. */
const filtersOf = (list: Lists.AnyList): { readonly [field: string]: FilterFlag } =>
  Record.map<string, Lists.Filter, FilterFlag>(list.filters, (filter, field) => ({
    ...filter,
    flag: filter.flag ?? String.snakeToKebab(String.camelToSnake(field))
  }))

const filterFlag = ({ description, flag, type }: FilterFlag) =>
  optionalFlag(
    Flag.String(flag).pipe(
      Flag.withDescription(type === "text" ? `${description}; @FILE or @- (stdin) gives the text` : description)
    )
  )

/** Returns the value of a filter. A filter by text can name a file or stdin, which keeps its value out of process lists. */
const filterText = (flag: string, type: Lists.Filter["type"], text: string | undefined) =>
  text === undefined || type !== "text" ? Effect.succeed(text) : valueText(flag, text)

const paging = {
  limit: textFlag(
    "limit",
    "NUMBER",
    `records per page, 1 to 100; default ${pageSize.default}, with --all ${Lists.pageLimit.default}`
  ),
  all: switchFlag("all", "read to the end of the list"),
  max: textFlag("max", "NUMBER", "read at most this many records"),
  cursor: textFlag("cursor", "CURSOR", "start at this cursor, with the limit and filters that belong to it"),
  cursorFile: textFlag("cursor-file", "FILE", "resume at the position in this file, and save the new position in it"),
  output: textFlag(
    "output",
    "FILE",
    "append the records to this file, as NDJSON or CSV; with --cursor-file, a listing that was stopped anywhere continues exactly"
  ),
  patience: textFlag(
    "patience",
    "DURATION",
    "how long to wait while the service limits the rate, such as 5m; default: 1m, once a page was read"
  )
}

const strict = switchFlag("strict", "stop at the first record that does not match the document")

const format = optionalFlag(
  Flag.Literals("format", formats).pipe(Flag.withDescription("default: table on a terminal, ndjson in a pipe"))
)

const listFlags = (list: Lists.AnyList, filters: { readonly [field: string]: FilterFlag }) => ({
  filters: Record.map(filters, filterFlag),
  ...paging,
  ...selectionFlags(list),
  strict,
  format
})

/** Makes the command of a list. `api` is the service to read. */
export const listCommand = <R>(list: Lists.AnyList, api: Layer.Layer<PaymentsApi, ProgramError, R>) => {
  const filters = filtersOf(list)
  return Command.make(list.label).pipe(
    Command.withDescription(`Read ${list.title}`),
    Command.withSubcommands([
      Command.make(
        "list",
        listFlags(list, filters),
        Effect.fnUntraced(function*(input) {
          // A second read of stdin would wait or return nothing, so check this before any value is read.
          const values = [...Object.values(input.filters), ...stdinValues(input.where)]
          if (values.filter((text) => text !== undefined && isStdin(text)).length > 1) {
            return yield* usage("Only one value can come from standard input (@-).")
          }
          const conflict = conflictOf(input)
          const textOf = (name: string, text: string | undefined) => setting({ name, text }, undefined, notEmpty)
          const { service, ...checked } = yield* checkAll({
            flags: conflict === undefined ? Effect.void : usage(conflict),
            filters: checkAll(
              Record.map(filters, ({ flag, type }, field) =>
                Effect.flatMap(
                  filterText(`--${flag}`, type, input.filters[field]),
                  (text) => setting({ name: flag, text }, undefined, parsers[type])
                ))
            ),
            limit: setting({ name: "limit", text: input.limit }, undefined, wholeNumber(1, 100)),
            max: setting({ name: "max", text: input.max }, undefined, wholeNumber(1)),
            cursor: textOf("cursor", input.cursor),
            cursorFile: textOf("cursor-file", input.cursorFile),
            output: textOf("output", input.output),
            patience: setting({ name: "patience", text: input.patience }, undefined, duration),
            selection: selectionOf(list, input),
            service: Layer.build(api)
          })
          const typed = typedFlags(filters, { ...input, source: yield* SourceFlag, config: yield* ConfigFlag })
          yield* Effect.provide(runListing(list, { ...input, ...checked, typed }), service)
        }, Effect.scoped)
      ).pipe(
        Command.withDescription("Print one page, --max records or --all of them"),
        Command.withExamples([
          { command: `payments ${list.label} list --limit 5`, description: "the first five records" },
          {
            command: `payments ${list.label} list --all --format ndjson > ${list.label}.ndjson`,
            description: "all records, exactly as sent"
          },
          {
            command:
              `payments ${list.label} list --all --where status!=pending --sort reference --fields id,reference,status --format csv`,
            description: "some fields of the records with another state, sorted, as CSV"
          }
        ])
      )
    ])
  )
}

type Given = Command.Command.Config.Infer<ReturnType<typeof listFlags>> & GivenFlags<"source" | "config">

const repeated = [
  "source",
  "config",
  "sort",
  "fields",
  "format",
  "output",
  "patience",
  "strict",
  "all",
  "max"
] as const

/** Returns the flags as they were typed, for the command that continues the listing. */
const typedFlags = (filters: { readonly [field: string]: FilterFlag }, given: Given): TypedFlags => {
  const optional = (flag: string, text: string | undefined) => text === undefined ? [] : [[flag, text] as const]
  return {
    personal: [
      ...Object.entries(filters).flatMap(([field, { flag }]) => optional(flag, given.filters[field])),
      ...given.where.map((text) => ["where", text] as const),
      ...optional("query", given.query)
    ],
    others: givenFlags(given, repeated)
  }
}

const conflictOf = (
  { all, cursor, cursorFile, fields, format: formatName, max, output, query }: Given
): string | undefined => {
  if (all && max !== undefined) return "--all and --max exclude each other."
  if (cursor !== undefined && cursorFile !== undefined) return "--cursor and --cursor-file exclude each other."
  if (output !== undefined && query !== undefined) {
    return "--output and --query exclude each other: write the result with >."
  }
  if (output !== undefined && formatName !== undefined && formatName !== "ndjson" && formatName !== "csv") {
    return `--output appends records, so its format is ndjson or csv. Write ${formatName} with >.`
  }
  return fields !== undefined && query !== undefined
    ? "--fields and --query exclude each other: the query says which fields it returns."
    : undefined
}
