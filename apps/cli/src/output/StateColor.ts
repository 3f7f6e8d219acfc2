/**
 * The colour of a state in a table. The API's document does not list the states (§3), so the colour follows the usual meaning of
 * the word. A state with an unknown word has no colour.
 */
import { styleText } from "node:util"

const words = {
  green: ["paid", "completed", "complete", "succeeded", "settled", "authorized", "active", "approved", "done", "ok"],
  yellow: [
    "pending",
    "processing",
    "created",
    "scheduled",
    "submitted",
    "queued",
    "onhold",
    "waiting",
    "running",
    "warning"
  ],
  red: ["failed", "rejected", "declined", "expired", "cancelled", "canceled", "reversed", "refused", "error"]
} as const

const colors: ReadonlyMap<string, keyof typeof words> = new Map(
  (["green", "yellow", "red"] as const).flatMap((color) => words[color].map((word) => [word, color] as const))
)

/** Returns the shown text of a state with the escape sequences of its colour. */
export const colored = (shown: string, state: string): string => {
  const color = colors.get(state.toLowerCase().replaceAll(/[ _-]/g, ""))
  // The caller has decided whether stdout gets colours.
  return color === undefined ? shown : styleText(color, shown, { validateStream: false })
}
