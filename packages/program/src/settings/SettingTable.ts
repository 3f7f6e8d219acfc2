/**
 * The settings of the programs, one row each. `FileTable.ts` has those of hand-offs and statements. This table gives
 * parsers, flags and their help, `docs/settings.md`, the JSON Schema, what `payments config` shows, and what overrides what.
 */
import { Lists } from "@payments/core"
import type { Schema } from "effect"
import * as Type from "./Types.ts"

/** What is known about a setting besides its type and texts. */
interface Facts {
  readonly variable?: string
  /** The flag, which overrides the variable, and what stands for its value in help texts. */
  readonly flag?: readonly [name: string, metavar: string]
  /** The program that has the flag; undefined: both. */
  readonly program?: "payments" | "payments-worker"
  /** The value without the setting, as a text. It is always shown. */
  readonly default?: string
  /**
   * The effect without the setting, which only `payments config` shows. `valueOf` returns the text of another setting.
   */
  readonly unset?: string | ((valueOf: (name: string) => string | undefined) => string | undefined)
}

/** Its name in the sources file is its key in the table. */
export interface Setting extends Facts {
  /**
   * What it is for. The variables of `service`, `key`, `rule` and `destination` describe the source of the environment.
   * All other variables override the file. A setting without a part is a member of `Source`.
   */
  readonly part?: "service" | "key" | "limiter" | "destination" | "schedule" | "scan" | "rule" | "handoff" | undefined
  /**
   * A setting of the file has a schema. A setting with a variable or a flag has a parser of texts, unless core has it.
   */
  readonly type: {
    readonly schema?: (description: string) => Schema.Top
    readonly parse?: (text: string) => unknown
    readonly expected?: string
    readonly fromFile?: (value: never) => unknown
  }
  /** A sentence about it, as the file has it. */
  readonly meaning: string
  /** What its variable means. Default: its flag, and the meaning with the names of variables. */
  readonly variableMeaning?: string | undefined
  /** The help of its flag. Default: the meaning without backquotes. */
  readonly flagMeaning?: string | undefined
}

/** Makes rows of settings with a part. */
export const rowsOf =
  <const Part extends Setting["part"]>(part: Part) =>
  <const Type extends Setting["type"], const Known extends Facts>(
    type: Type,
    known: Known,
    [meaning, variableMeaning, flagMeaning]: readonly [
      inFile: string,
      ofVariable?: string | undefined,
      ofFlag?: string
    ]
  ) => ({ ...known, part, type, meaning, variableMeaning, flagMeaning })

const service = rowsOf("service")
const key = rowsOf("key")
const limiter = rowsOf("limiter")
const destination = rowsOf("destination")
const schedule = rowsOf("schedule")
const scan = rowsOf("scan")
const rule = rowsOf("rule")
const row = rowsOf(undefined)

export interface Settings {
  readonly [name: string]: Setting
}

/** The keys that only variables contain. */
const keys = {
  api_key: key(Type.anyText, { variable: "PAYMENTS_API_KEY" }, [
    "the key. Set this or `PAYMENTS_API_KEY_FILE`, not both"
  ]),
  invoices_api_key: key(Type.anyText, { variable: "PAYMENTS_INVOICES_API_KEY" }, [
    "the key for invoices; default: the other key"
  ]),
  personal_key: key(Type.anyText, { variable: "PAYMENTS_PERSONAL_KEY" }, [
    "the key of pseudonyms and erasures, 32 characters or more, such as the output of `openssl rand -hex 32`. Set this or `PAYMENTS_PERSONAL_KEY_FILE`, not both"
  ])
}

