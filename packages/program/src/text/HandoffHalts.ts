/** What a person can do about a hand-off that stands still: the same in the log, on the status page and in commands. */
import type { HandoffReason } from "@payments/copy/handoff"

/** A hand-off that is stopped, or that waits for a decision. */
export interface Halted {
  readonly consumer: string
  readonly state: "stopped" | "waiting"
  readonly reason: HandoffReason | null
  /** The number of the refused change. */
  readonly seq: number | null
}

const words: { readonly [reason in HandoffReason]: string } = {
  gone: "the receiver wants no more changes (410)",
  gaveUp: "the receiver has not accepted a batch for too long",
  restored: "the destination was restored, so the consumer has to say where it stands",
  removed: "changes after its position were removed",
  refused: "the receiver refuses a change",
  full: "as many changes are set aside as are allowed"
}

/** What has happened, as the rest of a sentence that begins with the hand-off. */
export const haltText = ({ reason, seq, state }: Halted): string => {
  const about = seq === null ? "" : ` about change ${seq}`
  const what = state === "waiting" ? `waits for a decision${about}` : "is stopped"
  return reason === null ? what : `${what}: ${words[reason]}`
}

/** A command, after the word that joins it to the one before. */
export interface HaltCommand {
  readonly joint: "" | "or" | "then"
  readonly command: string
}

/** What a person runs to let a hand-off go on. `place`: the flag that names the source or the destination. */
export const haltCommands = ({ consumer, reason, seq }: Halted, place: string): ReadonlyArray<HaltCommand> => {
  const resume = `payments handoff resume ${consumer} ${place}`
  // The list names a change to decide about.
  if (reason === "full" && seq === null) return [{ joint: "", command: `payments handoff list ${place}` }]
  switch (reason) {
    case "full":
    case "refused":
      return [
        { joint: "", command: resume },
        { joint: "or", command: `payments handoff skip ${consumer} ${seq ?? "SEQ"} --reason TEXT ${place}` }
      ]
    case "restored":
    case "removed": {
      const generation = reason === "restored" ? " --generation GENERATION" : ""
      return [
        { joint: "", command: `payments changes ack ${consumer} SEQ${generation} ${place}` },
        { joint: "then", command: resume }
      ]
    }
    default:
      return [{ joint: "", command: resume }]
  }
}

/** The commands, as one text. */
export const haltAdvice = (halted: Halted, place: string): string =>
  haltCommands(halted, place).map(({ command, joint }) => joint === "" ? command : `, ${joint} ${command}`).join("")
