/**
 * The configuration of the service. It reports all settings that are missing or wrong together, by name, before any
 * request. Reports never repeat a value, because it may contain a secret.
 */
import { Config, Context, Data, Duration, Effect, FileSystem, Layer, Record, Redacted, Result } from "effect"
import { all, type AnyList, type InvoiceParameters, type ListName, parseInvoiceParameters } from "../model/Lists.ts"
import { defaultSlowDown, type SlowDown } from "../pace/RateLimiter.ts"
import { defaultRetryPolicy, type RetryPolicy } from "../pace/RetryPolicy.ts"
import { type Checked, checkKey, type KeySource, makeKeyFile } from "./KeySource.ts"
import { proxyProblem, proxyVariables } from "./ProxyAddress.ts"

/** Names of invoice parameters (§4.3) that observations have proven. They replace the assumed ones. A setting wins. */
export const ProvenParameters: Context.Reference<Partial<InvoiceParameters>> = Context.Reference(
  "@payments/core/ProvenParameters",
  { defaultValue: () => ({}) }
)

/** The problem of one setting. */
export interface ConfigProblem {
  /** The name of the environment variable or of another setting. */
  readonly setting: string
  /** What is wrong. It does not contain the value. */
  readonly problem: string
}

/** The error for settings that are missing or wrong. */
export class PaymentsConfigError extends Data.TaggedError("PaymentsConfigError")<{
  /** All problems, in the order of the settings. */
  readonly problems: ReadonlyArray<ConfigProblem>
}> {
  override get message() {
    return this.problems.map(({ problem, setting }) => `${setting} ${problem}`).join("; ")
  }
}

/** The settings as text, with the names of the environment variables. Empty text counts as missing. */
export interface Settings {
  /** The address of payout requests and payin sources, without `/v0`. */
  readonly PAYMENTS_BASE_URL?: string | undefined
  /** Default: `PAYMENTS_BASE_URL`. */
  readonly PAYMENTS_INVOICES_BASE_URL?: string | undefined
  /** The API key (§5). Set either this or `PAYMENTS_API_KEY_FILE`. */
  readonly PAYMENTS_API_KEY?: Redacted.Redacted<string> | undefined
  /**
   * The file or the command that the key comes from. It is read again when the service no longer accepts the key. If
   * this member is present, even as undefined, the report of a missing key mentions the key file.
   */
  readonly PAYMENTS_API_KEY_FILE?: KeySource | undefined
  /** The API key for invoices. Default: the other key. */
  readonly PAYMENTS_INVOICES_API_KEY?: Redacted.Redacted<string> | undefined
  /** The same as `PAYMENTS_API_KEY_FILE`, for invoices. */
  readonly PAYMENTS_INVOICES_API_KEY_FILE?: KeySource | undefined
  /** The name of the account that the data belongs to. */
  readonly PAYMENTS_ACCOUNT?: string | undefined
  /** Renamed query parameters of the invoice list, such as `settlementTime=settlementCycle,limit=pageSize`. */
  readonly PAYMENTS_INVOICE_PARAMS?: string | undefined
  /** The most requests per second, for all lists together; a number above 0. Default: no limit. */
  readonly PAYMENTS_MAX_REQUESTS_PER_SECOND?: string | undefined
  /** Filters whose effect the client does not check, such as `invoices.paymentDate`, separated by commas. */
  readonly PAYMENTS_UNCHECKED_FILTERS?: string | undefined
  /** `true` sends `traceparent` to the service. Default: no trace headers are sent. */
  readonly PAYMENTS_TRACE_HEADERS?: string | undefined
  /** The proxy for `https:` addresses. It is only checked here; the Node client reads the variable itself. */
  readonly HTTPS_PROXY?: string | undefined
  /** The same as `HTTPS_PROXY`. */
  readonly https_proxy?: string | undefined
  /** The proxy for `http:` addresses, and for `https:` addresses if `HTTPS_PROXY` is not set. */
  readonly HTTP_PROXY?: string | undefined
  /** The same as `HTTP_PROXY`. */
  readonly http_proxy?: string | undefined
}

/** The deadlines of one attempt at a page. */
export interface Deadlines {
  /** The time until the headers of the answer: 15 s. */
  readonly headers: Duration.Duration
  /** The time between two chunks of the body: 20 s. */
  readonly stalled: Duration.Duration
  /** The time for the whole attempt, including decoding the page: 30 s. */
  readonly attempt: Duration.Duration
}

/** How many pages without new records a listing may read. They stop a list whose cursors never end. */
export interface ProgressLimits {
  /** Pages in a row without records: 1,000. A service that searches through much data sends many empty pages. */
  readonly emptyPages: number
  /** Pages in a row with the same records as earlier pages of the listing: 10. Changing data can repeat a few pages. */
  readonly repeatedPages: number
}

