/** The environment variables of `payments` and `payments-worker`. A misspelt name gets a warning. */
import type { Settings as CoreSettings } from "@payments/core"
import { closest, distance } from "fastest-levenshtein"

/** The settings of the payments service, and their meaning. */
const serviceSettings: { readonly [Name in keyof CoreSettings as Extract<Name, `PAYMENTS_${string}`>]-?: string } = {
  PAYMENTS_BASE_URL:
    "address of payout requests and payin sources, without `/v0`; `https://`, or `http://` to `localhost`, `127.0.0.1`, `[::1]`",
  PAYMENTS_INVOICES_BASE_URL: "address of invoices, without `/v1`; default: `PAYMENTS_BASE_URL`",
  PAYMENTS_API_KEY: "the key. Set this or `PAYMENTS_API_KEY_FILE`, not both",
  PAYMENTS_API_KEY_FILE:
    "a file that contains the key. It is read again when the service no longer accepts the key. If other users can read it, there is a warning: use mode 0600",
  PAYMENTS_INVOICES_API_KEY: "the key for invoices; default: the other key",
  PAYMENTS_INVOICES_API_KEY_FILE: "a file that contains the key for invoices",
  PAYMENTS_ACCOUNT: "a name for the account whose data this is; part of the source that a destination is bound to",
  PAYMENTS_INVOICE_PARAMS:
    "renamed query parameters of the invoice list, such as `settlementTime=settlementCycle,limit=pageSize`",
  PAYMENTS_MAX_REQUESTS_PER_SECOND:
    "the most requests per second for all lists together, such as `10` or `0.5`; default: no limit",
  PAYMENTS_UNCHECKED_FILTERS:
    "filters, such as `invoices.paymentDate`, whose value is not checked on the returned records",
  PAYMENTS_TRACE_HEADERS: "`true` sends `traceparent` to the service; default: no trace data is sent"
}

/** The other settings of both programs, and their meaning. */
const programSettings = {
  PAYMENTS_CONFIG:
    "`--config` of both programs: the sources file; default: `payments/payments.toml` in the platform's configuration folder",
  PAYMENTS_SOURCE: "`payments --source`: the source of the sources file to use",
  PAYMENTS_TO:
    "`--to` and `--from` of both programs. The URL of a PostgreSQL database may contain its password only here",
  PAYMENTS_RATE_LIMIT_STORE:
    "a PostgreSQL database, `postgres://HOST/DATABASE`, through which all processes that use a key share its request rate. Only here its URL may contain the password",
  PAYMENTS_EVERY: "`payments-worker --every`, 1s or longer; default: 5m",
  PAYMENTS_ONCE: "`payments-worker --once`: `true` or `false`",
  PAYMENTS_HOST: "`payments-worker --host`; default: 127.0.0.1",
  PAYMENTS_PORT: "`payments-worker --port`; default: 9464",
  PAYMENTS_ALLOW_HOST:
    "`payments-worker --allow-host`: names and addresses, separated by commas, by which others reach the HTTP server; default: those of this machine",
  PAYMENTS_TOKEN_FILE:
    "`payments-worker --token-file`: a file with the token that the status page and the metrics need; default: they need none. Use mode 0600",
  PAYMENTS_LOG_FORMAT: "`payments-worker --log-format`: `json` or `text`; default: `json`",
  PAYMENTS_CLUSTER:
    "`payments-worker --cluster`: the PostgreSQL database of the cluster. Its URL may contain the password only here",
  PAYMENTS_CLUSTER_PREFIX:
    "`payments-worker --cluster-prefix`: the beginning of the names of the cluster's tables; default: `payments`",
  PAYMENTS_RUNNER:
    "`payments-worker --runner`: the name of this worker in its cluster; default: the names of host and process",
  PAYMENTS_PATIENCE: "`--patience` of both programs: how long a failing page is requested again; default: 15m",
  PAYMENTS_ON_LOCKED:
    "`--on-locked` of both programs: `refuse` or `wait`; default: `wait` for `payments-worker` without `--once`, else `refuse`",
  PAYMENTS_IGNORE_FIELD:
    "`--ignore-field` of both programs: fields to ignore when comparing records, such as `authUrl`",
  PAYMENTS_PERSONAL:
    "what happens to the documented fields that identify a person: `keep`, `omit` or `pseudonymize`; default: `keep`",
  PAYMENTS_OMIT: "fields to leave out, separated by commas, such as `customerDetails.email`",
  PAYMENTS_PSEUDONYMIZE: "text fields to replace by pseudonyms, separated by commas",
  PAYMENTS_KEEP: "fields to keep, although `PAYMENTS_PERSONAL` or `PAYMENTS_UNDOCUMENTED` would not",
  PAYMENTS_UNDOCUMENTED:
    "what happens to fields that the API's document does not have: `keep`, `omit` or `hold`; default: `keep` with `PAYMENTS_PERSONAL=keep`, else `omit`",
  PAYMENTS_PERSONAL_KEY:
    "the key of pseudonyms and erasures, 32 characters or more, such as the output of `openssl rand -hex 32`. Set this or `PAYMENTS_PERSONAL_KEY_FILE`, not both",
  PAYMENTS_PERSONAL_KEY_FILE: "a file that contains this key. Use mode 0600",
  PAYMENTS_MISSING_LIMIT:
    "`--missing-limit` of both programs: the largest share of a list that may be marked missing at once; default: 10%; up to 3 rows always, unless it is 0%"
}

/** The meaning of every environment variable of `payments` and `payments-worker`. */
export const settingMeanings: { readonly [name: string]: string } = { ...serviceSettings, ...programSettings }

/** Every environment variable of `payments` and `payments-worker`. */
export const settings: ReadonlyArray<string> = Object.keys(settingMeanings)

/** Variables that `bin/payments` and the tests set. They are not settings, and they get no warning. */
export const internalVariables: ReadonlyArray<string> = [
  "PAYMENTS_STDOUT",
  "PAYMENTS_CRASH",
  "PAYMENTS_POSTGRES",
  "PAYMENTS_SEED"
]

/** The variables that Kubernetes sets in every container of a namespace with a service named `payments`. */
const kubernetesVariable = /^PAYMENTS_(SERVICE|PORT)_/

/** The largest edit distance at which a name counts as a misspelt setting. */
const maxDistance = 3

/** Returns a line about each environment variable that looks like a setting but is not one. */
export const unknownSettings = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.filter((name) =>
    name.startsWith("PAYMENTS_") && !settings.includes(name) && !internalVariables.includes(name) &&
    !kubernetesVariable.test(name)
  ).toSorted().map((name) => {
    const nearest = closest(name, [...settings])
    const suggestion = distance(name, nearest) <= maxDistance ? ` Did you mean ${nearest}?` : ""
    return `${
      /^\w{1,80}$/.test(name) ? name : "A variable that starts with PAYMENTS_"
    } is not a setting and has no effect.${suggestion}`
  })
