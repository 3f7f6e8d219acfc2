/** The schema of the sources file. The JSON Schema for editors and the reference page are made from it. */
import { Lists } from "@payments/core"
import { Cron, DateTime, Option, Record, Result, Schema, Struct } from "effect"
import { duration, fieldPath, interval, percentage, type SettingParser } from "../settings/SettingParser.ts"

/** Text that the parser accepts. Its errors say what it must be, and never repeat it. */
const text = (parser: Pick<SettingParser<unknown>, "expected" | "parse">, description: string) => {
  const message = `must be ${parser.expected}, in quotes`
  return Schema.String.annotate({ message, description }).check(
    Schema.makeFilter((given: string) => parser.parse(given) !== undefined, { message })
  )
}

const parserOf = (expected: string, isValid: (given: string) => boolean) => ({
  expected,
  parse: (given: string) => isValid(given) ? given : undefined
})

/** Returns whether the text has a character, no control character, and no space at its ends. */
const isPlain = (given: string): boolean => given !== "" && !/\p{Cc}/u.test(given) && given.trim() === given

const plain = parserOf("text without control characters and without spaces at its ends", isPlain)
const path = parserOf("the path of a file, without ~", (given) => isPlain(given) && !given.startsWith("~"))
const variable = parserOf("the name of an environment variable", (given) => /^[A-Za-z_]\w{0,127}$/.test(given))

const list = <S extends Schema.Top>(element: S, expected: string, description: string) => {
  const message = `must be ${expected}`
  return Schema.Array(element).annotate({ message, description }).check(
    Schema.makeFilter(
      (elements: ReadonlyArray<unknown>) => elements.length > 0 && new Set(elements).size === elements.length,
      { message, description }
    )
  )
}

const fields = (description: string) =>
  list(text(fieldPath, "a field"), "an array of fields such as \"customerDetails.email\", each once", description)

const whole = (minimum: number, maximum: number, description: string) => {
  const message = `must be a whole number from ${minimum} to ${maximum}`
  return Schema.Int.annotate({ message }).check(Schema.isBetween({ minimum, maximum }, { message, description }))
}

const oneOf = <const L extends ReadonlyArray<string>>(values: L, description: string) =>
  Schema.Literals(values).annotate({ message: `must be ${quoted(values)}`, description })

const quoted = (values: ReadonlyArray<string>): string =>
  new Intl.ListFormat("en-GB", { type: "disjunction" }).format(values.map((value) => `"${value}"`))

const command = (description: string) => {
  const message = "must be an array of arguments, the first of which is the program"
  const argument = parserOf("an argument without NUL characters", (given) => !given.includes("\0"))
  return Schema.Array(text(argument, "an argument")).annotate({ message, description }).check(
    Schema.makeFilter((args: ReadonlyArray<string>) => args.length > 0 && args[0] !== "", { message })
  )
}

const every = text(interval, "time between two starts, 1s or longer")

const cronExpression = parserOf(
  "a cron expression of five fields, or of six with seconds",
  (given) => Result.isSuccess(Cron.parse(given))
)
const cron = text(cronExpression, "when to start: a cron expression, in `time_zone`")

const timeZone = parserOf("a time zone such as Europe/Madrid", (given) => Option.isSome(DateTime.zoneFromString(given)))

/** The name of a runner of a cluster. */
export const runnerName = parserOf(
  "the name of a runner: 1 to 60 letters, digits, `.`, `_` and `-`",
  (given) => /^[A-Za-z0-9._-]{1,60}$/.test(given)
)

/** The beginning of the names of a cluster's tables. PostgreSQL truncates names of more than 63 bytes. */
export const tablePrefix = parserOf(
  "1 to 30 small letters, digits and `_`, the first of which is a letter",
  (given) => /^[a-z][a-z0-9_]{0,29}$/.test(given)
)

const parameterName = parserOf(
  "the name of a query parameter",
  (given) => isPlain(given) && !/[,=]/.test(given)
)

