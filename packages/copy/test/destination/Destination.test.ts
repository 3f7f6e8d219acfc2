import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { inspect } from "node:util"
import { Destination } from "../../src/index.ts"

const plain = { format: "ndjson", compress: "none", formulas: "escape" } as const

describe("a destination's text", () => {
  it.effect.each(
    [
      ["sqlite:./payments.db", { _tag: "Sqlite", file: "./payments.db" }],
      ["sqlite:/var/payments.db", { _tag: "Sqlite", file: "/var/payments.db" }],
      ["sqlite:a b 'ñ' %20#.db", { _tag: "Sqlite", file: "a b 'ñ' %20#.db" }],
      ["sqlite:../~/x:y.db", { _tag: "Sqlite", file: "../~/x:y.db" }],
      ["file:./folder/", { _tag: "Files", folder: "./folder/", format: plain }],
      ["-", { _tag: "Stdout" }],
      ["file:./folder", { _tag: "Files", folder: "./folder", format: plain }],
      ["file:/a b/ñ?format=ndjson", { _tag: "Files", folder: "/a b/ñ", format: plain }],
      ["file:x?compress=zstd", { _tag: "Files", folder: "x", format: { ...plain, compress: "zstd" } }],
      ["file:x?format=parquet&compress=gzip", {
        _tag: "Files",
        folder: "x",
        format: { ...plain, format: "parquet", compress: "gzip" }
      }],
      ["file:x?formulas=keep&format=csv", {
        _tag: "Files",
        folder: "x",
        format: { ...plain, format: "csv", formulas: "keep" }
      }]
    ] as const
  )("%s is parsed", ([text, expected]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* Destination.parse(text), { ...expected })
    }))

  it.effect.each([
    "",
    "--",
    "-:",
    "payments.db",
    "sqlite:",
    "file:",
    "file:?format=ndjson",
    "file:x?format=xml",
    "file:x?fmt=ndjson",
    "file:x?format=csv&compress=lz4",
    "file:x?format=csv&format=parquet",
    "file:x?format=parquet&formulas=keep",
    "file:x?__proto__=1",
    "mysql://x",
    "postgres:payments",
    "postgres://user@/x",
    "postgres://h/x?schema=",
    "postgres://h/x?schema=pg_x",
    "postgres://h/x?sslmode=perhaps",
    "postgres://h/x?application=x",
    "postgres://h/x#fragment",
    "postgres://h/%zz"
  ])(
    "%s is refused with the list of valid forms",
    (text) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(Destination.parse(text))
        assert.include(error.message, "sqlite:FILE, postgres://HOST/DATABASE, file:FOLDER")
      })
  )

  /** Invalid texts, and the correction in the error. */
  const corrections: ReadonlyArray<readonly [text: string, correction: string]> = [
    ["sqlite://x.db", "write sqlite:./x.db, or sqlite:/x.db for a path from the root."],
    ["sqlite:///x.db", "write sqlite:./x.db, or sqlite:/x.db for a path from the root."],
    ["sqlite:////var/x.db", "write sqlite:./var/x.db, or sqlite:/var/x.db for a path"],
    ["sqlite://./x.db", "write sqlite:./x.db."],
    ["sqlite:///../x.db", "write sqlite:../x.db."],
    ["sqlite://", "write sqlite:./payments.db."],
    ["sqlite://me:hunter2@h/x.db", "write sqlite:./payments.db."],
    ["file://x", "write file:./x, or file:/x for a path from the root."],
    ["file:///data/x?format=csv", "write file:./data/x, or file:/data/x for a path"],
    ["file:////x", "write file:./x, or file:/x for a path"],
    ["SQLITE:x.db", "Write sqlite:x.db."],
    ["Sqlite:./x.db", "Write sqlite:./x.db."],
    ["SQLite://x.db", "write sqlite:./x.db, or sqlite:/x.db"],
    ["sqlite3:x.db", "Write sqlite:x.db."],
    ["sqlite3:///x.db", "write sqlite:./x.db, or sqlite:/x.db"],
    ["File:./x", "Write file:./x."],
    ["FILE:./x?format=csv", "Write file:./x?format=csv."],
    ["sqlite: x.db", "write sqlite:x.db."],
    ["sqlite:x.db ", "write sqlite:x.db."],
    [" sqlite:x.db", "Write sqlite:x.db."],
    ["file: x", "write file:x."],
    ["sqlite:.\\x.db", "write sqlite:./x.db."],
    ["sqlite:data\\x.db", "write sqlite:data/x.db."],
    ["file:.\\x", "write file:./x."],
    ["sqlite::memory:", "write sqlite:./payments.db."],
    ["sqlite:file:z.db?mode=ro", "write sqlite:z.db."],
    ["sqlite:file:///z.db", "write sqlite:/z.db."],
    ["sqlite:z.db?mode=ro", "write sqlite:z.db."],
    ["sqlite:sqlite:z.db", "write sqlite:z.db."],
    ["file:file:x", "write file:x."],
    ["sqlite:~/x.db", "write sqlite:$HOME/x.db."],
    ["file:~/x", "write file:$HOME/x."],
    ["sqlite:./x/", "write sqlite:x/payments.db."],
    ["sqlite:.", "write sqlite:payments.db."],
    ["sqlite:/", "write sqlite:/payments.db."],
    ["sqlite:x.db-wal", "such as sqlite:./payments.db."],
    ["sqlite:x.db.invoices.lock", "such as sqlite:./payments.db."],
    ["./x.db", "Write sqlite:./x.db."],
    ["x.sqlite3", "Write sqlite:./x.sqlite3."],
    ["a?b.db", "write sqlite:./a. A destination"],
    ["/var/x.db", "Write sqlite:/var/x.db."],
    ["./x", "Write sqlite:./x for a database, or file:./x for a folder of files."],
    ["postgresql:/x", "write postgres://HOST/DATABASE."],
    ["postgres:x", "write postgres://HOST/DATABASE."],
    ["POSTGRES://h/x", "Write postgres://HOST/DATABASE, in lower case."],
    ["psql://h/x", "Write postgres://HOST/DATABASE"],
    ["sqlite:a\nb.db", "a line break or another control character is refused."],
    ["sqlite:a\u0000.db", "control character is refused."],
    ["sqlite:a\u001b[31m.db", "control character is refused."],
    ["sqlite:a\u2028b.db", "a line break or another control character is refused."],
    ["file:a\rb?format=csv", "control character is refused."]
  ]

  it.effect.each(corrections)("%j is refused with the correction: %s", ([text, correction]) =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(Destination.parse(text))
      assert.include(message, correction)
      assert.notMatch(message, /\p{Cc}/u)
      assert.notInclude(message, "hunter2")
    }))

  it.effect("every correction in an error is a valid destination", () =>
    Effect.gen(function*() {
      for (const [text] of corrections) {
        const { message } = yield* Effect.flip(Destination.parse(text))
        const [problem = ""] = message.split(" A destination is ")
        for (
          const [, correction = ""] of problem.matchAll(/\b(?:[Ww]rite|or) ((?:sqlite|file):\S+?)(?=[.,]?(?:\s|$))/g)
        ) {
          assert.notStrictEqual((yield* Destination.parse(correction))._tag, "Stdout", correction)
        }
      }
    }))

  it.effect("a PostgreSQL URL may leave out every part", () =>
    Effect.gen(function*() {
      const defaults = {
        host: undefined,
        port: undefined,
        user: undefined,
        password: undefined,
        database: undefined,
        schema: "payments",
        sslMode: undefined,
        sslRootCert: undefined
      }
      for (
        const [text, expected] of [
          ["postgres://db.example:6432/reports?schema=payments%202", {
            host: "db.example",
            port: 6432,
            database: "reports",
            schema: "payments 2"
          }],
          ["postgresql://me%40here@[::1]/a%2Fb", { host: "::1", user: "me@here", database: "a/b" }],
          ["postgres:///?host=/run/postgresql&user=me&sslmode=require&sslrootcert=ca.pem", {
            host: "/run/postgresql",
            user: "me",
            sslMode: "require",
            sslRootCert: "ca.pem"
          }],
          ["postgres://", {}]
        ] as const
      ) {
        assert.deepStrictEqual(yield* Destination.parse(text), { _tag: "Postgres", url: { ...defaults, ...expected } })
      }
    }))

  it.effect.each([
    "postgres://me:hunter2@h/x",
    "postgres://h/x?password=hunter2",
    // Passwords with unescaped characters, so that a part of the password looks like another part of the URL.
    "postgres://me:1/hunter2@h/x",
    "postgres://me:1?hunter2@h/x",
    "postgres://me:1#hunter2@h/x",
    "postgres://me:hunter2%@h/x"
  ])("%s is refused as an argument, and the error does not repeat it", (text) =>
    Effect.gen(function*() {
      assert.notInclude((yield* Effect.flip(Destination.parse(text))).message, "hunter2")
    }))

  it.effect("a URL from the environment may contain a password, which is not shown", () =>
    Effect.gen(function*() {
      const destination = yield* Destination.parse("postgres://me:p%2Fw@h/x", "environment")
      assert.deepStrictEqual(
        destination._tag === "Postgres" && destination.url.password && Redacted.value(destination.url.password),
        "p/w"
      )
      assert.notInclude(inspect(destination, { depth: 9 }), "p/w")
    }))

  it.effect("is carried to a thread, with a password that is redacted on both sides", () =>
    Effect.gen(function*() {
      const texts = [
        "sqlite:a.db",
        "file:a?format=csv&compress=gzip",
        "postgres://u:p%40ss@h:1/d?schema=s&sslmode=require"
      ]
      for (const text of texts) {
        const destination = yield* Destination.parse(text, "environment")
        assert(Destination.isStored(destination))
        const back = Destination.fromMessage(structuredClone(Destination.toMessage(destination)))
        assert.deepEqual(back, destination)
        assert.notInclude(JSON.stringify(back), "p@ss")
        if (back._tag === "Postgres") {
          assert.strictEqual(back.url.password === undefined ? "" : Redacted.value(back.url.password), "p@ss")
        }
      }
    }))
})
