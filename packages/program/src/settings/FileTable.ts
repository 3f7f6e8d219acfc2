/**
 * The settings of hand-offs and statements, one row each as in `SettingTable.ts`. Only the sources file has them, and most
 * starts read none, so they are loaded with its schema.
 */
import { dateOrders, encodings, separatorNames } from "@payments/copy"
import { Lists } from "@payments/core"
import { Duration, Schema } from "effect"
import ms from "ms"
import * as Parsers from "./Parsers.ts"
import { rowsOf } from "./SettingTable.ts"
import { tablesOf } from "./TableSchema.ts"
import * as Type from "./Types.ts"

const key = rowsOf("key")
const row = rowsOf(undefined)

/** Its value may contain a secret, so it is never shown. */
const secretUrl = Type.matching(
  "an address that begins with https://",
  (given) => Type.isPlain(given) && URL.canParse(given)
)

const changeKinds = Type.list(
  () => Type.choices(["insert", "update", "missing", "returned"], "a kind of change"),
  "an array of kinds of changes such as \"insert\", each once",
  Parsers.fieldNames
)

/** A duration in bounds. */
const durationBetween = (shortest: ms.StringValue, longest: ms.StringValue) =>
  Type.text({
    expected: `a duration from ${shortest} to ${longest}`,
    parse: (given) => {
      const found = Parsers.duration.parse(given)
      const bounds = { minimum: Duration.millis(ms(shortest)), maximum: Duration.millis(ms(longest)) }
      return found !== undefined && Duration.between(found, bounds) ? found : undefined
    }
  })

/** `true` or `false` without quotes. */
const switched = {
  schema: (description: string) => Schema.Boolean.annotate({ message: "must be true or false", description })
}

/** The settings of `[sources.NAME.handoff.CONSUMER]`. */
export const handoffSettings = {
  url: row(secretUrl, {}, [
    "the address to which batches of changes are sent: `https://`, or `http://` to this machine. Only its origin is ever shown"
  ]),
  secret_file: key(Type.path, {}, [
    "a file that contains the keys that sign: `whsec_…` or `whsk_…`, one per line, the newest first. Each key signs. It is read again within seconds"
  ]),
  secret_env: key(Type.variableName, {}, ["the environment variable that contains these keys"]),
  secret_command: key(Type.command, {}, [
    "the program and arguments that print these keys: no shell, 30 s at most, in the folder of this file"
  ]),
  lists: row(Type.lists, {}, ["the lists whose changes are sent; default: all of the source"]),
  kinds: row(changeKinds, {}, [
    "the kinds of changes that are sent: `insert`, `update`, `missing` and `returned`; default: all. Erasures are always sent"
  ]),
  thin: row(switched, {}, ["`true` sends only the number, kind and id of each change; default: false"]),
  max_changes: row(Type.wholeNumber(1, 1000), {}, ["the most changes of a batch; default: 100"]),
  max_bytes: row(Type.wholeNumber(1, 10_000_000), {}, [
    "the largest size of a batch in bytes, unless one change is larger; default: 20000"
  ]),
  timeout: row(durationBetween("100ms", "5m"), {}, ["how long to wait for an answer; default: 20s"]),
  give_up_after: row(durationBetween("1s", "365d"), {}, [
    "how long a batch is sent again before the hand-off stops; default: 3d"
  ]),
  order: row(Type.oneOf("strict", "per-record"), {}, [
    "`\"strict\"`: a refused change stops all changes behind it. `\"per-record\"`: only those of its record; default: `\"strict\"`"
  ]),
  allow_private: row(switched, {}, [
    "`true` also sends to private and link-local addresses, and with `proxy` to the machine of the proxy; default: false"
  ]),
  proxy: row(Type.plain, {}, [
    "an HTTP proxy, `http://HOST:PORT`, through which requests to `https://` go (`CONNECT`). It resolves the names, so it must refuse private addresses itself; default: none, whatever the environment says"
  ]),
  start: row(Type.oneOf("first", "now"), {}, [
    "where a new consumer begins: with the first change that is kept, or with the next one; default: `\"first\"`"
  ])
}

/** The setting of a source that has them. */
export const handoffSetting = rowsOf("handoff")(tablesOf(/^[a-z0-9_-]{1,40}$/, handoffSettings), {}, [
  "the consumers to which `payments-worker` hands changes off, by name: 1 to 40 small letters, digits, `_` and `-`"
])

/** The settings of `[statements.NAME]`. The flags of `payments reconcile` with their names override them. */
export const statementSettings = {
  list: row(
    Type.oneOf(...Lists.all.filter((list) => Lists.amountFields(list).length > 0).map(({ label }) => label)),
    {},
    [
      "the list that is compared; default: invoices"
    ]
  ),
  on: row(Type.fieldNames, {}, ["the fields that must agree: one amount, and texts and a date that identify a record"]),
  group: row(Type.plain, {}, ["the field of a group whose sum is compared with a line, such as `settlementDate`"]),
  within: row(Type.duration, {}, ["by how many days a date may differ, such as `2d`"]),
  map: row(Type.columns, {}, [
    "the column of each field, such as `{ amount = \"Betrag\", reference = \"Verwendungszweck\" }`. `fee` is what was deducted, and `-` before a column reverses the sign"
  ]),
  unit: row(Type.unit, {}, ["the unit of the copy's amounts: `cents`, `units`, `mills`, or the number of decimals"]),
  separator: row(Type.oneOf(...separatorNames), {}, ["the separator of a CSV file; recognized by default"]),
  decimal: row(Type.oneOf("comma", "point"), {}, ["the mark before the decimals; recognized by default"]),
  dates: row(Type.oneOf(...dateOrders), {}, [
    "the order of day and month in dates such as 03/04/2024; recognized by default"
  ]),
  parentheses: row(Type.oneOf("negative"), {}, ["reads (12.00) as -12.00; refused by default"]),
  encoding: row(Type.oneOf(...encodings), {}, ["the encoding; recognized by default"])
}