const filterNames = Lists.all.flatMap(({ filters, name }) => Object.keys(filters).map((field) => `${name}.${field}`))

const listLabels = Lists.all.map(({ label }) => label)

const optional = Struct.map(Schema.optionalKey)

/** The settings of a source, and of `[defaults]`. */
export const SourceSettings = Schema.Struct({
  base_url: text(
    plain,
    "address of payout requests and payin sources, without `/v0`; `https://`, or `http://` to this machine"
  ),
  invoices_base_url: text(plain, "address of invoices, without `/v1`; default: `base_url`"),
  account: text(
    plain,
    "a name for the account whose data this is; part of what a destination is bound to. Never change it without need"
  ),
  api_key_file: text(
    path,
    "a file that contains the key, at most 64 KiB. It is read again when the service no longer accepts the key"
  ),
  api_key_env: text(variable, "the environment variable that contains the key"),
  api_key_command: command(
    "the program and arguments that print the key: no shell, 30 s at most, in the folder of this file. It runs again when the service no longer accepts the key"
  ),
  invoices_api_key_file: text(path, "a file that contains the key for invoices; default: the other key"),
  invoices_api_key_env: text(variable, "the environment variable that contains the key for invoices"),
  invoices_api_key_command: command("the program and arguments that print the key for invoices"),
  invoice_params: Schema.Struct(
    Record.map(
      Lists.defaultInvoiceParameters,
      (_, field) => text(parameterName, `the name that the service uses for \`${field}\``)
    )
  ).mapFields(optional).annotate({ description: "renamed query parameters of the invoice list" }),
  unchecked_filters: list(
    oneOf(filterNames, "a filter"),
    "an array of filters such as \"invoices.paymentDate\", each once",
    "filters whose value is not checked on the returned records"
  ),
  max_requests_per_second: Schema.Finite.annotate({ message: "must be a number above 0" }).check(
    Schema.isGreaterThan(0, {
      message: "must be a number above 0",
      description: "the most requests per second, for all lists together; default: no limit"
    })
  ),
  rate_limit_store: text(
    plain,
    "a PostgreSQL database, `postgres://HOST/DATABASE`, through which all processes that use this key share its request rate. Its table is in the schema `public`, or in the one that `?schema=NAME` names. No password: it comes from `PGPASSFILE` or `PGPASSWORD`"
  ),
  to: text(
    plain,
    "the destination: `sqlite:FILE`, `postgres://HOST/DATABASE?schema=NAME` or `file:FOLDER?format=…`. No password: PostgreSQL's password comes from `PGPASSFILE` or `PGPASSWORD`"
  ),
  lists: list(
    oneOf(listLabels, "a list"),
    "an array of lists such as \"invoices\", each once",
    "the lists to copy; default: all"
  ),
  every: text(interval, "time between the starts of two full scans, 1s or longer; default: 5m. Not with `cron`"),
  cron: text(cronExpression, "when full scans start: a cron expression, in `time_zone`. Not with `every`"),
  time_zone: text(timeZone, "the time zone of cron expressions; default: UTC"),
  window: Schema.Struct({
    days: whole(1, 366, "how many days, today included"),
    every: Schema.optionalKey(every),
    cron: Schema.optionalKey(cron)
  }).annotate({ description: "window passes: read the invoices settled on the last days, between full scans" }),
  head: Schema.Struct({
    pages: whole(1, 1000, "stop after so many pages in a row without new or changed records"),
    every: Schema.optionalKey(every),
    cron: Schema.optionalKey(cron)
  }).annotate({
    description: "head passes: read each list from its first page, between full scans. Needs `order = \"newest-first\"`"
  }),
  order: oneOf(["unknown", "newest-first"], "the order of the records in the lists; default: `\"unknown\"`"),
  max_age: text(duration, "the largest age of a list's last complete full scan; an older list is not fresh"),
  patience: text(duration, "how long a failing page is requested again; default: 15m"),
  runner: text(
    runnerName,
    "pins the source: in a cluster, only the runner of this name runs it, and no other one takes it over. Sources with an SQLite or file destination need it there"
  ),
  on_locked: oneOf(
    ["refuse", "wait"],
    "what to do while another program writes the same list; default: `\"refuse\"`, and for the worker `\"wait\"`"
  ),
  ignore_fields: list(
    text(plain, "a field"),
    "an array of names of fields, each once",
    "fields to ignore when comparing records, such as `authUrl`"
  ),
  missing_limit: text(
    percentage,
    "the largest share of a list that may be marked missing at once; default: 10%; up to 3 rows always, unless it is 0%"
  ),
  personal: oneOf(
    ["keep", "omit", "pseudonymize"],
    "what happens to the documented fields that identify a person, before anything is written: they are kept, left out, or replaced by pseudonyms; default: `\"keep\"`"
  ),
  omit: fields("fields to leave out, such as `customerDetails.email`"),
  pseudonymize: fields(
    "text fields to replace by pseudonyms, such as `customerDetails.documentNumber`. Equal values get equal pseudonyms. Needs a key"
  ),
  keep: fields("fields to keep, although `personal` or `undocumented` would not"),
  undocumented: oneOf(
    ["keep", "omit", "hold"],
    "what happens to fields that the API's document does not have: they are kept, left out, or left out and their records quarantined until you decide; default: `\"keep\"` with `personal = \"keep\"`, else `\"omit\"`"
  ),
  personal_key_file: text(
    path,
    "a file that contains the key of pseudonyms and erasures: 32 characters or more, such as the output of `openssl rand -hex 32`. Never change it without need"
  ),
  personal_key_env: text(variable, "the environment variable that contains this key"),
  personal_key_command: command("the program and arguments that print this key"),
  keep_changes: text(duration, "how long changes are kept; default: for ever"),
  keep_scans: text(duration, "how long the records of scans are kept; default: for ever"),
  keep_missing: text(duration, "how long rows are kept after they were marked missing; default: for ever"),
  keep_snapshots: whole(
    0,
    1000,
    "of a `file:` destination: how many earlier snapshots of each list stay in the folder, besides the one that `manifest.json` names; default: 1"
  )
}).mapFields(optional).annotate({ identifier: "Source" })

