/** The environment variables of both programs, in one place, so that a misspelt one does not pass in silence. */
import type { Settings as CoreSettings } from "@payments/core"
import { closest, distance } from "fastest-levenshtein"

/** Those of the service. */
const ofService: { readonly [Name in keyof CoreSettings as Extract<Name, `PAYMENTS_${string}`>]-?: true } = {
  PAYMENTS_BASE_URL: true,
  PAYMENTS_INVOICES_BASE_URL: true,
  PAYMENTS_API_KEY: true,
  PAYMENTS_API_KEY_FILE: true,
  PAYMENTS_INVOICES_API_KEY: true,
  PAYMENTS_ACCOUNT: true,
  PAYMENTS_INVOICE_PARAMS: true,
  PAYMENTS_MAX_REQUESTS_PER_SECOND: true,
  PAYMENTS_UNCHECKED_FILTERS: true,
  PAYMENTS_TRACE_HEADERS: true
}

/** Every setting of `payments` and `payments-worker`. */
export const settings: ReadonlyArray<string> = [
  ...Object.keys(ofService),
  "PAYMENTS_TO",
  "PAYMENTS_EVERY",
  "PAYMENTS_ONCE",
  "PAYMENTS_HOST",
  "PAYMENTS_PORT",
  "PAYMENTS_PATIENCE",
  "PAYMENTS_ON_LOCKED",
  "PAYMENTS_IGNORE_FIELD",
  "PAYMENTS_MISSING_LIMIT"
]

/** Set by `bin/payments`, and by those who run the tests. They are no settings, and no mistakes. */
export const internal: ReadonlyArray<string> = [
  "PAYMENTS_STDOUT",
  "PAYMENTS_CRASH",
  "PAYMENTS_POSTGRES",
  "PAYMENTS_SEED"
]

/** Kubernetes sets these in every container beside a service that is named `payments`. */
const ofKubernetes = /^PAYMENTS_(SERVICE|PORT)_/

/** A name that is further from every setting than this is no misspelling of one. */
const mostDifferences = 3

/** A line about each variable of the environment that looks like a setting and is none. */
export const unknownSettings = (names: ReadonlyArray<string>): ReadonlyArray<string> =>
  names.filter((name) =>
    name.startsWith("PAYMENTS_") && !settings.includes(name) && !internal.includes(name) && !ofKubernetes.test(name)
  ).toSorted().map((name) => {
    const nearest = closest(name, [...settings])
    const known = distance(name, nearest) <= mostDifferences ? ` Did you mean ${nearest}?` : ""
    return `${
      /^\w{1,80}$/.test(name) ? name : "A variable that begins with PAYMENTS_"
    } is no setting and has no effect.${known}`
  })
