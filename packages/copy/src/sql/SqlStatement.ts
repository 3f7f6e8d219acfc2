/**
 * Statements that both databases run. A statement exists once; where the databases differ, both texts stand side by
 * side. This room has the questions to a destination and the writes. It imports `store`, `plan` and `port`, but no
 * database.
 */
import { Effect, Record } from "effect"
import { SinkError, type SinkReason } from "../port/Sink.ts"
import type { Row } from "../store/StoredRows.ts"

/** Booleans are 1 and 0. */
export type Value = string | number | Uint8Array | null

/** PostgreSQL's types of parameters. SQLite gets the values without a type. */
export type ValueType = "text" | "bigint" | "boolean" | "json" | "timestamptz" | "bytea" | "tid"

/** A value, or a list of values, that is sent next to the statement. */
export type Parameter =
  | { readonly type: ValueType; readonly value: Value }
  | { readonly type: ValueType; readonly list: ReadonlyArray<Value> }

export interface Style {
  readonly dialect: "sqlite" | "postgres"
  /** The schema of the tables, as SQL writes it. */
  readonly schema: string
  readonly parameter: (number: number, parameter: Parameter) => string
}

/** A statement, or part of one. */
export class Statement {
  readonly texts: ReadonlyArray<string>
  readonly parts: ReadonlyArray<Part>
  constructor(texts: ReadonlyArray<string>, parts: ReadonlyArray<Part> = []) {
    this.texts = texts
    this.parts = parts
  }
}

/** A part of a statement. Texts and numbers become parameters. A function writes what differs between the databases. */
type Part = Statement | Given | Parameter | string | number | null | ((style: Style) => Statement | string)

