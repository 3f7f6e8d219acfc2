/**
 * Where the service is and how to ask it. Everything missing or wrong is reported at once, by the name of its setting,
 * before any request; no value is ever repeated in a report, since it may hold a secret.
 */
import { Config, Context, Data, Effect, FileSystem, Layer, Redacted } from "effect"
import { defaultInvoiceParameters, type InvoiceParameters } from "./Lists.ts"
import { defaultRetryPolicy, type RetryPolicy } from "./RetryPolicy.ts"

/** A setting that is missing or wrong. */
export interface ConfigProblem {
  /** The environment variable's name. */
  readonly setting: string
  readonly problem: string
}

/** All settings that are missing or wrong. */
export class PaymentsConfigError extends Data.TaggedError("PaymentsConfigError")<{
  readonly problems: ReadonlyArray<ConfigProblem>
}> {
  override get message() {
    return this.problems.map(({ problem, setting }) => `${setting} ${problem}`).join("; ")
  }
}

/** The settings as text, named as in the environment. Empty text counts as missing. */
export interface Settings {
  readonly PAYMENTS_BASE_URL?: string | undefined
  /** Default: `PAYMENTS_BASE_URL`. */
  readonly PAYMENTS_INVOICES_BASE_URL?: string | undefined
  readonly PAYMENTS_API_KEY?: Redacted.Redacted<string> | undefined
  /** What the file holds, or why it cannot be read; used where `PAYMENTS_API_KEY` is not set. */
  readonly PAYMENTS_API_KEY_FILE?: Checked<Redacted.Redacted<string>> | undefined
  /** Default: `PAYMENTS_API_KEY`. */
  readonly PAYMENTS_INVOICES_API_KEY?: Redacted.Redacted<string> | undefined
  /** A name for whose data this is. */
  readonly PAYMENTS_ACCOUNT?: string | undefined
  /** Renamed query parameters of the invoice list, such as `settlementTime=settlementCycle,limit=pageSize`. */
  readonly PAYMENTS_INVOICE_PARAMS?: string | undefined
}

/** Where the service is and how to ask it. */
export class PaymentsConfig extends Context.Service<PaymentsConfig, {
  readonly baseUrl: URL
  readonly invoicesBaseUrl: URL
  readonly apiKey: Redacted.Redacted<string>
  readonly invoicesApiKey: Redacted.Redacted<string>
  readonly invoiceParameters: InvoiceParameters
  readonly retry: RetryPolicy
  /** Whose data this is: both base addresses and the account's name. A destination belongs to one source. */
  readonly source: string
}>()("@payments/core/PaymentsConfig") {
  /** Checks the settings, all of them, and fails with everything that is wrong. */
  static readonly fromSettings = (
    settings: Settings
  ): Effect.Effect<PaymentsConfig["Service"], PaymentsConfigError> => {
    const problems: Array<ConfigProblem> = []
    const checked = <A>(setting: keyof Settings, result: Checked<A>): A | undefined => {
      if ("problem" in result) problems.push({ setting, problem: result.problem })
      return "problem" in result ? undefined : result.value
    }
    const baseUrl = checked("PAYMENTS_BASE_URL", checkAddress(settings.PAYMENTS_BASE_URL))
    const { PAYMENTS_API_KEY: inEnvironment, PAYMENTS_API_KEY_FILE: inFile } = settings
    const apiKey = inEnvironment !== undefined || inFile === undefined
      ? checked("PAYMENTS_API_KEY", checkKey(inEnvironment))
      : checked("PAYMENTS_API_KEY_FILE", "problem" in inFile ? inFile : checkKey(inFile.value, "is empty"))
    const invoicesBaseUrl = isSet(settings.PAYMENTS_INVOICES_BASE_URL)
      ? checked("PAYMENTS_INVOICES_BASE_URL", checkAddress(settings.PAYMENTS_INVOICES_BASE_URL))
      : baseUrl
    const invoicesApiKey = settings.PAYMENTS_INVOICES_API_KEY !== undefined
      ? checked("PAYMENTS_INVOICES_API_KEY", checkKey(settings.PAYMENTS_INVOICES_API_KEY))
      : apiKey
    const invoiceParameters = checked(
      "PAYMENTS_INVOICE_PARAMS",
      checkParameters(settings.PAYMENTS_INVOICE_PARAMS ?? "")
    )
    if (
      problems.length > 0 || baseUrl === undefined || invoicesBaseUrl === undefined || apiKey === undefined ||
      invoicesApiKey === undefined || invoiceParameters === undefined
    ) {
      return Effect.fail(new PaymentsConfigError({ problems }))
    }
    const account = isSet(settings.PAYMENTS_ACCOUNT) ? [settings.PAYMENTS_ACCOUNT] : []
    return Effect.succeed({
      baseUrl,
      invoicesBaseUrl,
      apiKey,
      invoicesApiKey,
      invoiceParameters,
      retry: defaultRetryPolicy,
      source: [...new Set([baseUrl.href, invoicesBaseUrl.href]), ...account].join(" ")
    })
  }

  /**
   * Reads the environment through the current `ConfigProvider`: {@link Settings}, with `PAYMENTS_API_KEY_FILE` in the
   * place of `PAYMENTS_API_KEY` where the key stands in a file.
   */
  static readonly layerConfig: Layer.Layer<PaymentsConfig, PaymentsConfigError, FileSystem.FileSystem> = Layer.effect(
    PaymentsConfig,
    Effect.gen(function*() {
      const text = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))
      const secret = (name: string) => Effect.orDie(Config.Redacted(name).pipe(Config.withDefault(undefined)))
      return yield* PaymentsConfig.fromSettings({
        PAYMENTS_BASE_URL: yield* text("PAYMENTS_BASE_URL"),
        PAYMENTS_INVOICES_BASE_URL: yield* text("PAYMENTS_INVOICES_BASE_URL"),
        PAYMENTS_API_KEY: yield* secret("PAYMENTS_API_KEY"),
        PAYMENTS_API_KEY_FILE: yield* keyFile(yield* text("PAYMENTS_API_KEY_FILE")),
        PAYMENTS_INVOICES_API_KEY: yield* secret("PAYMENTS_INVOICES_API_KEY"),
        PAYMENTS_ACCOUNT: yield* text("PAYMENTS_ACCOUNT"),
        PAYMENTS_INVOICE_PARAMS: yield* text("PAYMENTS_INVOICE_PARAMS")
      })
    })
  )
}

