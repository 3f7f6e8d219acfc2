/** What a tool is, and how its arguments are checked. */
import type { Destination, QueryError } from "@payments/copy"
import type { ListOperations } from "@payments/core"
import type { ProgramError } from "@payments/program"
import { Data, Effect, Schema, SchemaIssue } from "effect"
import type { Answer } from "./Answer.ts"
import type { Visibility } from "./Visibility.ts"

export interface Sources {
  /** The service. Its settings are read by the first call that needs them. */
  readonly api: Effect.Effect<ListOperations, ProgramError>
  readonly destination: Destination.StoredDestination | undefined
  readonly visibility: Visibility
  /** The final states of each list, if the settings name them. */
  readonly finalStates?: { readonly [label: string]: ReadonlyArray<string> | undefined } | undefined
}

/** The call cannot be carried out. The message says what to change, and repeats no value. */
export class Refused extends Data.TaggedError("Refused")<{ readonly problem: string }> {}

export type ToolError = Refused | QueryError | ProgramError

export interface Tool {
  readonly name: string
  readonly description: string
  readonly parameters: Schema.Top
  readonly call: (given: unknown) => Effect.Effect<Answer, ToolError>
}

/** Makes a tool. Unknown arguments are refused, so that a misspelled filter never selects everything. */
export const define = <Parameters>(
  name: string,
  description: string,
  parameters: Schema.Codec<Parameters, unknown>,
  call: (given: Parameters) => Effect.Effect<Answer, ToolError>
): Tool => {
  const decode = Schema.decodeUnknownEffect(parameters, { onExcessProperty: "error", errors: "all" })
  return {
    name,
    description,
    parameters,
    call: (given) =>
      decode(given ?? {}).pipe(
        Effect.mapError(({ issue }) => new Refused({ problem: explain(issue) })),
        Effect.flatMap(call)
      )
  }
}

const format = SchemaIssue.makeFormatterStandardSchemaV1()

const explain = (issue: SchemaIssue.Issue): string =>
  format(issue).issues.map(({ message, path }) =>
    `${(path ?? []).map((part) => String(typeof part === "object" ? part.key : part)).join(".")}: ${message}`
  ).join("\n")

/** Returns the destination, or fails because the server has none. */
export const requireDestination = ({ destination }: Sources) =>
  destination === undefined
    ? Effect.fail(
      new Refused({
        problem:
          "This server has no copy to read. Start it with `payments mcp --from DESTINATION`, or use the tool list."
      })
    )
    : Effect.succeed(destination)

export const wholeNumber = (minimum: number, maximum: number, description: string) =>
  Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum, maximum })).annotate({ description }))

/** A point of the copy's history. Agents often write the number of a change as a number. */
export const pointArgument = (description: string) =>
  Schema.optionalKey(
    Schema.Union([Schema.String, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))])
      .annotate({ description })
  )