export const sql = (texts: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Statement =>
  new Statement(texts, parts)

/** Makes a part from a text of the program itself. */
export const raw = (text: string): Statement => new Statement([text])

const part = (one: Part): Statement => new Statement(["", ""], [one])

export const either = (sqlite: Statement | string, postgres: Statement | string): Statement =>
  part(({ dialect }) => dialect === "sqlite" ? sqlite : postgres)

/** The schema of the tables. SQLite calls that of an open file `main`. */
export const schema: Statement = part((style) => style.schema)

export const join = (parts: ReadonlyArray<Statement>, separator = ", "): Statement =>
  new Statement(["", ...parts.map((_, index) => index === parts.length - 1 ? "" : separator)], parts)

/** Quotes a name for SQL. */
export const quoted = (name: string): string => `"${name.replaceAll("\"", "\"\"")}"`

const typed = (type: ValueType) => (value: Value): Statement => part({ type, value })

/** A parameter with the text of a JSON value. */
export const json = typed("json")
export const time = typed("timestamptz")
/** A parameter with an integer or null. */
export const integer = typed("bigint")

const isOneOf = (type: ValueType) => (list: ReadonlyArray<Value>): Statement =>
  either(sql`IN (SELECT value FROM json_each(${{ type, list }}))`, sql`= ANY (${{ type, list }})`)

/** A condition: the text before it is one of these. */
export const isOneOfTexts = isOneOf("text")
/** A condition: the integer before it is one of these. */
export const isOneOfIntegers = isOneOf("bigint")

/** They can be made once for statements that each commit runs. */
export class GivenColumns {
  readonly types: ReadonlyArray<ValueType>
  /** SQLite's parameter of each column. */
  readonly numbers: ReadonlyMap<string, string>
  constructor(columns: { readonly [name: string]: ValueType }) {
    this.types = Object.values(columns)
    this.numbers = new Map(Object.keys(columns).map((name, index) => [name, `?${index + 1}`]))
  }
}

/**
 * Rows to write. SQLite runs the statement for each of them. PostgreSQL runs it once, over arrays, because each run
 * waits for the server. Without rows, the statement does not run. As a part, it is PostgreSQL's `FROM`.
 */
export class Given {
  readonly #columns: GivenColumns
  readonly rows: ReadonlyArray<ReadonlyArray<Value>>
  constructor(columns: GivenColumns | { readonly [name: string]: ValueType }, rows: Given["rows"]) {
    this.#columns = columns instanceof GivenColumns ? columns : new GivenColumns(columns)
    this.rows = rows
  }

  get width(): number {
    return this.#columns.types.length
  }

  #name(name: string, { dialect }: Style): string {
    return dialect === "sqlite" ? this.#columns.numbers.get(name) ?? "" : `given.${quoted(name)}`
  }

  cell(name: string): Statement {
    return part((style) => this.#name(name, style))
  }

  cells(names: ReadonlyArray<string>): Statement {
    return part((style) => names.map((name) => this.#name(name, style)).join(", "))
  }

  /** The values to insert. SQLite takes 20 % more time for a `SELECT` of them. */
  values(values: Statement): Statement {
    return sql`${either("VALUES (", "SELECT ")}${values}${either(")", "")} ${this}`
  }

  /** Assignments of the values to columns of the same names. */
  set(names: ReadonlyArray<string>): Statement {
    return part((style) => names.map((name) => `${quoted(name)} = ${this.#name(name, style)}`).join(", "))
  }

  /** The rows, each with its number as `nth`. */
  get from(): Statement {
    const { numbers, types } = this.#columns
    const names = [...[...numbers.keys()].map(quoted), "nth"]
    const arrays = types.map((type, index) => part({ type, list: this.rows.map((row) => row[index] ?? null) }))
    return sql`FROM unnest(${join(arrays)}) WITH ORDINALITY AS given (${raw(names.join(", "))})`
  }
}

/** A statement as a database gets it. With `rows`, SQLite runs it for each of them, and their values come first. */
export interface Rendered {
  readonly text: string
  readonly parameters: ReadonlyArray<Parameter>
  readonly rows: Given["rows"] | undefined
}

export const render = (statement: Statement, style: Style): Rendered => {
  const written = givenIn(statement)
  const first = style.dialect === "sqlite" ? written?.width ?? 0 : 0
  const parameters: Array<Parameter> = []
  const add = (parameter: Parameter) => style.parameter(first + parameters.push(parameter), parameter)
  const write = (one: Part): string => {
    if (one instanceof Statement) {
      return one.texts.reduce((text, next, index) => text + write(one.parts[index - 1] ?? null) + next)
    }
    if (one instanceof Given) return style.dialect === "sqlite" ? "" : write(one.from)
    if (typeof one === "function") {
      const text = one(style)
      return typeof text === "string" ? text : write(text)
    }
    if (typeof one === "object" && one !== null) return add(one)
    return add({ type: typeof one === "number" ? "bigint" : "text", value: one })
  }
  return { text: write(statement), parameters, rows: written?.rows }
}

export const givenIn = ({ parts }: Statement): Given | undefined => {
  for (const one of parts) {
    const found = one instanceof Given ? one : one instanceof Statement ? givenIn(one) : undefined
    if (found !== undefined) return found
  }
  return undefined
}

/** Runs statements; in a transaction, those of the transaction. */
export interface Sql {
  /** The location of the destination, for errors. */
  readonly location: string
  readonly dialect: Style["dialect"]
  /** Converts the rows of a statement. Fails with `Damaged` if `convert` throws it. */
  readonly read: <A>(
    statement: Statement,
    convert: (rows: ReadonlyArray<Row>) => A
  ) => Effect.Effect<A, SinkError>
  /** Does the same, but SQLite returns integers that JavaScript rounds as `bigint`, instead of failing. */
  readonly readExact: Sql["read"]
  readonly all: (statement: Statement) => Effect.Effect<ReadonlyArray<Row>, SinkError>
  readonly run: (statement: Statement) => Effect.Effect<void, SinkError>
  /**
   * Returns the first rows of a statement, which is sorted by `place`. It returns at least one, at most `count`, and
   * only until these texts exceed `maxBytes` of `Store.ts`. `isWhole`: there are no more.
   */
  readonly first: (
    statement: Statement,
    limit: {
      readonly count: number
      /** The columns besides `place`. */
      readonly columns: ReadonlyArray<string>
      readonly texts: ReadonlyArray<string>
    }
  ) => Effect.Effect<{ readonly rows: ReadonlyArray<Row>; readonly isWhole: boolean }, SinkError>
}

/** An open database that a program reads, and changes in short transactions. */
export interface SqlDatabase extends Sql {
  /**
   * Runs a body as one transaction. If the connection is lost, the body is run again. In PostgreSQL, the removal of
   * changes and rows excludes the other transactions with its exclusive lock. SQLite has one writer at a time.
   */
  readonly transaction: <A>(
    lock: "shared" | "exclusive",
    body: (db: Sql) => Effect.Effect<A, SinkError>
  ) => Effect.Effect<A, SinkError>
  /** SQL for the identity of the server, or for NULL. */
  readonly origin: Effect.Effect<Statement, SinkError>
}

/** A statement that reads, and what its rows say. */
export interface Question<out A> {
  readonly statement: Statement
  readonly answer: (rows: ReadonlyArray<Row>) => A
}

export const question = <A>(statement: Statement, answer: Question<A>["answer"]): Question<A> => ({ statement, answer })

export const ask = <A>(db: Sql, { answer, statement }: Question<A>): Effect.Effect<A, SinkError> =>
  db.read(statement, answer)

type Answers<Questions> = { readonly [Name in keyof Questions]: Questions[Name] extends Question<infer A> ? A : never }

/**
 * Asks several questions. In PostgreSQL they are one statement, because each statement waits for the server. Their values
 * pass through JSON there: texts, booleans, and integers up to 2^53.
 */
export const askTogether = <Questions extends { readonly [name: string]: Question<unknown> }>(
  db: Sql,
  questions: Questions
): Effect.Effect<Answers<Questions>, SinkError> => {
  const answers = db.dialect === "sqlite"
    ? Effect.all(Record.map(questions, (one) => ask(db, one)))
    : db.read(
      sql`SELECT ${
        join(
          Object.entries(questions).map(([name, { statement }]) =>
            sql`(SELECT coalesce(json_agg(one), '[]') FROM (${statement}) AS one)::text AS ${raw(quoted(name))}`
          )
        )
      }`,
      ([row]) => Record.map(questions, ({ answer }, name) => answer(JSON.parse(String(row?.[name]))))
    )
  return answers as Effect.Effect<Answers<Questions>, SinkError> // each name has the answer to its question
}

/** Returns the first row of a statement. */
export const rowOf = ({ all }: Pick<Sql, "all">, statement: Statement): Effect.Effect<Row | undefined, SinkError> =>
  Effect.map(all(statement), ([row]) => row)

export const fail = ({ location }: Pick<Sql, "location">, reason: SinkReason): Effect.Effect<never, SinkError> =>
  Effect.fail(new SinkError({ location, reason }))
