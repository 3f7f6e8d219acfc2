/** The environment variables of `payments` and `payments-worker`. A misspelt name gets a warning. */
import type { Settings as CoreSettings } from "@payments/core"
import { closest, distance } from "fastest-levenshtein"

/** The settings of the payments service. */
const serviceSettings: { readonly [Name in keyof CoreSettings as Extract<Name, `PAYMENTS_${string}`>]-?: true } = {
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
  ...Object.keys(serviceSettings),
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
