/**
 * The types of settings: what the sources file accepts, and which texts a flag or a variable accepts. Messages never
 * repeat a value, because it may be a secret in the wrong place.
 */
import { decimalsOf } from "@payments/copy"
import { Lists } from "@payments/core"
import { Cron, DateTime, Option, Record, Result, Schema, Struct } from "effect"
import { anyOf } from "../text/WordLists.ts"
import * as Parsers from "./Parsers.ts"
import type { SettingParser } from "./Parsers.ts"

/** Texts that a parser accepts. The value of the file stays a text, and is parsed when it is used. */
export const text = <A>(parser: SettingParser<A>) => ({
  ...parser,
  fromFile: parser.parse,
  schema: (description: string) => {
    const message = `must be ${parser.expected}, in quotes`
    return Schema.String.annotate({ message, description }).check(
      Schema.makeFilter((given: string) => parser.parse(given) !== undefined, { message })
    )
  }
})

export const matching = (expected: string, isValid: (given: string) => boolean) =>
  text({ expected, parse: (given) => isValid(given) ? given : undefined })

export const isPlain = (given: string): boolean => given !== "" && !/\p{Cc}/u.test(given) && given.trim() === given

export const plain = matching("text without control characters and without spaces at its ends", isPlain)
export const path = matching("the path of a file, without ~", (given) => isPlain(given) && !given.startsWith("~"))
export const variableName = matching(
  "the name of an environment variable",
  (given) => /^[A-Za-z_]\w{0,127}$/.test(given)
)
export const duration = text(Parsers.duration)
export const interval = text(Parsers.interval)
export const percentage = text(Parsers.percentage)
export const cron = matching(
  "a cron expression of five fields, or of six with seconds",
  (given) => Result.isSuccess(Cron.parse(given))
)
export const timeZone = matching(
  "a time zone such as Europe/Madrid",
  (given) => Option.isSome(DateTime.zoneFromString(given))
)
export const runnerName = matching(
  "the name of a runner: 1 to 60 letters, digits, `.`, `_` and `-`",
  (given) => /^[A-Za-z0-9._-]{1,60}$/.test(given)
)
/** PostgreSQL truncates names of more than 63 bytes. */
export const tablePrefix = matching(
  "1 to 30 small letters, digits and `_`, the first of which is a letter",
  (given) => /^[a-z][a-z0-9_]{0,29}$/.test(given)
)

export const clusterUrl = {
  ...plain,
  expected: "postgres://HOST/DATABASE",
  parse: (given: string) => /^postgres(ql)?:/.test(given) ? given : undefined
}

/** Arrays in the file, and in a text the elements with commas between them. */
export const list = <A, S extends Schema.Top>(
  element: () => S,
  expected: string,
  parser: SettingParser<A>
) => ({
  ...parser,
  fromFile: (elements: ReadonlyArray<S["Type"]>) => elements,
  schema: (description: string) => {
    const message = `must be ${expected}`
    return Schema.Array(element()).annotate({ message, description }).check(
      Schema.makeFilter(
        (elements: ReadonlyArray<unknown>) => elements.length > 0 && new Set(elements).size === elements.length,
        { message, description }
      )
    )
  }
})

export const choices = <const A extends string>(values: ReadonlyArray<A>, description: string) =>
  Schema.Literals(values).annotate({ message: `must be ${anyOf(values.map((value) => `"${value}"`))}`, description })

export const oneOf = <const A extends string>(...values: ReadonlyArray<A>) => ({
  expected: anyOf(values),
  parse: (given: string) => values.find((value) => value === given),
  fromFile: (value: A) => value,
  schema: (description: string) => choices(values, description)
})