/** The configuration of the service. */
export class PaymentsConfig extends Context.Service<PaymentsConfig, {
  /** The base address of payout requests and payin sources. The client adds the version (§9). */
  readonly baseUrl: URL
  /** The base address of invoices. The client adds the version (§9). */
  readonly invoicesBaseUrl: URL
  /** The key for payout requests and payin sources (§5). */
  readonly apiKey: Redacted.Redacted<string>
  /** The key for invoices (§5). */
  readonly invoicesApiKey: Redacted.Redacted<string>
  /**
   * Reads the key again, if it comes from a file or a command. It runs once when the service no longer accepts the
   * current key.
   */
  readonly freshKey: { readonly [Address in AnyList["baseAddress"]]?: KeySource["read"] }
  /** The names of the invoice list's query parameters (§4.3). */
  readonly invoiceParameters: InvoiceParameters
  /** The source of the data: both base addresses and the account. A destination belongs to one source. */
  readonly source: string
  /** The retry policy. */
  readonly retry: RetryPolicy
  /** The deadlines of an attempt. */
  readonly deadlines: Deadlines
  /**
   * The largest body, in bytes after decompression: 32 MiB. A page of more than 1,000 records or 500,000 values is
   * malformed, independent of this limit.
   */
  readonly largestBodyBytes: number
  /** The limits on pages without new records. */
  readonly progress: ProgressLimits
  /** The most requests per second, for all lists together. Undefined: no limit. */
  readonly maxRequestsPerSecond: number | undefined
  /** How the request rate of a client decreases after a 429 and recovers. */
  readonly slowDown: SlowDown
  /** For each list, the filters whose effect the client does not check. */
  readonly uncheckedFilters: { readonly [Name in ListName]?: ReadonlyArray<string> }
  /** Whether `traceparent` is sent to the service. */
  readonly traceHeaders: boolean
}>()("@payments/core/PaymentsConfig") {
  /** Returns the address of a list: its base address and its path (§1). */
  static readonly addressOf = (config: PaymentsConfig["Service"], list: AnyList): URL => {
    const base = list.baseAddress === "invoices" ? config.invoicesBaseUrl : config.baseUrl
    return new URL(base.href.replace(/\/$/, "") + list.path)
  }

  /** Returns the keys by base address (§5). */
  static readonly keysOf = (
    config: PaymentsConfig["Service"]
  ): { readonly [Address in AnyList["baseAddress"]]: Redacted.Redacted<string> } => ({
    payments: config.apiKey,
    invoices: config.invoicesApiKey
  })

  /** Checks all settings and reads the keys. Fails with all problems. */
  static readonly fromSettings = Effect.fnUntraced(function*(
    settings: Settings
  ): Effect.fn.Return<PaymentsConfig["Service"], PaymentsConfigError> {
    const key = yield* readKey(settings, "PAYMENTS_API_KEY")
    const invoicesKey = yield* readKey(settings, "PAYMENTS_INVOICES_API_KEY")
    const { problems, service } = check(settings, { key, invoicesKey })
    if (service === undefined) return yield* new PaymentsConfigError({ problems })
    const proven = Object.entries(yield* ProvenParameters).map((pair) => pair.join("="))
    // Of two names of a field, the last one counts. A setting may have given a proven name to another field.
    const names = parseInvoiceParameters([...proven, settings.PAYMENTS_INVOICE_PARAMS ?? ""].join(","))
    return Result.isSuccess(names) ? { ...service, invoiceParameters: names.success } : service
  })

  /** Returns the problems of all settings except the keys. Reads no key. */
  static readonly problemsOf = (settings: Settings): ReadonlyArray<ConfigProblem> => check(settings, undefined).problems

  /** Returns `source` of settings whose addresses are valid, or undefined if they have no address. Reads no key. */
  static readonly sourceOf = (settings: Settings): string | undefined => {
    const { PAYMENTS_ACCOUNT: account, PAYMENTS_BASE_URL: base, PAYMENTS_INVOICES_BASE_URL: invoices } = settings
    if (!isSet(base)) return undefined
    const [payments, own] = [checkAddress(base), checkAddress(isSet(invoices) ? invoices : base)]
    return "problem" in payments || "problem" in own ? undefined : sourceText(payments.value, own.value, account)
  }

  /**
   * Reads {@link Settings} from the environment through the current `ConfigProvider`. `PAYMENTS_API_KEY_FILE` can name
   * a file with the key instead of `PAYMENTS_API_KEY`: a plain file of at most 64 KiB. Logs a warning if other users
   * may read that file.
   */
  static readonly fromEnvironment: Effect.Effect<
    PaymentsConfig["Service"],
    PaymentsConfigError,
    FileSystem.FileSystem
  > = Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const secret = (name: string) => Effect.orDie(Config.Redacted(name).pipe(Config.withDefault(undefined)))
    const keyFile = (name: string) =>
      Effect.map(readText(name), (path) => isSet(path) ? makeKeyFile(fs, name, path) : undefined)
    return yield* PaymentsConfig.fromSettings({
      ...yield* readTexts(textSettings),
      PAYMENTS_API_KEY: yield* secret("PAYMENTS_API_KEY"),
      PAYMENTS_API_KEY_FILE: yield* keyFile("PAYMENTS_API_KEY_FILE"),
      PAYMENTS_INVOICES_API_KEY: yield* secret("PAYMENTS_INVOICES_API_KEY"),
      PAYMENTS_INVOICES_API_KEY_FILE: yield* keyFile("PAYMENTS_INVOICES_API_KEY_FILE"),
      ...yield* processSettings
    })
  })

  /** {@link PaymentsConfig.fromEnvironment} as a layer. */
  static readonly layerConfig: Layer.Layer<PaymentsConfig, PaymentsConfigError, FileSystem.FileSystem> = Layer.effect(
    PaymentsConfig,
    PaymentsConfig.fromEnvironment
  )
}

