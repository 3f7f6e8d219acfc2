/** Who runs a command that keeps a protocol. */
import { Effect } from "effect"
import { userInfo } from "node:os"
import { type CommandExit, usage } from "../outcome/ProgramError.ts"
import { textFlag } from "../settings/Flags.ts"

/** `--by`; `does` says what the person does, such as `erases`. */
export const byFlag = (does: string) =>
  textFlag("by", "NAME", `who ${does}, for the protocol; without it the user of this machine`)

const longestName = 100

/** Returns the name in `--by`, or that of the user. */
export const personOf = (given: string | undefined): Effect.Effect<string, CommandExit> => {
  const name = given ?? userOfSystem()
  return name.trim() === "" || name.length > longestName || /\p{C}/u.test(name)
    ? Effect.fail(usage(`Invalid value for --by. Expected: a name of 1 to ${longestName} characters`))
    : Effect.succeed(name)
}

/** Returns the name of the user who runs this process. In a container, the user may have no name. */
const userOfSystem = (): string => {
  try {
    return userInfo().username
  } catch {
    return `user ${process.getuid?.() ?? "unknown"}`
  }
}