export const fieldNames = list(
  () => plain.schema("a field"),
  "an array of names of fields, each once",
  Parsers.fieldNames
)
export const fieldPaths = list(
  () => text(Parsers.fieldPath).schema("a field"),
  "an array of fields such as \"customerDetails.email\", each once",
  Parsers.fieldPaths
)
export const filters = list(
  () =>
    choices(
      Lists.all.flatMap((one) => Object.keys(one.filters).map((field) => `${one.name}.${field}`)),
      "a filter"
    ),
  "an array of filters such as \"invoices.paymentDate\", each once",
  Parsers.fieldNames
)
export const lists = list(
  () => choices(Lists.all.map(({ label }) => label), "a list"),
  "an array of lists such as \"invoices\", each once",
  Parsers.fieldNames
)

export const wholeNumber = (minimum: number, maximum: number) => ({
  ...Parsers.wholeNumber(minimum, maximum),
  fromFile: (value: number) => value,
  schema: (description: string) => {
    const message = `must be a whole number from ${minimum} to ${maximum}`
    return Schema.Int.annotate({ message }).check(Schema.isBetween({ minimum, maximum }, { message, description }))
  }
})

export const positiveNumber = {
  schema: (description: string) => {
    const message = "must be a number above 0"
    return Schema.Finite.annotate({ message }).check(Schema.isGreaterThan(0, { message, description }))
  }
}

/** Texts that no file has. */
const word = <A>(expected: string, parse: (given: string) => A | undefined): SettingParser<A> => ({ expected, parse })

export const anyText = word("text", (given) => given === "" ? undefined : given)
export const yesOrNo = word("true or false", (given) => given === "true" ? true : given === "false" ? false : undefined)
export const port = word(
  "a whole number from 0 to 65535",
  (given) => /^\d{1,5}$/.test(given) && Number(given) <= 65_535 ? Number(given) : undefined
)
export const hosts = word("names or addresses without http://, separated by commas", (given) => {
  const names = given.split(",").map((name) => name.trim())
  return names.every((name) => /^[\w.:[\]-]+$/.test(name)) ? names : undefined
})

export const command = {
  schema: (description: string) => {
    const message = "must be an array of arguments, the first of which is the program"
    const argument = matching("an argument without NUL characters", (given) => !given.includes("\0"))
    return Schema.Array(argument.schema("an argument")).annotate({ message, description }).check(
      Schema.makeFilter((args: ReadonlyArray<string>) => args.length > 0 && args[0] !== "", { message })
    )
  }
}

const optional = Struct.map(Schema.optionalKey)

export const invoiceParameters = {
  schema: (description: string) => {
    const parameter = matching("the name of a query parameter", (given) => isPlain(given) && !/[,=]/.test(given))
    return Schema.Struct(
      Record.map(
        Lists.defaultInvoiceParameters,
        (_, field) => parameter.schema(`the name that the service uses for \`${field}\``)
      )
    ).mapFields(optional).annotate({ description })
  }
}

/** A pass: a number that limits it, and its schedule. */
export const pass = <const Name extends string>(name: Name, largest: number, meaning: string) => ({
  schema: (description: string) =>
    Schema.Struct({
      ...limitOf(name, wholeNumber(1, largest).schema(meaning)),
      every: Schema.optionalKey(interval.schema("time between two starts, 1s or longer")),
      cron: Schema.optionalKey(cron.schema("when to start: a cron expression, in `time_zone`"))
    }).annotate({ description })
})

// The type of a computed key is only a string.
const limitOf = <const Name extends string, S>(name: Name, schema: S) =>
  ({ [name]: schema }) as { readonly [_ in Name]: S }

/** The columns of a file, by field. */
export const columns = {
  schema: (description: string) => {
    const column = matching("the name of a column", isPlain)
    return Schema.Record(Schema.String, column.schema("the column")).annotate({
      message: "must be a table of columns, such as { amount = \"Betrag\" }",
      description
    })
  }
}

const labels: ReadonlyArray<string> = Lists.all.map(({ label }) => label)

/** Values of some lists, by their names on the command line. */
export interface ByList<A> {
  readonly [label: string]: A | undefined
}

