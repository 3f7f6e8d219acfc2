/**
 * The flags that select from the records that a listing has read: `--fields`, `--where`, `--sort` and `--query`. The service does
 * not know them. Their fields are checked against the document before any request.
 */
import { type FieldPath, mayBePersonal, readPaths } from "@payments/copy"
import { isNumber, Lists } from "@payments/core"
import { checkAll, checkPaths, type CommandExit, setting, type SettingParser, textFlag, usage } from "@payments/program"
import { Context, Effect, Record } from "effect"
import { type Command, Flag } from "effect/cli"
import { isFromFile, valueText } from "../output/ValueText.ts"
import type { JsonQuery } from "./JsonQuery.ts"
import { parseSortKeys, type SortKey } from "./SortKeys.ts"
import { type Condition, conditionSyntax, parseCondition } from "./Where.ts"

/** What a listing prints of the records that it has read. */
export interface Selection {
  /** The fields to print, or undefined for those of the format. */
  readonly fields: ReadonlyArray<FieldPath> | undefined
  readonly conditions: ReadonlyArray<Condition>
  readonly sort: ReadonlyArray<SortKey>
  readonly query: JsonQuery | undefined
}

/** The most memory for the texts of records that `--sort` keeps, in MiB. A query needs several times as much for its values. */
const mostMebibytes = { sort: 512, query: 128 } as const

/** The most bytes of records that `--sort` and `--query` keep. Tests set it. */
export const CollectedLimit = Context.Reference<{ readonly sort: number; readonly query: number }>(
  "@payments/cli/CollectedLimit",
  { defaultValue: () => Record.map(mostMebibytes, (mebibytes) => mebibytes * 1024 * 1024) }
)

/** The flags. The help names the documented fields of the list. */
export const selectionFlags = (list: Lists.AnyList) => ({
  fields: textFlag(
    "fields",
    "FIELDS",
    `print these fields only, such as id,${
      Lists.fieldPaths(list).find((path) => path.includes(".")) ?? "status"
    }; documented: ${Lists.fieldPaths(list).join(", ")}. Other fields are allowed`
  ),
  where: Flag.String("where").pipe(
    Flag.withMetavar("CONDITION"),
    Flag.withDescription(
      `of the records that were read, print those that meet this condition; can be given several times: ${conditionSyntax}. VALUE may be @FILE or @- (stdin)`
    ),
    Flag.atLeast(0)
  ),
  sort: textFlag(
    "sort",
    "FIELDS",
    `sort the records that were read, such as status,amount:desc; keeps them in memory, at most ${mostMebibytes.sort} MiB`
  ),
  query: textFlag(
    "query",
    "JMESPATH",
    `print the result of this JMESPath expression over the array of the records that were read, such as '[].amount | sum(@)'; keeps them in memory, at most ${mostMebibytes.query} MiB of text`
  )
})

type Given = Command.Command.Config.Infer<ReturnType<typeof selectionFlags>>

const fieldsParser: SettingParser<ReadonlyArray<FieldPath>> = {
  expected: "names of fields, separated by commas, such as id,customerDetails.name",
  parse: readPaths
}

const sortParser: SettingParser<ReadonlyArray<SortKey>> = {
  expected:
    "names of fields, separated by commas, each with :desc for the descending order, such as status,amount:desc",
  parse: parseSortKeys
}

const conditionParser: SettingParser<Condition> = { expected: conditionSyntax, parse: parseCondition }

/** Returns the values of conditions that come from a file or stdin. */
export const stdinValues = (where: ReadonlyArray<string>): ReadonlyArray<string> =>
  where.map(parseCondition).flatMap((condition) =>
    condition !== undefined && "value" in condition && !condition.isText ? [condition.value] : []
  )

export const selectionOf = (list: Lists.AnyList, given: Given) =>
  checkAll({
    fields: Effect.tap(
      setting({ name: "fields", text: given.fields }, undefined, fieldsParser),
      (paths = []) => checkPaths("--fields", paths, list)
    ),
    conditions: conditionsOf(list, given.where),
    sort: setting({ name: "sort", text: given.sort }, undefined, sortParser).pipe(
      Effect.map((keys = []) => keys),
      Effect.tap((keys) => checkPaths("--sort", keys.map(({ path }) => path), list))
    ),
    query: given.query === undefined ? Effect.undefined : queryOf(given.query)
  })

/** Parses and checks the conditions. Their values may be in a file or on stdin. A field may have the name of its column too. */
export const conditionsOf = (list: Lists.AnyList, where: ReadonlyArray<string>, columns: ReadonlyArray<string> = []) =>
  Effect.forEach(
    where,
    Effect.fnUntraced(function*(text) {
      const condition = yield* setting({ name: "where", text }, undefined, conditionParser)
      if (condition === undefined) return []
      if (!columns.includes(condition.path.header)) yield* checkPaths("--where", [condition.path], list)
      return "value" in condition ? [yield* withValue(list, condition)] : [condition]
    })
  ).pipe(Effect.map((conditions) => conditions.flat()))

/**
 * Reads the value of a condition if a file or stdin has it. Checks that the value for an amount is a number. Says whether files that
 * the command writes may show it.
 */
const withValue = Effect.fnUntraced(function*(list: Lists.AnyList, condition: Extract<Condition, { value: string }>) {
  const value = condition.isText ? condition.value : yield* valueText("--where", condition.value)
  const { operator, path: { header, names } } = condition
  const isHidden = (!condition.isText && isFromFile(condition.value)) || mayBePersonal(list, names)
  if (
    Lists.amountFields(list).includes(header) && operator !== "~" && !isNumber(value) && value !== "null" &&
    !condition.isText
  ) {
    return yield* usage(
      `--where: ${header} is a number. Write its digits without separators: '${header}${operator}1500'.`
    )
  }
  return { ...condition, value, isHidden }
})

const queryOf = (expression: string): Effect.Effect<JsonQuery, CommandExit> =>
  Effect.flatMap(Effect.promise(() => import("./JsonQuery.ts")), ({ parseJsonQuery }) =>
    Effect.try({
      try: () => parseJsonQuery(expression),
      catch: (error) => usage(`--query: ${error instanceof Error ? error.message : "not valid"}.`)
    }))
