/**
 * Where the service is and how to ask it. Everything missing or wrong is reported at once, by the name of its setting,
 * before any request; no value is ever repeated in a report, since it may hold a secret.
 */
import { Config, Context, Data, Duration, Effect, FileSystem, Layer, Redacted, Result } from "effect"
import { type Checked, fileInEnvironment, type KeyFile } from "./internal/KeyFile.ts"
import { proxyProblem, proxyVariables } from "./internal/ProxyAddress.ts"
import { defaultSlowDown, type SlowDown } from "./internal/RateLimiter.ts"
import { all, type AnyList, type InvoiceParameters, type ListName, parseInvoiceParameters } from "./Lists.ts"
import { defaultRetryPolicy, type RetryPolicy } from "./RetryPolicy.ts"

/** A setting that is missing or wrong. */
export interface ConfigProblem {
  /** The environment variable's name. */
  readonly setting: string
  /** What is wrong, without the value. */
  readonly problem: string
}

/** All settings that are missing or wrong. */
export class PaymentsConfigError extends Data.TaggedError("PaymentsConfigError")<{
  /** All of them, in the order of the settings. */
  readonly problems: ReadonlyArray<ConfigProblem>
}> {
  override get message() {
    return this.problems.map(({ problem, setting }) => `${setting} ${problem}`).join("; ")
  }
}

/** The settings as text, named as in the environment. Empty text counts as missing. */
export interface Settings {
  /** The address of payout requests and payin sources, without `/v0`. */
  readonly PAYMENTS_BASE_URL?: string | undefined
  /** Default: `PAYMENTS_BASE_URL`. */
  readonly PAYMENTS_INVOICES_BASE_URL?: string | undefined
  /** The key of §5. Either this or `PAYMENTS_API_KEY_FILE`, not both. */
  readonly PAYMENTS_API_KEY?: Redacted.Redacted<string> | undefined
  /**
   * Reads what the file holds, or says why it cannot be read. Read again when the service no longer accepts the key.
   * A record of settings that has this member, even undefined, offers it where the key is missing.
   */
  readonly PAYMENTS_API_KEY_FILE?: KeyFile | undefined
  /** Default: `PAYMENTS_API_KEY`. */
  readonly PAYMENTS_INVOICES_API_KEY?: Redacted.Redacted<string> | undefined
  /** A name for whose data this is. */
  readonly PAYMENTS_ACCOUNT?: string | undefined
  /** Renamed query parameters of the invoice list, such as `settlementTime=settlementCycle,limit=pageSize`. */
  readonly PAYMENTS_INVOICE_PARAMS?: string | undefined
  /** Requests per second, all lists together; a number above 0. No ceiling unless set. */
  readonly PAYMENTS_MAX_REQUESTS_PER_SECOND?: string | undefined
  /** Filters whose records are not checked to carry the value asked for, such as `invoices.paymentDate`. */
  readonly PAYMENTS_UNCHECKED_FILTERS?: string | undefined
  /** `true` sends `traceparent` to the service; otherwise it learns nothing of our traces. */
  readonly PAYMENTS_TRACE_HEADERS?: string | undefined
  /** The proxy on the way to `https:` addresses; the Node client reads the variable itself, here it is only checked. */
  readonly HTTPS_PROXY?: string | undefined
  /** As `HTTPS_PROXY`. */
  readonly https_proxy?: string | undefined
  /** The same for `http:` addresses, and for `https:` where those name none. */
  readonly HTTP_PROXY?: string | undefined
  /** As `HTTP_PROXY`. */
  readonly http_proxy?: string | undefined
}

/** How long one attempt at a page may take. */
export interface Deadlines {
  /** Until the headers of the answer: 15 s. */
  readonly headers: Duration.Duration
  /** Between two parts of the body: 20 s. */
  readonly stalled: Duration.Duration
  /** For all of it, the work on the page included: 30 s. */
  readonly attempt: Duration.Duration
}

/** How long a listing is followed that brings nothing new, which an endless list of fresh cursors would be. */
export interface ProgressLimits {
  /** Pages in a row without a record: 1,000. A service that searches long sends many. */
  readonly emptyPages: number
  /** Pages in a row that hold the same records as earlier pages of the listing: 10. Moving data can repeat a few. */
  readonly repeatedPages: number
}

