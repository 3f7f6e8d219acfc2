/** The rule for personal fields of a source, with its key: from the sources file or the environment. */
import type { PersonalRule } from "@payments/copy"
import { type Checked, type ConfigProblem, type KeySource, makeKeyFile, PaymentsConfigError } from "@payments/core"
import { Effect, FileSystem, Redacted } from "effect"
import type { SettingParser } from "../settings/Parsers.ts"
import { variableText } from "../settings/Setting.ts"
import { allSettings } from "../settings/SettingTable.ts"
import type { FileSource } from "./FileSource.ts"
import type { Source } from "./Source.ts"
import { needsKey, ruleOf, type RuleSettings } from "./SourceRule.ts"
import { keyInVariable, keySourceOf } from "./SourceService.ts"

type Personal = Source["personal"]

/** The settings of the source must have no mistakes. */
export const personalInFile = (file: string, source: FileSource, fs: FileSystem.FileSystem): Personal => {
  const { rule } = ruleOf(source.settings, true)
  const key = keySourceOf(file, source, fs, "personal_key")
  return key === undefined ? Effect.succeed(rule) : withKey(rule, key)
}

const withKey = (rule: PersonalRule, { read, setting }: KeySource): Personal =>
  Effect.flatMap(read, (found): Personal => {
    const checked = "problem" in found ? found : checkKey(found.value)
    return "problem" in checked
      ? new PaymentsConfigError({ problems: [{ setting, problem: checked.problem }] })
      : Effect.succeed({ ...rule, key: checked.value })
  })

/** The length of the shortest key, in characters: 128 random bits in hexadecimal digits. */
const shortestKey = 32

/** The key of the HMAC is the UTF-8 of the text. */
const checkKey = (key: Redacted.Redacted<string>): Checked<Redacted.Redacted<Uint8Array>> =>
  Redacted.value(key).length < shortestKey
    ? { problem: `has fewer than ${shortestKey} characters. Make a key: openssl rand -hex 32` }
    : { value: Redacted.make(new TextEncoder().encode(Redacted.value(key))) }

const keyVariable = allSettings.keys.personal_key.variable
const keyFileVariable = allSettings.source.personal_key_file.variable

/** Reads the rule without its key. Fails with all mistakes. */
export const ruleInEnvironment: Personal = Effect.gen(function*() {
  const problems: Array<ConfigProblem> = []
  const read = Effect.fnUntraced(function*<A>(
    { type: { expected, parse }, variable }: { readonly type: SettingParser<A>; readonly variable: string }
  ) {
    const text = yield* variableText(variable)
    const value = text === undefined ? undefined : parse(text)
    if (text !== undefined && value === undefined) {
      problems.push({
        setting: variable,
        problem: text === "" ? `is empty. Unset it, or give ${expected}` : `must be ${expected}`
      })
    }
    return value
  })
  const rows = allSettings.source
  const rule: RuleSettings = {
    personal: yield* read(rows.personal),
    omit: yield* read(rows.omit),
    pseudonymize: yield* read(rows.pseudonymize),
    keep: yield* read(rows.keep),
    undocumented: yield* read(rows.undocumented)
  }
  const hasKey = (yield* variableText(keyVariable)) !== undefined ||
    (yield* variableText(keyFileVariable)) !== undefined
  const checked = ruleOf(rule, hasKey)
  for (const { problem, setting } of checked.problems) {
    problems.push({
      setting: rows[setting].variable,
      problem: problem === needsKey ? `${problem}: set ${keyVariable} or ${keyFileVariable}` : problem
    })
  }
  return problems.length === 0 ? checked.rule : yield* new PaymentsConfigError({ problems })
})

export const personalInEnvironment: Effect.Effect<PersonalRule, PaymentsConfigError, FileSystem.FileSystem> = Effect
  .gen(
    function*() {
      const rule = yield* ruleInEnvironment
      const hasKey = (yield* variableText(keyVariable)) !== undefined
      const path = yield* variableText(keyFileVariable)
      if (path === undefined) {
        return hasKey ? yield* withKey(rule, { setting: keyVariable, read: keyInVariable(keyVariable) }) : rule
      }
      if (hasKey) {
        return yield* new PaymentsConfigError({
          problems: [{ setting: keyVariable, problem: `and ${keyFileVariable} are both set: unset one of them` }]
        })
      }
      return yield* withKey(rule, makeKeyFile(yield* FileSystem.FileSystem, keyFileVariable, path))
    }
  )
