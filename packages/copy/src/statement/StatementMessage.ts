/**
 * What people read of a database's message about their statement. A message can repeat a value of a row, quoted or not.
 * So three kinds of words are shown: names in the statement, names of tables and columns, and, outside quotes, the
 * words below. Everything else is an ellipsis, in every language of the server.
 */
import { printable } from "../text/Printable.ts"
import { tables } from "./Tables.ts"

/** The words that SQLite and PostgreSQL use in messages about statements. None is worth hiding if it is a value. */
const databaseWords = `
  a abort access after aggregate aggregates alias all allowed already ambiguous an and any appear are argument arguments
  array as assigned at authorized available bad base be because before between beyond big bigint bind blob blobs block
  boolean both but by bytea call called calls can cannot cast char character characters clause clauses code coerced collation
  collations column columns combined command commands common comparison complex composite condition configuration conflicting
  constant constraint contain contains context conversion convert copy correlated could create cross cte current cursor data
  database datatype date day declare declared deep default define defined delete denied depth determine determined dictionary
  different distinct division do does double drop duplicate during each either element elements else empty encoding end
  ending enough enum equal error escape even exceeds execute executed exist exists expected expression expressions extra
  failed field fields filter find first float following for format found frame from full function functions generated given
  greater group grouped grouping hash have having hint hold identifier identity immutable implemented implicit implicitly in
  incomplete index inheritance inner input insert inside integer integers internal into invalid is it item items its join
  json jsonb jsonpath key keys labels large lateral least left length less level levels limit list lists literal locale lock
  logic long lower main malformed many match matches materialized maximum may mismatch missing misuse modify modifying more
  multiple must name named names natural near negative nested no non nondeterministic not null number numbering numbers
  numeric object objects odd of offset on once one only operation operator operators option optional or order ordering other
  out outer output over overflow parameter parse parser partition path pattern permission polymorphic position positive
  preceding precision prefix prepared present privilege privileges procedure qualified query quotes range reached read reads
  real record recursion recursive reference referenced references refers relation requested required restricted result
  results return returned returns right role row rows same scalar schema search second select selected selects sequence set
  sets should side signature single size smallint specification specified specify sql stack starting state statement
  statements storage string sub subquery such supported syntax system table tables take target term terms text than that the
  there this time timestamp timestamptz to token tokens too transaction transform tree trigger two type types unable
  undefined union unique unknown unrecognized unsafe unterminated updatable upper use used user uses using uuid valid value
  values variable variadic vary varying view views volatile wal was when where window windows with within without write wrong
  xml you zero zone`

const unquotedWords: ReadonlySet<string> = new Set(databaseWords.trim().split(/\s+/))

const names: ReadonlySet<string> = new Set(
  tables.flatMap(({ columns, name }) => [name, ...columns.map((column) => column.name)])
)

/** Quoted text, or the rest of the message after a mark that is not closed. */
const quotedText = /(["'])((?:(?!\1)[^]|\1\1)*)(?:\1|$)/g

/** A name, also with the names of its table and schema. Other text of a statement is a value: a person's name or a number. */
const name = /^[A-Za-z_][\w.$]*$/

/** A word: every character but white space and ASCII's punctuation. A name in SQL is one word for each of its parts. */
const words = /[^\s!-/:-@[-^`{-~]+/g

const mask = "…"

/** Masked words, and what stands between them. */
const masked = /…(?:[^\p{L}\p{N}…]*…)*/gu

const maxLength = 300

/** Returns the first line of a database's message about the statement, without any word that may be a value. */
export const shownMessage = (message: string, sql: string): string => {
  const typed = new Set(sql.toLowerCase().match(words)?.filter((word) => name.test(word)))
  const isSafe = (word: string) => typed.has(word) || names.has(word)
  const maskUnless = (text: string, isShown: (word: string) => boolean) =>
    text.replaceAll(words, (word) => word === mask || isShown(word.toLowerCase()) ? word : mask)
  const shown = maskUnless(
    message.replaceAll(
      quotedText,
      (text, _, inside: string) => maskUnless(text, (word) => name.test(inside) && isSafe(word))
    ),
    (word) => isSafe(word) || unquotedWords.has(word)
  )
  const [first = ""] = shown.replaceAll(masked, mask).split("\n")
  return printable(first).slice(0, maxLength)
}