const textSettings = [
  "PAYMENTS_BASE_URL",
  "PAYMENTS_INVOICES_BASE_URL",
  "PAYMENTS_ACCOUNT",
  "PAYMENTS_INVOICE_PARAMS",
  "PAYMENTS_MAX_REQUESTS_PER_SECOND",
  "PAYMENTS_UNCHECKED_FILTERS"
] as const

const readText = (name: string) => Effect.orDie(Config.String(name).pipe(Config.withDefault(undefined)))

const readTexts = <Name extends string>(names: ReadonlyArray<Name>) =>
  Effect.all(Record.fromIterableWith(names, (name) => [name, readText(name)] as const))

/** The settings of the whole process. They come from the environment only. */
export const processSettings: Effect.Effect<
  Pick<Settings, "PAYMENTS_TRACE_HEADERS" | typeof proxyVariables[number]>
> = readTexts(["PAYMENTS_TRACE_HEADERS", ...proxyVariables])

/** A key that was read, and how to read it again. */
interface ReadKey {
  readonly setting: string
  /** Undefined if neither the key nor its source is set. */
  readonly result: Checked<Redacted.Redacted<string>> | undefined
  readonly again: KeySource["read"] | undefined
}

const readKey = Effect.fnUntraced(function*(
  settings: Settings,
  name: "PAYMENTS_API_KEY" | "PAYMENTS_INVOICES_API_KEY"
): Effect.fn.Return<ReadKey> {
  const given = settings[name]
  const source = settings[`${name}_FILE`]
  if (source === undefined) {
    return { setting: name, result: given === undefined ? undefined : checkKey(given), again: undefined }
  }
  const { setting } = source
  if (given !== undefined && Redacted.value(given) !== "") {
    const problem = `and ${setting} are both set: unset one of them`
    return { setting: name, result: { problem }, again: undefined }
  }
  const read = Effect.map(source.read, (key) => "problem" in key ? key : checkKey(key.value))
  const again = Effect.map(read, (key) => "problem" in key ? { problem: `${setting} ${key.problem}` } : key)
  return { setting, result: yield* read, again }
})