/** The settings of a source, and of `[defaults]`, in the order of the file's schema. */
const source = {
  base_url: service(Type.plain, { variable: "PAYMENTS_BASE_URL" }, [
    "address of payout requests and payin sources, without `/v0`; `https://`, or `http://` to this machine",
    "address of payout requests and payin sources, without `/v0`; `https://`, or `http://` to `localhost`, `127.0.0.1`, `[::1]`"
  ]),
  invoices_base_url: service(Type.plain, {
    variable: "PAYMENTS_INVOICES_BASE_URL",
    unset: (valueOf) => valueOf("base_url")
  }, [
    "address of invoices, without `/v1`; default: `base_url`"
  ]),
  account: service(Type.plain, { variable: "PAYMENTS_ACCOUNT", unset: "none" }, [
    "a name for the account whose data this is; part of what a destination is bound to. Never change it without need",
    "a name for the account whose data this is; part of the source that a destination is bound to"
  ]),
  api_key_file: key(Type.path, { variable: "PAYMENTS_API_KEY_FILE" }, [
    "a file that contains the key, at most 64 KiB. It is read again when the service no longer accepts the key",
    "a file that contains the key. It is read again when the service no longer accepts the key. If other users can read it, there is a warning: use mode 0600"
  ]),
  api_key_env: key(Type.variableName, {}, ["the environment variable that contains the key"]),
  api_key_command: key(Type.command, {}, [
    "the program and arguments that print the key: no shell, 30 s at most, in the folder of this file. It runs again when the service no longer accepts the key"
  ]),
  invoices_api_key_file: key(Type.path, { variable: "PAYMENTS_INVOICES_API_KEY_FILE" }, [
    "a file that contains the key for invoices; default: the other key",
    "a file that contains the key for invoices"
  ]),
  invoices_api_key_env: key(Type.variableName, {}, ["the environment variable that contains the key for invoices"]),
  invoices_api_key_command: key(Type.command, {}, ["the program and arguments that print the key for invoices"]),
  invoice_params: service(Type.invoiceParameters, { variable: "PAYMENTS_INVOICE_PARAMS", unset: "none renamed" }, [
    "renamed query parameters of the invoice list",
    "renamed query parameters of the invoice list, such as `settlementTime=settlementCycle,limit=pageSize`"
  ]),
  unchecked_filters: service(Type.filters, { variable: "PAYMENTS_UNCHECKED_FILTERS", unset: "none" }, [
    "filters whose value is not checked on the returned records",
    "filters, such as `invoices.paymentDate`, whose value is not checked on the returned records"
  ]),
  max_requests_per_second: service(Type.positiveNumber, {
    variable: "PAYMENTS_MAX_REQUESTS_PER_SECOND",
    unset: "no limit"
  }, [
    "the most requests per second, for all lists together; default: no limit",
    "the most requests per second for all lists together, such as `10` or `0.5`; default: no limit"
  ]),
  rate_limit_store: limiter(Type.plain, { variable: "PAYMENTS_RATE_LIMIT_STORE", unset: "none" }, [
    "a PostgreSQL database, `postgres://HOST/DATABASE`, through which all processes that use this key share its request rate. Its table is in the schema `public`, or in the one that `?schema=NAME` names. No password: it comes from `PGPASSFILE` or `PGPASSWORD`",
    "a PostgreSQL database, `postgres://HOST/DATABASE`, through which all processes that use a key share its request rate. Only here its URL may contain the password"
  ]),
  to: destination(Type.plain, { variable: "PAYMENTS_TO", unset: "none" }, [
    "the destination: `sqlite:FILE`, `postgres://HOST/DATABASE?schema=NAME` or `file:FOLDER?format=…`. No password: PostgreSQL's password comes from `PGPASSFILE` or `PGPASSWORD`",
    "`--to` and `--from` of both programs. The URL of a PostgreSQL database may contain its password only here"
  ]),
  lists: schedule(Type.lists, { default: Lists.all.map(({ label }) => label).join(", ") }, [
    "the lists to copy; default: all"
  ]),
  every: schedule(Type.interval, {
    variable: "PAYMENTS_EVERY",
    flag: ["every", "DURATION"],
    program: "payments-worker",
    default: "5m"
  }, [
    "time between the starts of two full scans, 1s or longer; default: 5m. Not with `cron`",
    "`payments-worker --every`, 1s or longer; default: 5m",
    "the time between the starts of two full scans, at least 1s; default 5m"
  ]),
  cron: schedule(Type.cron, {}, ["when full scans start: a cron expression, in `time_zone`. Not with `every`"]),
  time_zone: schedule(Type.timeZone, { unset: "UTC" }, ["the time zone of cron expressions; default: UTC"]),
  window: schedule(Type.pass("days", 366, "how many days, today included"), { unset: "none" }, [
    "window passes: read the invoices settled on the last days, between full scans"
  ]),
  head: schedule(Type.pass("pages", 1000, "stop after so many pages in a row without new or changed records"), {
    unset: "none"
  }, [
    "head passes: read each list from its first page, between full scans. They begin when it is certain that the newest records come first"
  ]),
  order: row(Type.oneOf("unknown", "newest-first"), { default: "unknown" }, [
    "the order of the records in the lists; default: `\"unknown\"`, so that full scans learn it"
  ]),
  max_age: row(Type.duration, { unset: "any" }, [
    "the largest age of a list's last complete full scan; an older list is not fresh"
  ]),
  final_states: row(Type.statesByList, { variable: "PAYMENTS_FINAL_STATES", unset: "learned" }, [
    "the states of each list that no record leaves, such as `{ invoices = [\"paid\", \"void\"] }`. Records in any other state count as open. Default: the states that records have entered, and none has left",
    "the states of each list that no record leaves, such as `invoices=paid,invoices=void`; default: those that the copy has learned"
  ]),
  max_open: row(Type.durationByList, { variable: "PAYMENTS_MAX_OPEN", unset: "any" }, [
    "how long a record of each list may be open, counted from its `createdAt`, such as `{ payout-requests = \"48h\" }`",
    "how long a record of each list may be open, such as `payout-requests=48h,invoices=30d`"
  ]),
  patience: scan(Type.duration, { variable: "PAYMENTS_PATIENCE", flag: ["patience", "DURATION"], default: "15m" }, [
    "how long a failing page is requested again; default: 15m",
    undefined,
    "how long to retry a page that keeps failing; default 15m"
  ]),
  runner: row(Type.runnerName, { unset: "any" }, [
    "pins the source: in a cluster, only the runner of this name runs it, and no other one takes it over. Sources with an SQLite or file destination need it there"
  ]),
  on_locked: scan(Type.oneOf("refuse", "wait"), {
    variable: "PAYMENTS_ON_LOCKED",
    flag: ["on-locked", "refuse|wait"],
    default: "refuse"
  }, [
    "what to do while another program writes the same list; default: `\"refuse\"`, and for the worker `\"wait\"`",
    "`--on-locked` of both programs: `refuse` or `wait`; default: `wait` for `payments-worker` without `--once`, else `refuse`",
    "what to do while another program writes the same list; default refuse, for an endless worker wait"
  ]),
  ignore_fields: scan(Type.fieldNames, {
    variable: "PAYMENTS_IGNORE_FIELD",
    flag: ["ignore-field", "NAMES"],
    unset: "none"
  }, [
    "fields to ignore when comparing records, such as `authUrl`"
  ]),
  missing_limit: scan(Type.percentage, {
    variable: "PAYMENTS_MISSING_LIMIT",
    flag: ["missing-limit", "PERCENT"],
    default: "10%"
  }, [
    "the largest share of a list that may be marked missing at once; default: 10%; up to 3 rows always, unless it is 0%",
    undefined,
    "the share of a list that may be marked missing at once; default 10%; up to 3 rows always, unless it is 0%"
  ]),
  personal: rule(Type.oneOf("keep", "omit", "pseudonymize"), { variable: "PAYMENTS_PERSONAL", unset: "keep" }, [
    "what happens to the documented fields that identify a person, before anything is written: they are kept, left out, or replaced by pseudonyms; default: `\"keep\"`",
    "what happens to the documented fields that identify a person: `keep`, `omit` or `pseudonymize`; default: `keep`"
  ]),
  omit: rule(Type.fieldPaths, { variable: "PAYMENTS_OMIT", unset: "none" }, [
    "fields to leave out, such as `customerDetails.email`",
    "fields to leave out, separated by commas, such as `customerDetails.email`"
  ]),
  pseudonymize: rule(Type.fieldPaths, { variable: "PAYMENTS_PSEUDONYMIZE", unset: "none" }, [
    "text fields to replace by pseudonyms, such as `customerDetails.documentNumber`. Equal values get equal pseudonyms. Needs a key",
    "text fields to replace by pseudonyms, separated by commas"
  ]),
  keep: rule(Type.fieldPaths, { variable: "PAYMENTS_KEEP", unset: "none" }, [
    "fields to keep, although `personal` or `undocumented` would not"
  ]),
  undocumented: rule(Type.oneOf("keep", "omit", "hold"), {
    variable: "PAYMENTS_UNDOCUMENTED",
    unset: (valueOf) => (valueOf("personal") ?? "keep") === "keep" ? "keep" : "omit"
  }, [
    "what happens to fields that the API's document does not have: they are kept, left out, or left out and their records quarantined until you decide; default: `\"keep\"` with `personal = \"keep\"`, else `\"omit\"`",
    "what happens to fields that the API's document does not have: `keep`, `omit` or `hold`; default: `keep` with `PAYMENTS_PERSONAL=keep`, else `omit`"
  ]),
  personal_key_file: key(Type.path, { variable: "PAYMENTS_PERSONAL_KEY_FILE" }, [
    "a file that contains the key of pseudonyms and erasures: 32 characters or more, such as the output of `openssl rand -hex 32`. Never change it without need",
    "a file that contains this key. Use mode 0600"
  ]),
  personal_key_env: key(Type.variableName, {}, ["the environment variable that contains this key"]),
  personal_key_command: key(Type.command, {}, ["the program and arguments that print this key"]),
  keep_changes: row(Type.duration, { unset: "for ever" }, ["how long changes are kept; default: for ever"]),
  keep_scans: row(Type.duration, { unset: "for ever" }, ["how long the records of scans are kept; default: for ever"]),
  keep_missing: row(Type.duration, { unset: "for ever" }, [
    "how long rows are kept after they were marked missing; default: for ever"
  ]),
  keep_snapshots: destination(Type.wholeNumber(0, 1000), { unset: "1" }, [
    "of a `file:` destination: how many earlier snapshots of each list stay in the folder, besides the one that `manifest.json` names; default: 1"
  ]),
  journal: destination(Type.journal, {}, [
    "how `payments query --format hledger` and `--format beancount` write records as transactions"
  ])
}