/** A setting that was read, or what is wrong with it. */
export type Checked<A> = { readonly value: A } | { readonly problem: string }

const isSet = (text: string | undefined): text is string => text !== undefined && text !== ""

const keyFile = Effect.fnUntraced(function*(path: string | undefined) {
  if (!isSet(path)) return undefined
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(path).pipe(
    Effect.map((text): Checked<Redacted.Redacted<string>> => ({ value: Redacted.make(text.trim()) })),
    Effect.catch((error) => Effect.succeed({ problem: `cannot be read (${error.reason._tag})` }))
  )
})

/** The key goes into a header: visible ASCII only (RFC 9110 §5.5 and RFC 6750 §2.1 allow no more). */
const checkKey = (
  key: Redacted.Redacted<string> | undefined,
  missing = "is not set"
): Checked<Redacted.Redacted<string>> => {
  if (key === undefined || Redacted.value(key) === "") return { problem: missing }
  return /^[\x21-\x7e]+$/.test(Redacted.value(key))
    ? { value: key }
    : { problem: "holds a character that cannot stand in a header, such as a space or a line break" }
}

const checkAddress = (text: string | undefined): Checked<URL> => {
  if (!isSet(text)) return { problem: "is not set" }
  if (!URL.canParse(text)) return { problem: "is not an address such as https://api.example.com" }
  const url = new URL(text)
  if (url.protocol !== "https:" && url.protocol !== "http:") return { problem: "must begin with https://" }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    return { problem: "must begin with https:// (plain http: would show the key; only this machine may be asked so)" }
  }
  if (url.username !== "" || url.password !== "") return { problem: "must not hold a user name or password" }
  if (/[?#]/.test(text)) return { problem: "must not hold a query or fragment" }
  const path = url.pathname.replace(/\/+$/, "")
  if (/\/v[01]$/.test(path)) return { problem: "must not end in /v0 or /v1: the version is added to it" }
  url.pathname = path
  return { value: url }
}

/** Whether the host is this machine by its name or address. */
const isLoopback = (host: string): boolean =>
  host === "localhost" || host.endsWith(".localhost") || host === "127.0.0.1" || host === "[::1]"

const checkParameters = (text: string): Checked<InvoiceParameters> => {
  const known = Object.keys(defaultInvoiceParameters)
  const renamed: Record<string, string> = { ...defaultInvoiceParameters }
  for (const pair of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const [, field = "", name = ""] = /^([^=]*)=([^=]*)$/.exec(pair)?.map((part) => part.trim()) ?? []
    if (!known.includes(field)) return { problem: `must be FIELD=NAME,… with fields out of ${known.join(", ")}` }
    if (name === "") return { problem: `gives ${field} no name` }
    renamed[field] = name
  }
  return new Set(Object.values(renamed)).size === known.length
    ? { value: { ...defaultInvoiceParameters, ...renamed } }
    : { problem: "gives two fields the same name" }
}