/** The settings of a source that are set, as decoded from the file. */
export type SourceSettings = typeof SourceSettings.Type

/** The names of sources. */
export const namePattern = /^[a-z0-9_-]{1,40}$/

/** The settings of the cluster. */
export const ClusterTable = Schema.Struct({
  url: text(
    plain,
    "the PostgreSQL database through which the runners share the sources: `postgres://HOST/DATABASE`, not through a transaction pooler. No password: it comes from `PGPASSFILE` or `PGPASSWORD`"
  ),
  prefix: Schema.optionalKey(
    text(
      tablePrefix,
      "the beginning of the names of its tables; default: `payments`. Deployments that share a database need different ones"
    )
  )
})

/** The whole file. */
export const SourcesFile = Schema.Struct({
  concurrency: Schema.optionalKey(
    whole(1, 1000, "how many full scans and passes may run at the same time, over all sources; default: 32")
  ),
  cluster: Schema.optionalKey(ClusterTable).annotateKey({
    description: "the cluster: several workers with this file share the sources"
  }),
  defaults: Schema.optionalKey(SourceSettings).annotateKey({ description: "settings that all sources share" }),
  sources: Schema.optionalKey(Schema.Record(Schema.String.check(Schema.isPattern(namePattern)), SourceSettings))
    .annotateKey({
      description: "the sources, by name: 1 to 40 small letters, digits, `_` and `-`"
    })
})

/** The JSON Schema of the file. */
export const jsonSchema = (): object => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(SourcesFile, { onExcessProperty: "error" })
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "The sources file of payments and payments-worker",
    ...schema,
    $defs: definitions
  }
}