/** The settings of `[cluster]`. */
const cluster = {
  url: row(Type.clusterUrl, { variable: "PAYMENTS_CLUSTER", flag: ["cluster", "URL"] }, [
    "the PostgreSQL database through which the runners share the sources: `postgres://HOST/DATABASE`, not through a transaction pooler. No password: it comes from `PGPASSFILE` or `PGPASSWORD`",
    "`payments-worker --cluster`: the PostgreSQL database of the cluster. Its URL may contain the password only here",
    "share the sources with other workers through this PostgreSQL database, postgres://HOST/DATABASE"
  ]),
  prefix: row(Type.tablePrefix, { variable: "PAYMENTS_CLUSTER_PREFIX", flag: ["cluster-prefix", "NAME"] }, [
    "the beginning of the names of its tables; default: `payments`. Deployments that share a database need different ones",
    "`payments-worker --cluster-prefix`: the beginning of the names of the cluster's tables; default: `payments`",
    "the beginning of the names of the cluster's tables; default payments"
  ])
}

/** The settings at the top of the file. */
const file = {
  concurrency: row(Type.wholeNumber(1, 1000), {}, [
    "how many full scans and passes may run at the same time, over all sources; default: 32"
  ])
}

/** The settings of a process of `payments-worker`, which no file has. */
const worker = {
  once: row(Type.yesOrNo, { variable: "PAYMENTS_ONCE" }, ["`payments-worker --once`: `true` or `false`"]),
  runner: row(Type.runnerName, { variable: "PAYMENTS_RUNNER", flag: ["runner", "NAME"] }, [
    "the name of this worker in the cluster; default: the names of host and process",
    "`payments-worker --runner`: the name of this worker in its cluster; default: the names of host and process"
  ]),
  host: row(Type.anyText, { variable: "PAYMENTS_HOST", flag: ["host", "HOST"] }, [
    "the address of the HTTP server; default 127.0.0.1",
    "`payments-worker --host`; default: 127.0.0.1"
  ]),
  allow_host: row(Type.hosts, { variable: "PAYMENTS_ALLOW_HOST", flag: ["allow-host", "HOSTS"] }, [
    "names and addresses by which others reach the HTTP server, besides those of this machine",
    "`payments-worker --allow-host`: names and addresses, separated by commas, by which others reach the HTTP server; default: those of this machine"
  ]),
  token_file: row(Type.anyText, { variable: "PAYMENTS_TOKEN_FILE", flag: ["token-file", "FILE"] }, [
    "a file with the token that the status page and the metrics then need",
    "`payments-worker --token-file`: a file with the token that the status page and the metrics need; default: they need none. Use mode 0600"
  ]),
  port: row(Type.port, { variable: "PAYMENTS_PORT", flag: ["port", "PORT"] }, [
    "the port of the HTTP server; 0 selects a free port; default 9464",
    "`payments-worker --port`; default: 9464"
  ]),
  log_format: row(Type.oneOf("json", "text"), { variable: "PAYMENTS_LOG_FORMAT", flag: ["log-format", "json|text"] }, [
    "the format of the log on stdout; default json",
    "`payments-worker --log-format`: `json` or `text`; default: `json`"
  ])
}

/** The settings of any process, which no file has. */
const program = {
  config: row(Type.anyText, { variable: "PAYMENTS_CONFIG", flag: ["config", "FILE"] }, [
    "the sources file; default: payments/payments.toml in the configuration folder",
    "`--config` of both programs: the sources file; default: `payments/payments.toml` in the platform's configuration folder"
  ]),
  source: row(Type.anyText, { variable: "PAYMENTS_SOURCE", flag: ["source", "NAME"], program: "payments" }, [
    "the source in the sources file",
    "`payments --source`: the source of the sources file to use"
  ]),
  trace_headers: row(Type.yesOrNo, { variable: "PAYMENTS_TRACE_HEADERS" }, [
    "`true` sends `traceparent` to the service; default: no trace data is sent"
  ])
}

/** All settings, by the place in the file that has them, or by the process that has them. */
export const allSettings = { keys, source, cluster, file, worker, program }
