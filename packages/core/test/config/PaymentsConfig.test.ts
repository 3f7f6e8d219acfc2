import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect, FileSystem, Layer, Logger, Redacted } from "effect"
import { PaymentsConfig } from "../../src/index.ts"

const read = (env: Record<string, string>) =>
  PaymentsConfig.use(Effect.succeed).pipe(
    Effect.provide(PaymentsConfig.layerConfig.pipe(
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnvRecord(env))),
      Layer.provide(NodeFileSystem.layer)
    ))
  )

const secret = "canary-5ecret"
const valid = { PAYMENTS_BASE_URL: "https://api.example.com/pay/", PAYMENTS_API_KEY: secret }

describe("PaymentsConfig", () => {
  it.effect("derives defaults from the two required settings", () =>
    Effect.gen(function*() {
      const config = yield* read(valid)
      assert.strictEqual(config.baseUrl.href, "https://api.example.com/pay")
      assert.strictEqual(config.invoicesBaseUrl.href, config.baseUrl.href)
      assert.strictEqual(Redacted.value(config.invoicesApiKey), secret)
      assert.strictEqual(config.invoiceParameters.settlementTime, "settlementTime")
      assert.strictEqual(config.source, "https://api.example.com/pay")
      assert.notInclude(JSON.stringify(config), secret)
    }))

  it.effect("renames parameters, and identifies the source by addresses and account", () =>
    Effect.gen(function*() {
      const config = yield* read({
        ...valid,
        PAYMENTS_INVOICES_BASE_URL: "http://127.0.0.1:9/x",
        PAYMENTS_INVOICES_API_KEY: "other",
        PAYMENTS_ACCOUNT: "north",
        PAYMENTS_INVOICE_PARAMS: " settlementTime=settlementCycle, limit=pageSize "
      })
      assert.deepInclude(config.invoiceParameters, {
        settlementTime: "settlementCycle",
        limit: "pageSize",
        cursor: "cursor"
      })
      assert.strictEqual(config.source, "https://api.example.com/pay http://127.0.0.1:9/x north")
      assert.strictEqual(Redacted.value(config.invoicesApiKey), "other")
    }))

  it.effect("reads the key from a file, without the line break", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(file, `${secret}\n`)
      const config = yield* read({ PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: file })
      assert.strictEqual(Redacted.value(config.apiKey), secret)
      const missing = yield* Effect.flip(read({ PAYMENTS_API_KEY_FILE: `${file}.no` }))
      assert.strictEqual(
        missing.message,
        `PAYMENTS_BASE_URL is not set; PAYMENTS_API_KEY_FILE cannot be used: ${file}.no does not exist`
      )
      yield* fs.writeFileString(file, "\n")
      const empty = yield* Effect.flip(
        read({ PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: file })
      )
      assert.strictEqual(empty.message, "PAYMENTS_API_KEY_FILE names an empty file")
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it.effect("reads the key for invoices from its own file, and reads both files again", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const [file, invoicesFile] = [yield* fs.makeTempFileScoped(), yield* fs.makeTempFileScoped()]
      yield* fs.writeFileString(file, "payments-key")
      yield* fs.writeFileString(invoicesFile, "invoices-key")
      const config = yield* read({
        PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL,
        PAYMENTS_API_KEY_FILE: file,
        PAYMENTS_INVOICES_API_KEY_FILE: invoicesFile
      })
      assert.strictEqual(Redacted.value(config.apiKey), "payments-key")
      assert.strictEqual(Redacted.value(config.invoicesApiKey), "invoices-key")
      yield* fs.writeFileString(invoicesFile, "new-invoices-key")
      const again = yield* config.freshKey.invoices ?? Effect.die("not read again")
      assert.isTrue("value" in again && Redacted.value(again.value) === "new-invoices-key")
      yield* fs.remove(invoicesFile)
      assert.deepStrictEqual(yield* config.freshKey.invoices ?? Effect.die("not read again"), {
        problem: `PAYMENTS_INVOICES_API_KEY_FILE cannot be used: ${invoicesFile} does not exist`
      })
      const both = yield* Effect.flip(
        read({ ...valid, PAYMENTS_INVOICES_API_KEY: "x", PAYMENTS_INVOICES_API_KEY_FILE: file })
      )
      assert.strictEqual(
        both.message,
        "PAYMENTS_INVOICES_API_KEY and PAYMENTS_INVOICES_API_KEY_FILE are both set: unset one of them"
      )
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it.effect("mentions the key file if there is no key, and refuses a key together with a key file", () =>
    Effect.gen(function*() {
      const url = { PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL }
      const neither = yield* Effect.flip(read(url))
      assert.strictEqual(
        neither.message,
        "PAYMENTS_API_KEY is not set, nor is PAYMENTS_API_KEY_FILE, which names a file that contains the key"
      )
      const both = yield* Effect.flip(read({ ...valid, PAYMENTS_API_KEY_FILE: "/run/secrets/key" }))
      assert.strictEqual(
        both.message,
        "PAYMENTS_API_KEY and PAYMENTS_API_KEY_FILE are both set: unset one of them"
      )
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(file, "from the file".replaceAll(" ", "-"))
      const config = yield* read({ ...url, PAYMENTS_API_KEY: "", PAYMENTS_API_KEY_FILE: file })
      assert.strictEqual(Redacted.value(config.apiKey), "from-the-file", "an empty variable counts as missing")
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it.effect("does not repeat a key that was set as the name of the key file", () =>
    Effect.gen(function*() {
      const problems = [
        [secret, "does not exist"],
        [`${secret}/x+y==`, "does not exist"],
        [`/${secret}`, "does not exist"],
        ["/canAry5ecret/4eC39HqLyjWDarjtT1zdp7dc", "does not exist"],
        // Longer than a file name can be, like many signed tokens.
        [secret.repeat(40), "cannot be read (Unknown)"],
        [`${secret}\0`, "cannot be read (BadArgument)"]
      ] as const
      for (const [key, problem] of problems) {
        const error = yield* Effect.flip(
          read({ PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: key })
        )
        assert.strictEqual(error.message, `PAYMENTS_API_KEY_FILE cannot be used: the file that it names ${problem}`)
      }
    }))

  it.effect("names the file that does not exist, also if its folder does not exist", () =>
    Effect.gen(function*() {
      for (const file of ["/no-secrets/payments-key", "~/.payments-key"]) {
        const error = yield* Effect.flip(
          read({ PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: file })
        )
        assert.strictEqual(error.message, `PAYMENTS_API_KEY_FILE cannot be used: ${file} does not exist`)
      }
    }))

  it.effect("warns once if other users may read the key file", () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const file = yield* fs.makeTempFileScoped()
      yield* fs.writeFileString(file, "first-key")
      const warnings: Array<unknown> = []
      const logger = Logger.layer([Logger.make(({ message }) => void warnings.push(message))])
      // Root may let the group read its file, so the file of a test that runs as root gets another owner.
      if (process.getuid?.() === 0) yield* fs.chown(file, 1, 1)
      const readings = [[0o644, 1], [0o640, 1], [0o600, 0], [0o400, 0]] as const
      for (const [mode, expected] of readings) {
        yield* fs.chmod(file, mode)
        warnings.length = 0
        const config = yield* Effect.provide(
          read({ PAYMENTS_BASE_URL: valid.PAYMENTS_BASE_URL, PAYMENTS_API_KEY_FILE: file }),
          logger
        )
        yield* Effect.provide(config.freshKey.invoices ?? Effect.void, logger)
        assert.strictEqual(warnings.length, expected, mode.toString(8))
        if (expected > 0) {
          assert.include(
            String(warnings[0]),
            `PAYMENTS_API_KEY_FILE: other users may read ${file} (mode ${mode.toString(8)})`
          )
        }
      }
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)))

  it.effect.each(
    ["proxy.corp:3128", "10.0.0.1:3128", "//proxy:1", `ftp://user:${secret}@proxy:1`, `http://user:${secret}%@proxy:1`]
  )(
    "refuses the proxy %s in every variable",
    (proxy) =>
      Effect.gen(function*() {
        for (const name of ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"]) {
          const error = yield* Effect.flip(read({ ...valid, [name]: proxy }))
          assert.deepStrictEqual(error.problems.map(({ setting }) => setting), [name])
          assert.include(error.message, "is not the address of a proxy, such as http://proxy.example.com:3128")
          assert.notInclude(error.message, secret)
        }
      })
  )

  it.effect("accepts proxies with a scheme, and ignores an empty variable", () =>
    Effect.asVoid(
      read({
        ...valid,
        HTTPS_PROXY: "http://user:p%40ss@proxy.corp:3128",
        https_proxy: "https://proxy",
        HTTP_PROXY: "socks5://proxy:1080",
        http_proxy: ""
      })
    ))

  it.effect("lists all settings that are missing or wrong, by name", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(read({ PAYMENTS_INVOICES_BASE_URL: "nowhere", PAYMENTS_INVOICE_PARAMS: "x=y" }))
      assert.deepStrictEqual(error.problems.map(({ setting }) => setting), [
        "PAYMENTS_BASE_URL",
        "PAYMENTS_API_KEY",
        "PAYMENTS_INVOICES_BASE_URL",
        "PAYMENTS_INVOICE_PARAMS"
      ])
    }))

  it.effect.each(
    [
      ["ftp://api.example.com", "must begin with https://"],
      ["http://api.example.com", "plain http:"],
      ["http://127.8.9.1", "plain http:"],
      ["http://sandbox.localhost", "plain http:"],
      ["http://localhost.example.com", "plain http:"],
      ["https://api.example.com/pay?", "query or fragment"],
      ["https://api.example.com/pay#", "query or fragment"],
      [`https://user:${secret}@api.example.com`, "user name or password"],
      [`https://api.example.com?key=${secret}`, "query or fragment"],
      ["https://api.example.com/v0", "must not end in /v0 or /v1"],
      ["https://api.example.com/pay/v1/", "must not end in /v0 or /v1"],
      [secret, "is not an address"]
    ] as const
  )("refuses the address %s without repeating it", ([address, problem]) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(read({ ...valid, PAYMENTS_BASE_URL: address }))
      assert.include(error.message, problem)
      assert.notInclude(error.message, secret)
    }))

  it.effect.each(["http://localhost:1", "http://127.0.0.1:3", "http://[::1]:2"])(
    "allows plain http to this machine: %s",
    (address) => Effect.asVoid(read({ ...valid, PAYMENTS_BASE_URL: address }))
  )

  it.effect.each([`${secret} x`, `${secret}\nx`, `${secret}é`])(
    "refuses a key with a character that headers do not allow",
    (key) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(read({ ...valid, PAYMENTS_API_KEY: key }))
        assert.include(error.message, "PAYMENTS_API_KEY contains a character")
        assert.notInclude(error.message, secret)
      })
  )

  it.effect.each(["limit", "limit=", "limit=a=b", "limit=cursor", "size=limit"])(
    "refuses the renaming %s",
    (names) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(read({ ...valid, PAYMENTS_INVOICE_PARAMS: names }))
        assert.include(error.message, "PAYMENTS_INVOICE_PARAMS")
      })
  )
})