/** A table with a value for some lists. In a text: `LIST=VALUE`, with commas in between; a list can stand there several times. */
const byList = <A, S extends Schema.Top>(
  { example, fromTexts, fromValue, schema }: {
    /** What the file and a text have, as an example. */
    readonly example: readonly [inFile: string, inText: string]
    readonly schema: (description: string) => S
    readonly fromTexts: (texts: ReadonlyArray<string>) => A | undefined
    readonly fromValue: (value: S["Type"]) => A | undefined
  }
) => ({
  expected: `LIST=VALUE, separated by commas, such as ${example[1]}; the lists are ${labels.join(", ")}`,
  parse: (given: string): ByList<A> | undefined => {
    const texts = new Map<string, Array<string>>()
    for (const pair of given.split(",")) {
      const [, label = "", value = ""] = /^\s*([a-z-]+)=(.*\S)\s*$/.exec(pair) ?? []
      if (!labels.includes(label)) return undefined
      texts.set(label, [...texts.get(label) ?? [], value])
    }
    const values = [...texts].map(([label, found]) => [label, fromTexts(found)] as const)
    return values.some(([, value]) => value === undefined) ? undefined : Object.fromEntries(values)
  },
  fromFile: (table: { readonly [label: string]: S["Type"] | undefined }): ByList<A> =>
    Object.fromEntries(
      Object.entries(table).map(([label, value]) => [label, value === undefined ? undefined : fromValue(value)])
    ),
  schema: (description: string) =>
    Schema.Struct(
      Object.fromEntries(labels.map((label) => [label, Schema.optionalKey(schema(`for the list \`${label}\``))]))
    ).annotate({ message: `must be a table of lists, such as ${example[0]}`, description })
})

/** The states of each list. A text of the variable cannot have one with a comma. */
export const statesByList = byList({
  example: ["{ invoices = [\"paid\"] }", "`invoices=paid,invoices=void`"],
  schema: (description) => {
    const message = "must be an array of states, each once"
    return Schema.Array(Schema.String).annotate({ message, description }).check(
      Schema.makeFilter((states: ReadonlyArray<string>) => new Set(states).size === states.length, {
        message,
        description
      })
    )
  },
  fromTexts: (texts) => new Set(texts).size === texts.length ? texts : undefined,
  fromValue: (states): ReadonlyArray<string> => states
})

/** A duration for each list. */
export const durationByList = byList({
  example: ["{ payout-requests = \"48h\" }", "`payout-requests=48h,invoices=30d`"],
  schema: duration.schema,
  fromTexts: ([first = "", ...others]) => others.length === 0 ? Parsers.duration.parse(first) : undefined,
  fromValue: Parsers.duration.parse
})

/** The unit of amounts, of which the API's document says nothing. */
export const unit = matching(
  "cents, units, mills, or the number of decimals",
  (given) => decimalsOf(given) !== undefined
)

/** Beancount takes such names of commodities, and hledger takes them in quotes. */
const commodity = matching(
  "2 to 24 capital letters, digits, `.`, `_`, `'` and `-`, that begin with a letter, such as EUR",
  (given) => /^[A-Z][A-Z0-9._'-]{0,22}[A-Z0-9]$/.test(given)
)

/** No character has a meaning in a journal, except for the colon. */
const account = matching(
  "an account such as Assets:Clearing",
  (given) => /^\p{L}[\p{L}\p{N}_'& -]*(:[\p{L}\p{N}][\p{L}\p{N}_'& -]*)*$/u.test(given) && !/ {2}| (?:$|:)/.test(given)
)

/** How the records of a source become transactions of a journal. */
export const journal = {
  schema: (description: string) =>
    Schema.Struct({
      unit: unit.schema("the unit of the copy's amounts: `cents`, `units`, `mills`, or the number of decimals"),
      commodity: commodity.schema("the currency of the amounts, such as `EUR`"),
      clearing_account: account.schema("the account that gets what invoices bring, and loses what is paid out"),
      accounts: Schema.Struct(
        Record.fromEntries(
          Lists.all.filter((one) => Lists.amountFields(one).length > 0).map(({ label, title }) =>
            [label, account.schema(`the other account of ${title}`)] as const
          )
        )
      ).mapFields(optional).annotate({ description: "the accounts of the lists" })
    }).annotate({ description })
}