/** Where the service is and how to ask it. */
export class PaymentsConfig extends Context.Service<PaymentsConfig, {
  /** Serves payout requests and payin sources; the version is added to it (§9). */
  readonly baseUrl: URL
  /** Serves invoices; the version is added to it (§9). */
  readonly invoicesBaseUrl: URL
  /** The key for payout requests and payin sources (§5). */
  readonly apiKey: Redacted.Redacted<string>
  /** The key for invoices (§5). */
  readonly invoicesApiKey: Redacted.Redacted<string>
  /**
   * The key anew, where it comes from a file, or why it cannot be read: asked for once when the service no longer
   * accepts the one in use.
   */
  readonly freshKey: { readonly [Address in AnyList["baseAddress"]]?: KeyFile }
  /** The names of the invoice list's query parameters (§4.3). */
  readonly invoiceParameters: InvoiceParameters
  /** Whose data this is: both base addresses and the account's name. A destination belongs to one source. */
  readonly source: string
  /** When and how often a request is tried again. */
  readonly retry: RetryPolicy
  /** How long an attempt may take. */
  readonly deadlines: Deadlines
  /**
   * The largest body that is read, in bytes once inflated: 32 MiB. Whatever its size, a page of more than 1,000 records
   * or 500,000 values is malformed.
   */
  readonly largestBodyBytes: number
  /** How long a listing is followed that brings nothing new. */
  readonly progress: ProgressLimits
  /** All lists together. No ceiling unless given. */
  readonly maxRequestsPerSecond: number | undefined
  /** How much slower all listings of a client ask after a 429, and how they recover. */
  readonly slowDown: SlowDown
  /** By list, the filters whose records are not checked to carry the value asked for. */
  readonly uncheckedFilters: { readonly [Name in ListName]?: ReadonlyArray<string> }
  /** Whether `traceparent` is sent to the service. */
  readonly traceHeaders: boolean
}>()("@payments/core/PaymentsConfig") {
  /** The address of a list: its path below the base address that serves it (§1). */
  static readonly addressOf = (config: PaymentsConfig["Service"], list: AnyList): URL => {
    const base = list.baseAddress === "invoices" ? config.invoicesBaseUrl : config.baseUrl
    return new URL(base.href.replace(/\/$/, "") + list.path)
  }

  /** The keys, by the base address that they are for (§5). */
  static readonly keysOf = (
    config: PaymentsConfig["Service"]
  ): { readonly [Address in AnyList["baseAddress"]]: Redacted.Redacted<string> } => ({
    payments: config.apiKey,
    invoices: config.invoicesApiKey
  })

  /** Checks the settings, all of them, and fails with everything that is wrong. */
  static readonly fromSettings = Effect.fnUntraced(function*(
    settings: Settings
  ): Effect.fn.Return<PaymentsConfig["Service"], PaymentsConfigError> {
    const problems: Array<ConfigProblem> = []
    const checked = <A>(setting: keyof Settings, result: Checked<A>): A | undefined => {
      if ("problem" in result) problems.push({ setting, problem: result.problem })
      return "problem" in result ? undefined : result.value
    }
    const baseUrl = checked("PAYMENTS_BASE_URL", checkAddress(settings.PAYMENTS_BASE_URL))
    const given = keyIn(settings.PAYMENTS_API_KEY)
    const file = settings.PAYMENTS_API_KEY_FILE
    const apiKey = given !== undefined && file !== undefined
      ? checked<Redacted.Redacted<string>>("PAYMENTS_API_KEY", {
        problem: "and PAYMENTS_API_KEY_FILE are both set: unset one of them"
      })
      : file === undefined
      ? checked("PAYMENTS_API_KEY", checkKey(given, "PAYMENTS_API_KEY_FILE" in settings ? neither : undefined))
      : checked("PAYMENTS_API_KEY_FILE", checkFile(yield* file))
    const invoicesBaseUrl = isSet(settings.PAYMENTS_INVOICES_BASE_URL)
      ? checked("PAYMENTS_INVOICES_BASE_URL", checkAddress(settings.PAYMENTS_INVOICES_BASE_URL))
      : baseUrl
    const ownInvoicesKey = settings.PAYMENTS_INVOICES_API_KEY !== undefined
    const invoicesApiKey = ownInvoicesKey
      ? checked("PAYMENTS_INVOICES_API_KEY", checkKey(settings.PAYMENTS_INVOICES_API_KEY))
      : apiKey
    const invoiceParameters = checked(
      "PAYMENTS_INVOICE_PARAMS",
      checkParameters(settings.PAYMENTS_INVOICE_PARAMS ?? "")
    )
    const ceiling = checked("PAYMENTS_MAX_REQUESTS_PER_SECOND", checkRate(settings.PAYMENTS_MAX_REQUESTS_PER_SECOND))
    const unchecked = checked("PAYMENTS_UNCHECKED_FILTERS", checkFilters(settings.PAYMENTS_UNCHECKED_FILTERS ?? ""))
    const traceHeaders = checked("PAYMENTS_TRACE_HEADERS", checkSwitch(settings.PAYMENTS_TRACE_HEADERS))
    for (const name of proxyVariables) checked(name, checkProxy(settings[name]))
    if (
      problems.length > 0 || baseUrl === undefined || invoicesBaseUrl === undefined || apiKey === undefined ||
      invoicesApiKey === undefined || invoiceParameters === undefined || unchecked === undefined
    ) {
      return yield* new PaymentsConfigError({ problems })
    }
    const account = isSet(settings.PAYMENTS_ACCOUNT) ? [settings.PAYMENTS_ACCOUNT] : []
    const fresh = file === undefined ? undefined : Effect.map(file, (result) => {
      const read = checkFile(result)
      return "problem" in read ? { problem: `PAYMENTS_API_KEY_FILE ${read.problem}` } : read
    })
    return {
      baseUrl,
      invoicesBaseUrl,
      apiKey,
      invoicesApiKey,
      freshKey: fresh === undefined ? {} : ownInvoicesKey ? { payments: fresh } : { payments: fresh, invoices: fresh },
      invoiceParameters,
      source: [...new Set([baseUrl.href, invoicesBaseUrl.href]), ...account].join(" "),
      retry: defaultRetryPolicy,
      deadlines: { headers: Duration.seconds(15), stalled: Duration.seconds(20), attempt: Duration.seconds(30) },
      largestBodyBytes: 32 * 1024 * 1024,
      progress: { emptyPages: 1000, repeatedPages: 10 },
      maxRequestsPerSecond: ceiling,
      slowDown: defaultSlowDown,
      uncheckedFilters: unchecked,
      traceHeaders: traceHeaders === true
    }
  })

  /**
   * Reads the environment through the current `ConfigProvider`: {@link Settings}, with `PAYMENTS_API_KEY_FILE` in the
   * place of `PAYMENTS_API_KEY` where the key stands in a file: a plain file of at most 64 KiB. Logs a warning where
   * other users may read that file.
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
        PAYMENTS_API_KEY_FILE: fileInEnvironment(
          yield* FileSystem.FileSystem,
          "PAYMENTS_API_KEY_FILE",
          yield* text("PAYMENTS_API_KEY_FILE")
        ),
        PAYMENTS_INVOICES_API_KEY: yield* secret("PAYMENTS_INVOICES_API_KEY"),
        PAYMENTS_ACCOUNT: yield* text("PAYMENTS_ACCOUNT"),
        PAYMENTS_INVOICE_PARAMS: yield* text("PAYMENTS_INVOICE_PARAMS"),
        PAYMENTS_MAX_REQUESTS_PER_SECOND: yield* text("PAYMENTS_MAX_REQUESTS_PER_SECOND"),
        PAYMENTS_UNCHECKED_FILTERS: yield* text("PAYMENTS_UNCHECKED_FILTERS"),
        PAYMENTS_TRACE_HEADERS: yield* text("PAYMENTS_TRACE_HEADERS"),
        HTTPS_PROXY: yield* text("HTTPS_PROXY"),
        https_proxy: yield* text("https_proxy"),
        HTTP_PROXY: yield* text("HTTP_PROXY"),
        http_proxy: yield* text("http_proxy")
      })
    })
  )
}

const isSet = (text: string | undefined): text is string => text !== undefined && text !== ""

const keyIn = (key: Redacted.Redacted<string> | undefined): Redacted.Redacted<string> | undefined =>
  key === undefined || Redacted.value(key) === "" ? undefined : key

const neither = "is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that holds the key"

const checkProxy = (address: string | undefined): Checked<undefined> => {
  const problem = proxyProblem(address)
  return problem === undefined ? { value: undefined } : { problem }
}

const checkFile = (read: Checked<Redacted.Redacted<string>>): Checked<Redacted.Redacted<string>> =>
  "problem" in read ? read : checkKey(read.value, "names an empty file")

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
    return {
      problem: "must begin with https:// (plain http: shows the key; it is for localhost, 127.0.0.1 and [::1] alone)"
    }
  }
  if (url.username !== "" || url.password !== "") return { problem: "must not hold a user name or password" }
  if (/[?#]/.test(text)) return { problem: "must not hold a query or fragment" }
  const path = url.pathname.replace(/\/+$/, "")
  if (/\/v[01]$/.test(path)) return { problem: "must not end in /v0 or /v1: the version is added to it" }
  url.pathname = path
  return { value: url }
}

/**
 * Whether the host is this machine by its name or address. Names below `localhost` should be too (RFC 6761 §6.3), but
 * not every resolver knows.
 */
const isLoopback = (host: string): boolean => ["localhost", "127.0.0.1", "[::1]"].includes(host)

const checkParameters = (text: string): Checked<InvoiceParameters> => {
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

const checkFilters = (text: string): Checked<PaymentsConfig["Service"]["uncheckedFilters"]> => {
  const known = all.flatMap((list) => Object.keys(list.filters).map((field) => ({ list: list.name, field })))
  const found: { [Name in ListName]?: Array<string> } = {}
  for (const name of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const filter = known.find(({ field, list }) => `${list}.${field}` === name)
    if (filter === undefined) {
      return {
        problem: `must be LIST.FILTER,… out of ${known.map(({ field, list }) => `${list}.${field}`).join(", ")}`
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
