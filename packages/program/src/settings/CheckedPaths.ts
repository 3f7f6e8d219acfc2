/** Checks the paths of fields that a flag names. */
import { type FieldPath, intended } from "@payments/copy"
import { Lists } from "@payments/core"
import { Effect } from "effect"
import { usage } from "../outcome/ProgramError.ts"

/** Fails if a path of `flag` resembles a documented field of the list. */
export const checkPaths = (flag: string, paths: ReadonlyArray<FieldPath>, list: Lists.AnyList) => {
  const documented = Lists.fieldPaths(list)
  const problems = paths.flatMap((path) => {
    if (!path.isQuoted && path.header.includes("*")) {
      return [
        `${flag}: ${path.header} is not the name of a field, and stands for none. Name each field${
          flag === "--fields" ? ", or leave --fields out to print every field" : ""
        }.`
      ]
    }
    const meant = intended(path, documented)
    return meant === undefined
      ? []
      : [
        `${flag}: ${list.title} have no documented field ${path.header}. Did you mean ${meant}? An undocumented field of this name needs double quotes: '"${path.header}"'.`
      ]
  })
  return problems.length === 0 ? Effect.void : Effect.fail(usage(problems.join("\n")))
}