/** Checks all settings, and the keys if they are given. */
const check = (settings: Settings, keys: { readonly key: ReadKey; readonly invoicesKey: ReadKey } | undefined) => {
  const problems: Array<ConfigProblem> = []
  const checked = <A>(setting: string, result: Checked<A>): A | undefined => {
    if ("problem" in result) problems.push({ setting, problem: result.problem })
    return "problem" in result ? undefined : result.value
  }
  type TextSetting = Exclude<keyof Settings, `${string}_API_KEY${string}`>
  const read = <A>(setting: TextSetting, checkText: (text: string | undefined) => Checked<A>) =>
    checked(setting, checkText(settings[setting]))
  const baseUrl = read("PAYMENTS_BASE_URL", checkAddress)
  const apiKey = keys && checked(
    keys.key.setting,
    keys.key.result ?? { problem: "PAYMENTS_API_KEY_FILE" in settings ? neither : "is not set" }
  )
  const invoicesBaseUrl = isSet(settings.PAYMENTS_INVOICES_BASE_URL)
    ? read("PAYMENTS_INVOICES_BASE_URL", checkAddress)
    : baseUrl
  const ownInvoicesKey = keys?.invoicesKey.result
  const invoicesApiKey = keys && ownInvoicesKey ? checked(keys.invoicesKey.setting, ownInvoicesKey) : apiKey
  const invoiceParameters = read("PAYMENTS_INVOICE_PARAMS", checkParameters)
  const maxRequestsPerSecond = read("PAYMENTS_MAX_REQUESTS_PER_SECOND", checkRate)
  const uncheckedFilters = read("PAYMENTS_UNCHECKED_FILTERS", checkFilters)
  const traceHeaders = read("PAYMENTS_TRACE_HEADERS", checkSwitch)
  for (const name of proxyVariables) read(name, checkProxy)
  if (
    problems.length > 0 || keys === undefined || baseUrl === undefined || invoicesBaseUrl === undefined ||
    apiKey === undefined || invoicesApiKey === undefined || invoiceParameters === undefined ||
    uncheckedFilters === undefined
  ) {
    return { problems, service: undefined }
  }
  const payments = keys.key.again
  const invoices = ownInvoicesKey === undefined ? payments : keys.invoicesKey.again
  const service: PaymentsConfig["Service"] = {
    baseUrl,
    invoicesBaseUrl,
    apiKey,
    invoicesApiKey,
    freshKey: {
      ...(payments === undefined ? {} : { payments }),
      ...(invoices === undefined ? {} : { invoices })
    },
    invoiceParameters,
    source: sourceText(baseUrl, invoicesBaseUrl, settings.PAYMENTS_ACCOUNT),
    retry: defaultRetryPolicy,
    deadlines: { headers: Duration.seconds(15), stalled: Duration.seconds(20), attempt: Duration.seconds(30) },
    largestBodyBytes: 32 * 1024 * 1024,
    progress: { emptyPages: 1000, repeatedPages: 10 },
    maxRequestsPerSecond,
    slowDown: defaultSlowDown,
    uncheckedFilters,
    traceHeaders: traceHeaders === true
  }
  return { problems, service }
}

const sourceText = (baseUrl: URL, invoicesBaseUrl: URL, account: string | undefined): string =>
  [...new Set([baseUrl.href, invoicesBaseUrl.href]), ...(isSet(account) ? [account] : [])].join(" ")

const isSet = (text: string | undefined): text is string => text !== undefined && text !== ""

const neither = "is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key"

const checkProxy = (address: string | undefined): Checked<undefined> => {
  const problem = proxyProblem(address)
  return problem === undefined ? { value: undefined } : { problem }
}

const checkAddress = (text: string | undefined): Checked<URL> => {
  if (!isSet(text)) return { problem: "is not set" }
  if (!URL.canParse(text)) return { problem: "is not an address such as https://api.example.com" }
  const url = new URL(text)
  if (url.protocol !== "https:" && url.protocol !== "http:") return { problem: "must begin with https://" }
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    return {
      problem: "must begin with https:// (plain http: exposes the key; it is only for localhost, 127.0.0.1 and [::1])"
    }
  }
  if (url.username !== "" || url.password !== "") return { problem: "must not contain a user name or password" }
  if (/[?#]/.test(text)) return { problem: "must not contain a query or fragment" }
  const path = url.pathname.replace(/\/+$/, "")
  if (/\/v[01]$/.test(path)) return { problem: "must not end in /v0 or /v1: the client adds the version" }
  url.pathname = path
  return { value: url }
}

/**
 * Whether the host is a name or address of this machine. Subdomains of `localhost` are excluded: RFC 6761 §6.3 reserves
 * them for this machine, but not every resolver follows it.
 */
const isLoopback = (host: string): boolean => ["localhost", "127.0.0.1", "[::1]"].includes(host)

const checkParameters = (text = ""): Checked<InvoiceParameters> => {
  const parsed = parseInvoiceParameters(text)
  return Result.isSuccess(parsed) ? { value: parsed.success } : { problem: parsed.failure }
}

const checkRate = (text: string | undefined): Checked<number | undefined> => {
  if (!isSet(text)) return { value: undefined }
  const rate = Number(text)
  return Number.isFinite(rate) && rate > 0
    ? { value: rate }
    : { problem: "must be a number above 0, such as 10 or 0.5" }
}

const checkFilters = (text = ""): Checked<PaymentsConfig["Service"]["uncheckedFilters"]> => {
  const known = all.flatMap((list) => Object.keys(list.filters).map((field) => ({ list: list.name, field })))
  const found: { [Name in ListName]?: Array<string> } = {}
  for (const name of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const filter = known.find(({ field, list }) => `${list}.${field}` === name)
    if (filter === undefined) {
      return {
        problem: `must be LIST.FILTER,… from ${known.map(({ field, list }) => `${list}.${field}`).join(", ")}`
      }
    }
    ;(found[filter.list] ??= []).push(filter.field)
  }
  return { value: found }
}

const checkSwitch = (text: string | undefined): Checked<boolean> =>
  !isSet(text) || text === "false"
    ? { value: false }
    : text === "true"
    ? { value: true }
    : { problem: "must be true or false" }
