/** Compares JSON that a program has printed with the schemas of its outputs. Members that no schema has are errors. */
import { Result, Schema } from "effect"

/** Returns why a value is none of the outputs; undefined if it is one of them. `seen` gets the name of the output. */
export const mismatchOf = (
  value: unknown,
  outputs: ReadonlyArray<{ readonly name: string; readonly schema: Schema.Top }>,
  seen?: Set<string>
): string | undefined => {
  const problems: Array<string> = []
  for (const { name, schema } of outputs) {
    // No schema of an output has services.
    const decode = Schema.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>, { onExcessProperty: "error" })
    const result = decode(value)
    if (Result.isSuccess(result)) {
      seen?.add(name)
      return undefined
    }
    problems.push(`${name}: ${result.failure.message}`)
  }
  return `This JSON is no output of the command:\n${JSON.stringify(value)}\n${problems.join("\n")}`
}
