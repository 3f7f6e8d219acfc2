/** Checks the settings of hand-offs that match the schema. No message repeats a value. */
import { urlProblem } from "@payments/copy/handoff"
import { Lists } from "@payments/core"
import type { HandoffSettings, SourceSettings } from "./SourceSchema.ts"

/** The ways to get the keys of a hand-off, one of which is set. */
export const secretSettings = ["secret_file", "secret_env", "secret_command"] as const

export interface HandoffProblem {
  readonly consumer: string
  /** Undefined: the table of the consumer. */
  readonly setting: keyof HandoffSettings | undefined
  /** A phrase that follows the name of the setting, and ends its sentence. */
  readonly problem: string
}

/** Returns all mistakes of the hand-offs of a source. */
export const handoffProblems = ({ handoff = {}, lists }: SourceSettings): ReadonlyArray<HandoffProblem> => {
  const ofSource = lists ?? Lists.all.map(({ label }) => label)
  return Object.entries(handoff).flatMap(([consumer, settings]) =>
    [...lacksOf(settings), ...wrongIn(settings, ofSource)].map((found) => ({ consumer, ...found }))
  )
}

type Problem = Omit<HandoffProblem, "consumer">

const lacksOf = (settings: HandoffSettings): ReadonlyArray<Problem> => {
  const [first, second] = secretSettings.filter((name) => settings[name] !== undefined)
  return [
    ...settings.url === undefined ? [{ setting: undefined, problem: "has no url." }] : [],
    ...first === undefined
      ? [{ setting: undefined, problem: "has no secret. Set secret_file, secret_env or secret_command." }]
      : [],
    ...second === undefined
      ? []
      : [{ setting: second, problem: `and ${first} are both set. Set one of them.` }]
  ]
}

const wrongIn = (
  { allow_private: allowPrivate = false, lists = [], proxy, url: text }: HandoffSettings,
  ofSource: ReadonlyArray<string>
): ReadonlyArray<Problem> => {
  const url = text === undefined ? undefined : new URL(text)
  const given = proxy === undefined ? undefined : proxyOf(proxy)
  const problem = url === undefined ? undefined : urlProblem({ url, allowPrivate, proxy: given })
  const others = lists.filter((list) => !ofSource.includes(list))
  return [
    ...problem === undefined ? [] : [{ setting: "url" as const, problem: `cannot be used: ${problem}.` }],
    ...others.length === 0
      ? []
      : [{ setting: "lists" as const, problem: `names ${others.join(", ")}, which the source does not copy.` }],
    ...proxy === undefined || given !== undefined
      ? []
      : [{ setting: "proxy" as const, problem: "must be http://HOST:PORT, without a user name or a password." }],
    ...given === undefined || url?.protocol !== "http:" || problem !== undefined
      ? []
      : [{
        setting: "proxy" as const,
        problem: "is not used for http://, which goes to this machine. Remove it, or use https://."
      }]
  ]
}

/** Returns undefined for a text that is no address of an HTTP proxy. */
export const proxyOf = (text: string): URL | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isProxy = url?.protocol === "http:" && url.href === `${url.origin}/`
  return isProxy ? url : undefined
}
